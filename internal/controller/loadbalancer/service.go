package loadbalancer

import (
	"context"
	"net/netip"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/internal/controller/kit"
	"fairlead.dev/fairlead/internal/controller/service"
	"fairlead.dev/fairlead/internal/ipam"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// byService says that a Service of the hub is what serves the class.
func (in *inputs) byService() bool { return in.class != nil && in.class.Spec.Service != nil }

// onService serves a LoadBalancer by a Service of the hub, and says whether that is the way. What it has of the other way
// it gives up: a class may come to serve by something else.
func (r *Reconciler) onService(ctx context.Context, l *clusterv1.LoadBalancer, in *inputs, f *facts) (bool, reconcile.Result, error) {
	ref := ipam.Ref{Namespace: l.Namespace, Name: l.Name}
	if !in.byService() && (in.class != nil || !r.Services.Has(ref)) {
		if r.Services.Has(ref) {
			if _, err := r.Services.Release(ctx, ref); err != nil {
				return false, reconcile.Result{}, err
			}
		}
		return false, reconcile.Result{}, nil
	}
	if still, err := r.giveUp(ctx, ref); err != nil || still {
		return true, reconcile.Result{RequeueAfter: moment}, err
	}
	groups, err := r.selected(ctx, l)
	if err != nil {
		return true, reconcile.Result{}, err
	}
	_, admission, err := kit.Admit(ctx, r.Client, l.Namespace, in.tenant)
	if err != nil {
		return true, reconcile.Result{}, err
	}
	state, err := r.Services.Ensure(ctx, service.Wanted{LoadBalancer: l, Class: in.class, Tenant: in.tenant, Admission: admission, Problems: f.problems, Groups: groups})
	if err != nil {
		return true, reconcile.Result{}, err
	}
	f.service = &state
	if err := r.write(ctx, l, *f); err != nil {
		return true, reconcile.Result{}, err
	}
	return true, reconcile.Result{RequeueAfter: state.Again}, nil
}

// giveUp releases what a LoadBalancer has of the ledger, or says that it may not yet: nothing is given up while proxies serve on
// what they had.
func (r *Reconciler) giveUp(ctx context.Context, ref ipam.Ref) (still bool, err error) {
	for _, e := range r.Keeper.HeldBy(ref) {
		if e.Phase == ipam.Granted && len(r.Keeper.FrozenBy(e.Pool)) > 0 {
			return true, nil
		}
	}
	r.unasked(ref)
	return false, r.Keeper.Release(ctx, ref)
}

// byOthers says that somebody else manages the class's load balancers.
func (in *inputs) byOthers() bool { return in.class != nil && in.class.Spec.HooksOnly != nil }

// onOthers is for a LoadBalancer whose load balancer somebody else manages, and says whether that is so. It has nothing of ours, and the
// controller of members tells of its Machines.
func (r *Reconciler) onOthers(ctx context.Context, l *clusterv1.LoadBalancer, in *inputs, f *facts) (bool, reconcile.Result, error) {
	if !in.byOthers() {
		return false, reconcile.Result{}, nil
	}
	if still, err := r.giveUp(ctx, ipam.Ref{Namespace: l.Namespace, Name: l.Name}); err != nil || still {
		return true, reconcile.Result{RequeueAfter: moment}, err
	}
	f.others = &in.class.Spec.HooksOnly.InfrastructureRef
	return true, reconcile.Result{}, r.write(ctx, l, *f)
}

// givenBy is the address that whoever manages a load balancer gave it, as spec.endpoint has it.
func givenBy(host string) clusterv1.LoadBalancerAddress {
	if a, err := netip.ParseAddr(host); err == nil {
		return statusAddress(a.Unmap(), "")
	}
	return clusterv1.LoadBalancerAddress{Type: clusterv1.AddressTypeHostname, Value: host}
}

// orphaned takes away the Service of a LoadBalancer that is gone without having been released.
func (r *Reconciler) orphaned(ctx context.Context, ref ipam.Ref) error {
	if !r.Services.Has(ref) {
		return nil
	}
	gone, err := r.Services.Orphaned(ctx, ref)
	if err != nil || !gone {
		return err
	}
	_, err = r.Services.Release(ctx, ref)
	return err
}
