package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/controller"
	"fairlead.dev/fairlead/internal/patience"
	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/util/uuid"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// ManagerLease is the Lease in the system namespace that the leading manager holds.
const ManagerLease = "fairlead-manager"

// ManagerOptions are what `fairlead manager` is told.
type ManagerOptions struct {
	Kubeconfig, Context string
	// MetricsAddress serves /metrics, /healthz and /readyz; HealthAddress the last two alone. Empty: nothing.
	MetricsAddress, HealthAddress string
	LeaderElection                LeaderElection
	// Controllers to run; empty: all.
	Controllers []string
	Logger      *slog.Logger
}

// LeaderElection makes one of several managers the only one that writes.
type LeaderElection struct {
	Enabled                                   bool
	LeaseDuration, RenewDeadline, RetryPeriod time.Duration
}

// DefaultLeaderElection is what Kubernetes' own components use.
func DefaultLeaderElection() LeaderElection {
	return LeaderElection{Enabled: true, LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second}
}

// RunManager runs until ctx ends, or leadership is lost, which is an error.
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
	logger := logr.FromSlogHandler(o.Logger.Handler())
	ctrl.SetLogger(logger)
	scheme, err := Scheme()
	if err != nil {
		return err
	}
	lock, err := leaderLock(cfg, ManagerLease)
	if err != nil {
		return err
	}
	mgr, err := ctrl.NewManager(patience.Config(cfg), manager.Options{
		Scheme: scheme, Logger: logger, Cache: managerCache(),
		Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
		LeaderElection: o.LeaderElection.Enabled, LeaderElectionResourceLockInterface: lock, LeaderElectionReleaseOnCancel: true,
		LeaseDuration: &o.LeaderElection.LeaseDuration, RenewDeadline: &o.LeaderElection.RenewDeadline, RetryPeriod: &o.LeaderElection.RetryPeriod,
	})
	if err != nil {
		return fmt.Errorf("making the manager: %w", err)
	}
	watcher, err := client.NewWithWatch(cfg, client.Options{Scheme: scheme})
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	names := o.Controllers
	if len(names) == 0 {
		names = controller.All()
	}
	registry := prometheus.NewRegistry()
	if err := controller.Setup(ctx, mgr, controller.Options{Logger: o.Logger, Controllers: names, Watcher: watcher, Metrics: registry}); err != nil {
		return err
	}
	if err := addServers(mgr, o, prometheus.Gatherers{metrics.Registry, registry}); err != nil {
		return err
	}
	o.Logger.Info("manager starts", "controllers", names, "leaderElection", o.LeaderElection.Enabled)
	if err := mgr.Start(ctx); err != nil {
		return fmt.Errorf("running the manager: %w", err)
	}
	return nil
}

// managerCache holds what the controllers read, and no more of kinds that others fill.
func managerCache() cache.Options {
	made, err := labels.NewRequirement(v1alpha1.LabelTenant, selection.Exists, nil)
	if err != nil {
		panic(fmt.Sprintf("the label %s is none: %v", v1alpha1.LabelTenant, err)) // a constant
	}
	ours := cache.ByObject{Label: labels.NewSelector().Add(*made)}
	return cache.Options{
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&coordinationv1.Lease{}: {Namespaces: map[string]cache.Config{
				v1alpha1.SystemNamespace: {},
				cache.AllNamespaces:      {FieldSelector: fields.OneTermEqualSelector("metadata.name", v1alpha1.AgentLease)},
			}},
			&corev1.ServiceAccount{}:     ours,
			&rbacv1.RoleBinding{}:        ours,
			&rbacv1.ClusterRole{}:        ours,
			&rbacv1.ClusterRoleBinding{}: ours,
		},
	}
}

// leaderLock is the leaders' Lease in the system namespace. It writes no events.
func leaderLock(cfg *rest.Config, name string) (resourcelock.Interface, error) {
	c, err := coordinationclient.NewForConfig(rest.AddUserAgent(rest.CopyConfig(cfg), "leader-election"))
	if err != nil {
		return nil, fmt.Errorf("making a client for leader election: %w", err)
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("naming this process: %w", err)
	}
	return &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: v1alpha1.SystemNamespace, Name: name},
		Client:     c,
		LockConfig: resourcelock.ResourceLockConfig{Identity: host + "_" + string(uuid.NewUUID())},
	}, nil
}

// addServers serves metrics and health for as long as the manager runs.
func addServers(mgr manager.Manager, o ManagerOptions, gather prometheus.Gatherer) error {
	var ready atomic.Bool
	if err := mgr.Add(onStandby(func(ctx context.Context) error {
		ready.Store(mgr.GetCache().WaitForCacheSync(ctx))
		return nil
	})); err != nil {
		return fmt.Errorf("adding the readiness check: %w", err)
	}
	health := http.NewServeMux()
	health.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	health.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		if !ready.Load() {
			http.Error(w, "the caches are not complete yet", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	all := http.NewServeMux()
	all.Handle("/", health)
	all.Handle("/metrics", promhttp.HandlerFor(gather, promhttp.HandlerOpts{}))
	for address, handler := range map[string]http.Handler{o.MetricsAddress: all, o.HealthAddress: health} {
		if address == "" {
			continue
		}
		l, err := net.Listen("tcp", address)
		if err != nil {
			return fmt.Errorf("serving metrics or health: %w", err)
		}
		server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
		if err := mgr.Add(onStandby(func(ctx context.Context) error {
			stop := context.AfterFunc(ctx, func() { _ = server.Close() }) // what is open needs no answer any more
			defer stop()
			if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
				return fmt.Errorf("serving on %s: %w", address, err)
			}
			return nil
		})); err != nil {
			return fmt.Errorf("adding a server: %w", err)
		}
	}
	return nil
}

// onStandby is a part that runs in every manager, leader or not.
type onStandby func(context.Context) error

// Start runs it.
func (f onStandby) Start(ctx context.Context) error { return f(ctx) }

// NeedLeaderElection says that it doesn't.
func (onStandby) NeedLeaderElection() bool { return false }
