package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/controller/address"
	"fairlead.dev/fairlead/internal/controller/adoption"
	"fairlead.dev/fairlead/internal/controller/ask"
	"fairlead.dev/fairlead/internal/controller/epoch"
	"fairlead.dev/fairlead/internal/controller/fleet"
	"fairlead.dev/fairlead/internal/controller/kit"
	"fairlead.dev/fairlead/internal/controller/lead"
	"fairlead.dev/fairlead/internal/controller/ledger"
	"fairlead.dev/fairlead/internal/controller/loadbalancer"
	"fairlead.dev/fairlead/internal/controller/machine"
	"fairlead.dev/fairlead/internal/controller/pool"
	"fairlead.dev/fairlead/internal/controller/providerkind"
	"fairlead.dev/fairlead/internal/controller/service"
	"fairlead.dev/fairlead/internal/controller/targetgroup"
	"fairlead.dev/fairlead/internal/controller/tenant"
	"fairlead.dev/fairlead/internal/proof"
	"github.com/prometheus/client_golang/prometheus"
	coordinationv1 "k8s.io/api/coordination/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlcontroller "sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Names of the controllers, as --controllers takes them.
const (
	Tenants       = "tenant"
	Classes       = "class"
	Pools         = "pool"
	LoadBalancers = "loadbalancer" // with the Addresses that it grants and frees
	TargetGroups  = "targetgroup"
	Endpoints     = "endpoint" // of Cluster API's Clusters

	ExternalControlPlanes = "externalcontrolplane"
	UnmanagedClusters     = "unmanagedcluster"
)

// All names all controllers.
func All() []string {
	return []string{Tenants, Classes, Pools, LoadBalancers, TargetGroups, Endpoints, ExternalControlPlanes, UnmanagedClusters, Members}
}

// atOnce is how many LoadBalancers are reconciled at once: each waits for the API server most of the time.
const atOnce = 32

// Options of the controllers.
type Options struct {
	Logger *slog.Logger
	// Controllers to run, of All.
	Controllers []string
	// Watcher lists and watches ProxyReports.
	Watcher client.WithWatch
	// Guard says why nothing may be written now, and hears of versions that go back; nil: everything may be.
	Guard *lead.Guard
	// Metrics are registered here.
	Metrics prometheus.Registerer
}

// Setup adds the controllers to a manager.
func Setup(ctx context.Context, mgr manager.Manager, o Options) error {
	for _, name := range o.Controllers {
		if !slices.Contains(All(), name) {
			return fmt.Errorf("controller %q: there are %s", name, strings.Join(All(), ", "))
		}
	}
	if err := mgr.GetFieldIndexer().IndexField(ctx, &v1alpha1.Tenant{}, kit.TenantByNamespace, func(obj client.Object) []string {
		if t, ok := obj.(*v1alpha1.Tenant); ok {
			return []string{t.NamespaceName()}
		}
		return nil
	}); err != nil {
		return fmt.Errorf("indexing tenants: %w", err)
	}
	if err := mgr.GetFieldIndexer().IndexField(ctx, &discoveryv1.EndpointSlice{}, service.SlicesByService, service.ServiceOf); err != nil {
		return fmt.Errorf("indexing endpoint slices: %w", err)
	}
	w := &wiring{Options: o, mgr: mgr, client: mgr.GetClient(), versions: kit.NewVersions()}
	if o.Guard != nil {
		w.client = lead.Client(w.client, o.Guard.Check)
	}
	w.fleet = fleet.New(fleet.Options{Logger: o.Logger.With("part", "fleet"), Now: time.Now, Lease: w.readLease, WentBack: w.wentBack})
	w.runner = w.fleet.Runner(fleet.Source{Cache: mgr.GetCache(), Watcher: o.Watcher})
	if err := mgr.Add(w.runner); err != nil {
		return fmt.Errorf("adding the fleet: %w", err)
	}
	w.keeper = ledger.New(ledger.Options{
		Logger: o.Logger.With("part", "ledger"), Client: w.client, Reader: mgr.GetAPIReader(),
		Settled: w.settled, Trouble: w.fleet.Trouble, PoolsOf: w.poolsOf, Wake: func(r ref) { w.loadBalancers.Wake(r) }, Changed: w.sumsChanged,
	})
	recorder := mgr.GetEventRecorder("fairlead-manager")
	w.addresses = address.New(address.Options{
		Logger: o.Logger.With("controller", "address"), Client: w.client, Reader: mgr.GetAPIReader(),
		Keeper: w.keeper, Fleet: w.fleet, Wake: func(r ref) { w.loadBalancers.Wake(r) }, Events: eventsOf[*v1alpha1.Address]{recorder, "Hold"}, Now: time.Now,
	})
	w.services = service.New(service.Options{
		Logger: o.Logger.With("part", "service"), Client: w.client, Reader: mgr.GetAPIReader(),
		Granted: func(namespace string) int { return w.keeper.UsageOf(namespace).LoadBalancers },
		Wake:    func(r ref) { w.loadBalancers.Wake(r) },
		WakeWaiters: func(namespace string) {
			for _, r := range w.keeper.Waiting(namespace) {
				w.loadBalancers.Wake(r)
			}
			w.tenants.NamespaceChanged(context.Background(), namespace)
		},
	})
	w.follower = &follower{wiring: w}
	w.providers = providerkind.New(providerkind.Options{
		Logger: o.Logger.With("part", "providerkind"), Client: w.client, Cache: mgr.GetCache(), Reader: mgr.GetAPIReader(), Kinds: mgr.GetRESTMapper(), Follow: w.follower.follow, Now: time.Now,
	})
	w.loadBalancers = loadbalancer.New(loadbalancer.Options{
		Logger: o.Logger.With("controller", LoadBalancers), Client: w.client, Keeper: w.keeper, Fleet: w.fleet, Services: w.services, Providers: w.providers, Versions: w.versions,
		Metrics: loadbalancer.NewMetrics(o.Metrics), Events: eventsOf[*clusterv1.LoadBalancer]{recorder, "Reconcile"}, Addresses: w.addresses.Queue, Now: time.Now,
	})
	w.adoption = adoption.New(adoption.Options{
		Logger: o.Logger.With("controller", "adoption"), Client: w.client, Keeper: w.keeper, Fleet: w.fleet, Events: eventsOf[*v1alpha1.Proxy]{recorder, "Fence"},
	})
	w.asks = ask.New(ask.Options{Logger: o.Logger.With("controller", "ask"), Client: w.client, Fleet: w.fleet})
	w.machines = machine.New(machine.Options{
		Logger: o.Logger.With("controller", "machine"), Client: w.client, Reader: mgr.GetAPIReader(), Kinds: mgr.GetRESTMapper(), Fleet: w.fleet,
		PoolsServedBy: w.keeper.PoolsServedBy, Events: eventsOf[*v1alpha1.Proxy]{recorder, "Fence"},
	})
	w.pools = &pool.Reconciler{Client: w.client, Keeper: w.keeper, Fleet: w.fleet, Queue: &kit.Queue{}, Events: eventsOf[*v1alpha1.AddressPool]{recorder, "Release"}}
	w.tenants = tenant.New(tenant.Options{Logger: o.Logger.With("controller", Tenants), Client: w.client, Reader: mgr.GetAPIReader(), Keeper: w.keeper, Services: w.services.Count, Now: time.Now})
	w.epochs = epoch.New(epoch.Options{
		Logger: o.Logger.With("controller", "epoch"), Client: w.client, Fleet: w.fleet, Events: eventsOf[*v1alpha1.Tenant]{recorder, "Wait"}, Now: time.Now,
	})
	w.groups = &targetgroup.Reconciler{Client: w.client, Fleet: w.fleet, Versions: w.versions, Queue: &kit.Queue{}, Now: time.Now}
	w.fleet.Subscribe(w.pools.FleetChanged)
	w.fleet.Subscribe(w.groups.FleetChanged)
	o.Metrics.MustRegister(poolCollector{w.pools, w.keeper}, tenant.NewCollector(w.tenants))
	if err := w.remember(ctx); err != nil {
		return err
	}
	for name, add := range map[string]func() error{
		Tenants: func() error { return errors.Join(w.addTenants(), w.addEpochs()) }, Classes: w.addClasses, Pools: w.addPools, LoadBalancers: w.addLoadBalancers, TargetGroups: w.addTargetGroups, Endpoints: w.addEndpoints,
		ExternalControlPlanes: w.addExternalControlPlanes, UnmanagedClusters: w.addUnmanagedClusters,
		Members: w.addMembers,
	} {
		if !slices.Contains(o.Controllers, name) {
			continue
		}
		if err := add(); err != nil {
			return fmt.Errorf("adding controller %s: %w", name, err)
		}
	}
	return nil
}

// wiring is what the controllers share.
type wiring struct {
	Options
	mgr       manager.Manager
	client    client.Client // reads the cache, and writes while this manager leads
	versions  *kit.Versions
	fleet     *fleet.Fleet
	runner    *fleet.Runner
	keeper    *ledger.Keeper
	services  *service.Services
	follower  *follower
	providers *providerkind.Kinds
	synced    []func() bool

	addresses     *address.Reconciler
	loadBalancers *loadbalancer.Reconciler
	adoption      *adoption.Reconciler
	asks          *ask.Reconciler
	machines      *machine.Reconciler
	epochs        *epoch.Reconciler
	pools         *pool.Reconciler
	tenants       *tenant.Reconciler
	groups        *targetgroup.Reconciler

	// elsewhere speaks for the proxies in a management cluster whose hub is another one; nil: this is the hub.
	elsewhere Elsewhere
}

func (w *wiring) readLease(ctx context.Context, name string) (*coordinationv1.Lease, error) {
	l := &coordinationv1.Lease{}
	return l, w.mgr.GetAPIReader().Get(ctx, types.NamespacedName{Namespace: v1alpha1.SystemNamespace, Name: name}, l)
}

// settled says whether every proxy that may serve has applied the Addresses up to a version.
func (w *wiring) settled(proxyPool string, addresses proof.Version) bool {
	for _, p := range w.fleet.Pool(proxyPool) {
		if !p.Out && (!p.Reported || p.Through.Addresses < addresses) {
			return false
		}
	}
	return true
}

// poolsOf names the AddressPools of the classes that a pool of proxies serves.
func (w *wiring) poolsOf(proxyPool string) []string {
	list := &v1alpha1.LoadBalancerClassList{}
	if err := w.mgr.GetCache().List(context.Background(), list, client.UnsafeDisableDeepCopy); err != nil {
		w.Logger.Error("classes can't be listed", "err", err)
	}
	var out []string
	for i := range list.Items {
		if p := list.Items[i].Spec.Proxy; p != nil && p.Pool == proxyPool {
			out = append(out, list.Items[i].Spec.AddressPools...)
		}
	}
	return out
}

func (w *wiring) sumsChanged(pools, namespaces []string) {
	for _, p := range pools {
		w.pools.Changed(p)
	}
	for _, n := range namespaces {
		w.services.NamespaceChanged(n)
		w.tenants.NamespaceChanged(context.Background(), n)
	}
}

// new makes a controller whose workers start once all memory is complete.
func (w *wiring) new(name string, r reconcile.Reconciler, workers int) (ctrlcontroller.Controller, error) {
	yes, timeout := true, 10*time.Minute
	if w.elsewhere != nil {
		timeout = 0 // it is the agent's manager that says how long it waits
	}
	return ctrlcontroller.New(name, w.mgr, ctrlcontroller.Options{
		Reconciler: kit.Patient{Reconciler: r}, MaxConcurrentReconciles: workers, CacheSyncTimeout: timeout,
		SkipNameValidation: &yes, // one process may run several managers
	})
}

// eventsOf records events of objects of one kind, all with one action. The recorder counts an event that comes again within
// minutes. It tells objects apart by their versions too, so it gets them without.
type eventsOf[T client.Object] struct {
	events.EventRecorder
	action string
}

// Event writes one.
func (e eventsOf[T]) Event(o T, kind, reason, message string) {
	c := o.DeepCopyObject().(client.Object)
	c.SetResourceVersion("")
	e.Eventf(c, nil, kind, reason, e.action, "%s", message)
}
