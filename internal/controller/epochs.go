package controller

import (
	"context"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/controller/kit"
	coordinationv1 "k8s.io/api/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// addEpochs tells Tenants the hub's epoch. A Tenant that knows more than others has them told, too.
func (w *wiring) addEpochs() error {
	c, err := w.new("epoch", w.epochs, 4)
	if err != nil {
		return err
	}
	informer, err := w.mgr.GetCache().GetInformer(context.Background(), &v1alpha1.Tenant{})
	if err != nil {
		return err
	}
	if _, err := informer.AddEventHandler(kit.Handler(func(*v1alpha1.Tenant) {}, w.epochs.Forget)); err != nil {
		return err
	}
	if err := w.watches(c,
		watch{&v1alpha1.Tenant{}, func(ctx context.Context, o client.Object) []reconcile.Request {
			out := []reconcile.Request{key("", o.GetName())}
			if t, ok := o.(*v1alpha1.Tenant); ok && t.Status.HubEpoch > 0 {
				for _, name := range w.epochs.Behind(ctx) {
					out = append(out, key("", name))
				}
			}
			return out
		}, nil},
		watch{&coordinationv1.Lease{}, w.tenantsOf(func(o client.Object) string { return o.GetNamespace() }), predicate.NewPredicateFuncs(func(o client.Object) bool { return o.GetName() == v1alpha1.AgentLease })},
	); err != nil {
		return err
	}
	return c.Watch(barrier{w.epochs.Queue, w.complete, func(ctx context.Context) error {
		for _, name := range w.epochs.Behind(ctx) {
			w.epochs.Queue.Add("", name)
		}
		return nil
	}})
}
