package controller

import (
	"context"
	"fmt"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/internal/controller/member"
	"fairlead.dev/fairlead/internal/controller/providerkind"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlcontroller "sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// follower has provider kinds be watched by the controllers of LoadBalancers and of their members, where these run.
type follower struct {
	*wiring
	loadBalancers, members ctrlcontroller.Controller
}

// follow watches a kind of objects that implement LoadBalancers, and wakes those that own or want one.
func (f *follower) follow(ctx context.Context, kind schema.GroupVersionKind) error {
	if err := f.mayWatch(ctx, kind); err != nil {
		return err
	}
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(kind)
	if _, err := f.mgr.GetCache().GetInformer(ctx, o); err != nil { // it waits until the first list is in
		return fmt.Errorf("watching %ss: %w", kind.Kind, err)
	}
	wakes := func(match func(*clusterv1.LoadBalancer) bool) watch {
		return watch{of: o, to: func(ctx context.Context, o client.Object) []reconcile.Request {
			owner := providerkind.OwnerOf(o)
			return f.inNamespace(ctx, o.GetNamespace(), func(l *clusterv1.LoadBalancer) bool {
				return (l.Name == owner || providerkind.Refers(l, o)) && match(l)
			})
		}}
	}
	if f.loadBalancers != nil {
		if err := f.watches(f.loadBalancers, wakes(func(*clusterv1.LoadBalancer) bool { return true })); err != nil {
			return err
		}
	}
	if f.members != nil {
		return f.watches(f.members, wakes(member.Concerns))
	}
	return nil
}
