package agent

import (
	"context"
	"fmt"
	"sync/atomic"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// defaults knows the class of Services that name none, so that the manager need not write it.
// Until the hub has shown Tenant and classes, or if it doesn't, the class stays empty and the manager
// fills it in. That is why this cache is no condition of anybody's start.
type defaults struct {
	hub    cache.Cache
	tenant string
	synced atomic.Bool
	// changed is told of each change of the Tenant.
	changed func()
}

// Start fills the cache until ctx ends.
func (d *defaults) Start(ctx context.Context) error {
	for _, kind := range []client.Object{&v1alpha1.Tenant{}, &v1alpha1.LoadBalancerClass{}} {
		informer, err := d.hub.GetInformer(ctx, kind, cache.BlockUntilSynced(false))
		if err != nil {
			return fmt.Errorf("watching classes: %w", err)
		}
		if _, tenants := kind.(*v1alpha1.Tenant); !tenants {
			continue
		}
		if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{UpdateFunc: d.update}); err != nil {
			return fmt.Errorf("watching the Tenant: %w", err)
		}
	}
	go func() { d.synced.Store(d.hub.WaitForCacheSync(ctx)) }()
	return d.hub.Start(ctx)
}

// update tells of what concerns more than classes.
func (d *defaults) update(old, next any) {
	before, ok := old.(*v1alpha1.Tenant)
	after, ok2 := next.(*v1alpha1.Tenant)
	if ok && ok2 && (before.Cluster() != after.Cluster() || before.Status.HubEpoch != after.Status.HubEpoch) {
		d.changed()
	}
}

// class is the Tenant's, else the one that is marked in the hub, of several the oldest; empty if it is not known.
func (d *defaults) class() string {
	if !d.synced.Load() {
		return ""
	}
	ctx := context.Background() // reads memory
	t := &v1alpha1.Tenant{}
	if d.hub.Get(ctx, types.NamespacedName{Name: d.tenant}, t) == nil && t.Spec.DefaultClass != "" {
		return t.Spec.DefaultClass
	}
	list := &v1alpha1.LoadBalancerClassList{}
	if d.hub.List(ctx, list) != nil {
		return ""
	}
	var oldest *v1alpha1.LoadBalancerClass
	for i := range list.Items {
		c := &list.Items[i]
		if c.Annotations[v1alpha1.AnnotationDefaultClass] != "true" {
			continue
		}
		if oldest == nil || c.CreationTimestamp.Before(&oldest.CreationTimestamp) || c.CreationTimestamp.Equal(&oldest.CreationTimestamp) && c.Name < oldest.Name {
			oldest = c
		}
	}
	if oldest == nil {
		return ""
	}
	return oldest.Name
}

// proxied says whether proxies serve a class. It is known once the hub has shown the class.
func (d *defaults) proxied(class string) (yes, known bool) {
	c := &v1alpha1.LoadBalancerClass{}
	if !d.synced.Load() || d.hub.Get(context.Background(), types.NamespacedName{Name: class}, c) != nil { // reads memory
		return false, false
	}
	return c.Spec.Proxy != nil, true
}
