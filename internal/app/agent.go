package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/agent"
	"fairlead.dev/fairlead/internal/agent/service"
	"fairlead.dev/fairlead/internal/controller"
	"fairlead.dev/fairlead/internal/patience"
	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// DefaultClassPrefix stands before the class in a Service's spec.loadBalancerClass.
const DefaultClassPrefix = "fairlead.dev"

// AgentOptions are what `fairlead agent` is told.
type AgentOptions struct {
	// Kubeconfig and Context reach the tenant's cluster, the Hub ones the hub.
	Kubeconfig, Context       string
	HubKubeconfig, HubContext string
	// HubNamespace is the tenant's in the hub. Default: the hub kubeconfig's context's, else the Tenant's name.
	HubNamespace string
	// Tenant is its name in the hub. Default: HubNamespace.
	Tenant string
	Filter service.Filter
	// Management has LoadBalancers over Machines mirrored to the hub, and follows these Machines.
	Management bool
	// Metrics are shown to those whom the tenant's cluster knows.
	Metrics MetricsOptions
	// HealthAddress serves /healthz and /readyz alone; empty: nothing.
	HealthAddress  string
	LeaderElection LeaderElection
	Logger         *slog.Logger
}

// errNoHubNamespace says what to do.
var errNoHubNamespace = errors.New("which namespace of the hub is this cluster's? Set --hub-namespace, or --tenant, or the namespace of the hub kubeconfig's context")

// RunAgent runs until ctx ends.
func RunAgent(ctx context.Context, o AgentOptions) error {
	tenant, err := LoadConfig(o.Kubeconfig, o.Context, "agent")
	if err != nil {
		return err
	}
	hub, namespace, err := LoadConfigAndNamespace(o.HubKubeconfig, o.HubContext, "agent")
	if err != nil {
		return err
	}
	if o.HubNamespace, o.Tenant, err = hubNames(o.HubNamespace, o.Tenant, namespace); err != nil {
		return err
	}
	return RunAgentWith(ctx, tenant, hub, o)
}

// hubNames fills in what isn't told. client-go says "default" where a kubeconfig names no namespace.
func hubNames(namespace, tenant, fromContext string) (string, string, error) {
	if namespace == "" && fromContext != "default" {
		namespace = fromContext
	}
	if namespace == "" {
		namespace = tenant
	}
	if tenant == "" {
		tenant = namespace
	}
	if namespace == "" {
		return "", "", errNoHubNamespace
	}
	return namespace, tenant, nil
}

// RunAgentWith is RunAgent with client configurations; HubNamespace and Tenant are set.
func RunAgentWith(ctx context.Context, tenant, hub *rest.Config, o AgentOptions) error {
	klog.SetSlogLogger(o.Logger)
	ctrl.SetLogger(logr.FromSlogHandler(o.Logger.Handler()))
	scheme, err := Scheme()
	if err != nil {
		return err
	}
	host, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("naming this agent: %w", err)
	}
	options := agent.Options{
		Tenant: tenant, Hub: hub, HubNamespace: o.HubNamespace, TenantName: o.Tenant,
		Instance: host + "_" + string(uuid.NewUUID()), Filter: o.Filter,
		Scheme: scheme, Logger: o.Logger,
	}
	lock, err := leaderLock(tenant, v1alpha1.AgentLease)
	if err != nil {
		return err
	}
	contact, err := agent.NewContact(options)
	if err != nil {
		return fmt.Errorf("running the agent: %w", err)
	}
	all := lives{Logger: o.Logger, Metrics: o.Metrics, API: tenant, HealthAddress: o.HealthAddress, Waits: contact.Why, New: func(ctx context.Context) (*life, error) {
		bond, err := contact.Await(ctx)
		if err != nil {
			return nil, err
		}
		return newAgent(o, options, lock, contact, bond)
	}}
	if err := all.run(ctx); err != nil && (ctx.Err() == nil || !errors.Is(err, ctx.Err())) {
		return fmt.Errorf("running the agent: %w", err)
	}
	return nil
}

// members follow Machines and Clusters in a management cluster whose hub is another one.
func members(cluster *rest.Config, scheme *runtime.Scheme, metrics prometheus.Registerer, logger *slog.Logger) agent.Members {
	return func(mgr manager.Manager, hub agent.Hub) (func(types.NamespacedName), error) {
		watcher, err := client.NewWithWatch(patience.Config(cluster), client.Options{Scheme: scheme, Mapper: mgr.GetRESTMapper()})
		if err != nil {
			return nil, fmt.Errorf("making the management cluster's client: %w", err)
		}
		return controller.SetupElsewhere(mgr, controller.ElsewhereOptions{Logger: logger, Watcher: watcher, Hub: hub, Metrics: metrics})
	}
}

func newAgent(o AgentOptions, options agent.Options, lock resourcelock.Interface, contact *agent.Contact, bond *agent.Bond) (*life, error) {
	registry := prometheus.NewRegistry()
	options.Metrics = registry
	if o.Management {
		options.Members = members(options.Tenant, options.Scheme, registry, o.Logger)
	}
	election := manager.Options{}
	o.LeaderElection.into(&election, lock)
	mgr, err := agent.NewManager(options, election)
	if err != nil {
		return nil, err
	}
	complete, err := agent.Setup(mgr, options, contact, bond)
	if err != nil {
		return nil, err
	}
	o.Logger.Info("agent starts", "hubNamespace", o.HubNamespace, "tenant", o.Tenant, "classPrefix", o.Filter.ClassPrefix, "unclassed", o.Filter.Unclassed)
	return newLife(mgr, registry, complete)
}

// AgentLeave takes what the agent wrote out of the Services of a cluster whose Tenant is gone for good. Of o it reads how
// the tenant's cluster is reached, the Filter and the Logger.
func AgentLeave(ctx context.Context, o AgentOptions) error {
	cfg, err := LoadConfig(o.Kubeconfig, o.Context, "agent")
	if err != nil {
		return err
	}
	scheme, err := Scheme()
	if err != nil {
		return err
	}
	tenant, err := client.New(cfg, client.Options{Scheme: scheme})
	if err != nil {
		return fmt.Errorf("making the cluster's client: %w", err)
	}
	left, err := agent.Leave(ctx, tenant, o.Filter, o.Logger)
	o.Logger.Info("the agent's word is taken out of Services", "services", left)
	if err != nil {
		return fmt.Errorf("not all Services are let go, run it again: %w", err)
	}
	return nil
}
