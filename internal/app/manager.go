package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/controller"
	"fairlead.dev/fairlead/internal/controller/kit"
	"fairlead.dev/fairlead/internal/controller/lead"
	"fairlead.dev/fairlead/internal/machines"
	"fairlead.dev/fairlead/internal/patience"
	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// ManagerLease is the Lease in the system namespace that the leading manager holds.
const ManagerLease = v1alpha1.ManagerLease

// ManagerOptions are what `fairlead manager` is told.
type ManagerOptions struct {
	Kubeconfig, Context string
	Metrics             MetricsOptions
	// HealthAddress serves /healthz and /readyz alone; empty: nothing.
	HealthAddress  string
	LeaderElection LeaderElection
	// Controllers to run; empty: all.
	Controllers []string
	Logger      *slog.Logger
}

// RunManager runs until ctx ends.
func RunManager(ctx context.Context, o ManagerOptions) error {
	cfg, err := LoadConfig(o.Kubeconfig, o.Context, "manager")
	if err != nil {
		return err
	}
	return RunManagerWith(ctx, cfg, o)
}

// RunManagerWith is RunManager with a client configuration.
func RunManagerWith(ctx context.Context, cfg *rest.Config, o ManagerOptions) error {
	klog.SetSlogLogger(o.Logger)
	ctrl.SetLogger(logr.FromSlogHandler(o.Logger.Handler()))
	if len(o.Controllers) == 0 {
		o.Controllers = controller.All()
	}
	lock, err := leaderLock(cfg, ManagerLease)
	if err != nil {
		return err
	}
	read, err := leaderLock(cfg, ManagerLease)
	if err != nil {
		return err
	}
	hub, err := newReach(cfg, o.Logger)
	if err != nil {
		return err
	}
	all := lives{Logger: o.Logger, Metrics: o.Metrics, API: cfg, HealthAddress: o.HealthAddress, Waits: hub.Why, New: func(ctx context.Context) (*life, error) {
		return hub.until(ctx, func() (*life, error) {
			return newManager(ctx, cfg, o, lead.Options{Lock: lock, Read: read, RenewDeadline: o.LeaderElection.RenewDeadline, Now: time.Now})
		})
	}}
	if err := all.run(ctx); err != nil && (ctx.Err() == nil || !errors.Is(err, ctx.Err())) {
		return fmt.Errorf("running the manager: %w", err)
	}
	return nil
}

func newManager(ctx context.Context, cfg *rest.Config, o ManagerOptions, leading lead.Options) (*life, error) {
	scheme, err := Scheme()
	if err != nil {
		return nil, err
	}
	options := manager.Options{
		Scheme: scheme, Logger: logr.FromSlogHandler(o.Logger.Handler()), Cache: managerCache(), MapperProvider: newKinds,
		Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
	}
	if !o.LeaderElection.Enabled {
		leading.Lock, leading.Read = nil, nil
	}
	var mgr manager.Manager
	leading.HubUID = func(ctx context.Context) (string, error) { return hubUID(ctx, mgr.GetAPIReader()) }
	guard := lead.New(leading)
	o.LeaderElection.into(&options, guard)
	patient := patience.Config(cfg)
	patient.Wrap(func(next http.RoundTripper) http.RoundTripper { return lead.Transport(guard, next) })
	mgr, err = ctrl.NewManager(patient, options)
	if err != nil {
		return nil, fmt.Errorf("making the manager: %w", err)
	}
	if err := guard.Meet(ctx); err != nil {
		return nil, err
	}
	watcher, err := client.NewWithWatch(patient, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	registry := prometheus.NewRegistry()
	if err := controller.Setup(ctx, mgr, controller.Options{Logger: o.Logger, Controllers: o.Controllers, Watcher: watcher, Metrics: registry, Guard: guard}); err != nil {
		return nil, err
	}
	o.Logger.Info("manager starts", "controllers", o.Controllers, "leaderElection", o.LeaderElection.Enabled)
	l, err := newLife(mgr, registry, nil)
	if err != nil {
		return nil, err
	}
	l.guard = guard
	return l, nil
}

// hubUID reads who the hub is.
func hubUID(ctx context.Context, hub client.Reader) (string, error) {
	n := &metav1.PartialObjectMetadata{}
	n.SetGroupVersionKind(kit.NamespaceKind)
	if err := hub.Get(ctx, types.NamespacedName{Name: metav1.NamespaceSystem}, n); err != nil {
		return "", fmt.Errorf("reading namespace %s: %w", metav1.NamespaceSystem, err)
	}
	return string(n.UID), nil
}

// managerCache holds what the controllers read, and no more of kinds that others fill.
func managerCache() cache.Options {
	made, err := labels.NewRequirement(v1alpha1.LabelTenant, selection.Exists, nil)
	if err != nil {
		panic(fmt.Sprintf("the label %s is none: %v", v1alpha1.LabelTenant, err)) // a constant
	}
	ours := cache.ByObject{Label: labels.NewSelector().Add(*made)}
	madeFor, err := labels.NewRequirement(v1alpha1.LabelFor, selection.Exists, nil)
	if err != nil {
		panic(fmt.Sprintf("the label %s is none: %v", v1alpha1.LabelFor, err)) // a constant
	}
	served := cache.ByObject{Label: labels.NewSelector().Add(*madeFor)}
	return cache.Options{
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&coordinationv1.Lease{}: {Namespaces: map[string]cache.Config{
				v1alpha1.SystemNamespace: {},
				cache.AllNamespaces:      {FieldSelector: fields.OneTermEqualSelector("metadata.name", v1alpha1.AgentLease)},
			}},
			&v1alpha1.TargetGroup{}:      {Transform: withoutAnnotations},
			&corev1.Node{}:               {Transform: trimmedNode},
			&corev1.Service{}:            served,
			&discoveryv1.EndpointSlice{}: served,
			&corev1.ServiceAccount{}:     ours,
			&corev1.ResourceQuota{}:      ours,
			&rbacv1.RoleBinding{}:        ours,
			&rbacv1.ClusterRole{}:        ours,
			&rbacv1.ClusterRoleBinding{}: ours,
		},
	}
}

// trimmedNode leaves out what nobody here reads of Nodes, which are most of them: images, conditions, who wrote what. The manager writes
// single annotations of theirs.
func trimmedNode(in any) (any, error) {
	if n, ok := in.(*corev1.Node); ok {
		return machines.Trim(n), nil
	}
	return in, nil
}

// withoutAnnotations leaves out what nobody here reads of TargetGroups, which may be most of them: tenants write it. What is
// read is whether the group takes no new connections. The manager writes their status, and of those that it made single fields.
func withoutAnnotations(in any) (any, error) {
	out, err := cache.TransformStripManagedFields()(in)
	if g, ok := out.(*v1alpha1.TargetGroup); ok && len(g.Annotations) > 0 {
		_, disabled := g.Annotations[clusterv1.DisabledAnnotation]
		if g.Annotations = nil; disabled {
			g.Annotations = map[string]string{clusterv1.DisabledAnnotation: ""}
		}
	}
	return out, err
}
