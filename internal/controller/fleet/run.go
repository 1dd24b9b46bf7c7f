package fleet

import (
	"context"
	"fmt"
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/controller/kit"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Source feeds a Fleet.
type Source struct {
	Cache cache.Cache
	// Watcher lists and watches ProxyReports.
	Watcher client.WithWatch
}

// Runner returns what a manager must run, on standby too.
func (f *Fleet) Runner(s Source) *Runner {
	return &Runner{fleet: f, source: s, fed: make(chan struct{})}
}

// Runner feeds a Fleet and tells its subscribers.
type Runner struct {
	fleet  *Fleet
	source Source
	fed    chan struct{} // closed when proxies and leases are in
}

// NeedLeaderElection says that it runs on standby too.
func (*Runner) NeedLeaderElection() bool { return false }

// WaitForSync returns when the fleet knows everything that the API server had at its start.
func (r *Runner) WaitForSync(ctx context.Context) error {
	for _, c := range []chan struct{}{r.fed, r.fleet.reading} {
		select {
		case <-c:
		case <-ctx.Done():
			return fmt.Errorf("waiting for proxies and their reports: %w", ctx.Err())
		}
	}
	return nil
}

// Start runs until ctx ends.
func (r *Runner) Start(ctx context.Context) error {
	f := r.fleet
	reflector := toolscache.NewReflectorWithOptions(reportList(r.source.Watcher), &v1alpha1.ProxyReport{}, reportStore{f}, toolscache.ReflectorOptions{Name: "proxyreports"})
	go reflector.RunWithContext(ctx)
	if err := r.feed(ctx); err != nil {
		return err
	}
	go f.watchSilence(ctx)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-f.wake:
		}
		f.Tell()
	}
}

// Tell tells the subscribers what changed since it was called last. A Runner does that; one goroutine at a time.
func (f *Fleet) Tell() {
	f.mu.Lock()
	change := f.change
	f.change = newChange()
	f.mu.Unlock()
	if change.empty() {
		return
	}
	for _, tell := range f.subs {
		tell(change)
	}
}

// feed adds handlers for Proxies and Leases, and waits until both have delivered their first lists.
func (r *Runner) feed(ctx context.Context) error {
	f := r.fleet
	proxies, err := r.source.Cache.GetInformer(ctx, &v1alpha1.Proxy{})
	if err != nil {
		return fmt.Errorf("watching proxies: %w", err)
	}
	leases, err := r.source.Cache.GetInformer(ctx, &coordinationv1.Lease{})
	if err != nil {
		return fmt.Errorf("watching leases: %w", err)
	}
	onLeases, err := leases.AddEventHandler(toolscache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, isInInitialList bool) {
			if l, ok := proxyLease(obj); ok && isInInitialList {
				f.ListLease(l)
			} else if ok {
				f.SetLease(l)
			}
		},
		UpdateFunc: func(_, obj any) {
			if l, ok := proxyLease(obj); ok {
				f.SetLease(l)
			}
		},
		DeleteFunc: func(obj any) {
			if l, ok := proxyLease(obj); ok {
				f.DeleteLease(l.Name)
			}
		},
	})
	if err != nil {
		return fmt.Errorf("watching leases: %w", err)
	}
	onProxies, err := proxies.AddEventHandler(kit.Handler(f.SetProxy, f.DeleteProxy))
	if err != nil {
		return fmt.Errorf("watching proxies: %w", err)
	}
	if !toolscache.WaitForCacheSync(ctx.Done(), onLeases.HasSynced, onProxies.HasSynced) {
		return fmt.Errorf("watching proxies and leases: %w", ctx.Err())
	}
	close(r.fed)
	return nil
}

// proxyLease tells proxies' Leases from agents'.
func proxyLease(obj any) (*coordinationv1.Lease, bool) {
	if gone, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
		obj = gone.Obj
	}
	l, ok := obj.(*coordinationv1.Lease)
	return l, ok && l.Namespace == v1alpha1.SystemNamespace
}

func reportList(c client.WithWatch) toolscache.ListerWatcher {
	return &toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			if o.ResourceVersion == "0" {
				o.ResourceVersion, o.ResourceVersionMatch = "", "" // any old state won't do: it must be consistent
			}
			list := &v1alpha1.ProxyReportList{}
			return list, c.List(ctx, list, &client.ListOptions{Raw: &o})
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return c.Watch(ctx, &v1alpha1.ProxyReportList{}, &client.ListOptions{Raw: &o})
		},
	}
}

// watchSilence marks proxies whose Lease was not seen renewed in time, after a look at the Lease itself: a watch may lag.
func (f *Fleet) watchSilence(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-f.rearm:
		}
		timer.Reset(max(f.LookForSilent(ctx), time.Millisecond))
	}
}

// LookForSilent marks the proxies that are silent by now, and returns when to look again, an hour at most. A Runner
// does that; one goroutine at a time.
func (f *Fleet) LookForSilent(ctx context.Context) (again time.Duration) {
	for _, name := range f.overdue() {
		switch l, err := f.lease(ctx, name); {
		case apierrors.IsNotFound(err):
			f.DeleteLease(name)
		case err != nil:
			// Nobody could have been seen: each gets another chance once the API server is back.
			f.log.Info("a silent proxy's lease can't be read, it counts as live meanwhile", "proxy", name, "err", err)
			f.postpone(name)
		default:
			f.SetLease(l)
			f.markSilent(name)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.now()
	if next, ok := f.liveness.NextSilence(now); ok {
		return min(time.Hour, next.Sub(now))
	}
	return time.Hour
}

func (f *Fleet) postpone(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.liveness.Postpone(name, f.now())
}

// overdue names the Leases that were live and have had no renewal in time.
func (f *Fleet) overdue() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.now()
	var out []string
	for name := range f.leases {
		if !f.silent[name] && !f.liveness.Live(name, now) {
			out = append(out, name)
		}
	}
	return out
}

// markSilent takes a proxy for silent, unless a renewal was seen meanwhile.
func (f *Fleet) markSilent(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.silent[name] || f.liveness.Live(name, f.now()) || f.liveness.LastSeen(name).IsZero() {
		return
	}
	f.silent[name] = true
	if p := f.proxies[name]; p != nil {
		f.log.Info("a proxy is silent", "proxy", name)
		f.touch(p.Spec.Pool)
	}
}
