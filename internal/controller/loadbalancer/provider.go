package loadbalancer

import (
	"context"
	"fmt"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/internal/build"
	"fairlead.dev/fairlead/internal/controller/kit"
	"fairlead.dev/fairlead/internal/controller/providerkind"
	"fairlead.dev/fairlead/internal/controller/service"
	"fairlead.dev/fairlead/internal/ipam"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// onProvider serves a LoadBalancer by an object of a provider kind, and says whether that is the way. What it has of the other ways it
// gives up, and of this one where another is the way now.
func (r *Reconciler) onProvider(ctx context.Context, l *clusterv1.LoadBalancer, in *inputs, f *facts) (bool, reconcile.Result, error) {
	if in.tenant != nil { // they are served by none; what they note of one leads nowhere
		return false, reconcile.Result{}, nil
	}
	has := r.Providers != nil && providerkind.Has(l)
	if !build.ByProvider(l, in.class) && (in.class != nil || !has) {
		if has {
			left, err := r.Providers.LetGo(ctx, l)
			if err != nil {
				return false, reconcile.Result{}, err
			}
			if left != "" {
				r.Queue.AddAfter(l.Namespace, l.Name, anew)
			}
		}
		return false, reconcile.Result{}, nil
	}
	ref := ipam.Ref{Namespace: l.Namespace, Name: l.Name}
	if wait, err := r.giveUp(ctx, ref); wait || err != nil {
		return true, reconcile.Result{RequeueAfter: moment}, err
	}
	if _, err := r.Services.Release(ctx, ref); err != nil {
		return true, reconcile.Result{}, err
	}
	state, err := r.Providers.Ensure(ctx, providerkind.Wanted{LoadBalancer: l, Class: in.class, Problems: f.problems})
	if err != nil {
		return true, reconcile.Result{}, err
	}
	if state.Unread {
		return true, reconcile.Result{RequeueAfter: state.Again}, nil
	}
	lack, err := r.pull(ctx, l, state.Endpoint)
	if err != nil {
		return true, reconcile.Result{}, err
	}
	if state.Lack == nil {
		state.Lack = lack
	}
	f.service, f.mirrored = &state.State, state.Conditions
	return true, reconcile.Result{RequeueAfter: state.Again}, r.write(ctx, l, *f)
}

// pull writes the endpoint that the provider object has to a LoadBalancer that says none. lack is why that can't be.
func (r *Reconciler) pull(ctx context.Context, l *clusterv1.LoadBalancer, e clusterv1.Endpoint) (lack *service.Lack, err error) {
	if e.Host == "" || l.Spec.Endpoint != nil && (l.Spec.Endpoint.Host != "" || l.Spec.Endpoint.Port != 0) {
		return nil, nil
	}
	next := l.DeepCopy()
	next.Spec.Endpoint = &e
	err = r.Client.Patch(ctx, next, client.MergeFromWithOptions(l, client.MergeFromWithOptimisticLock{}), client.FieldOwner(kit.FieldManager))
	switch {
	case apierrors.IsInvalid(err):
		return &service.Lack{Reason: clusterv1.ReasonEndpointDiffers, Message: fmt.Sprintf("the provider object's endpoint can be no LoadBalancer's, set spec.endpoint: %v", err)}, nil
	case err != nil:
		return nil, fmt.Errorf("noting the endpoint of LoadBalancer %s/%s: %w", l.Namespace, l.Name, err)
	}
	*l = *next
	r.turns.Followed(ipam.Ref{Namespace: l.Namespace, Name: l.Name}, contentOf(l))
	return nil, nil
}

// mirror shows what the provider object says of itself, in the proposal's conditions; without one they are nobody's.
func (f *facts) mirror(s *clusterv1.LoadBalancerStatus) {
	for _, kind := range []string{clusterv1.ConditionExists, clusterv1.ConditionMatchesConfig, clusterv1.ConditionDNSResolvable} {
		if c := meta.FindStatusCondition(f.mirrored, kind); c != nil {
			next := *c
			next.ObservedGeneration, next.Message = f.lb.Generation, sentence(c.Message)
			meta.SetStatusCondition(&s.Conditions, next)
		} else {
			meta.RemoveStatusCondition(&s.Conditions, kind)
		}
	}
}

// releaseProvider has the provider object of a LoadBalancer that is being deleted be gone, and says what of it is left; "": nothing. What
// moves to another hub goes on there.
func (r *Reconciler) releaseProvider(ctx context.Context, l *clusterv1.LoadBalancer) (left string, err error) {
	_, moves := l.Annotations[clusterv1.MoveAnnotation]
	if r.Providers == nil || moves {
		return "", nil
	}
	in, err := r.inputs(ctx, l)
	if err != nil {
		return "", err
	}
	if !providerkind.Has(l) && (in.tenant != nil || !build.ByProvider(l, in.class)) {
		return "", nil
	}
	if still, err := r.Providers.Still(ctx, l); err != nil || still != "" {
		return still, err
	}
	return r.Providers.Release(ctx, l, in.class)
}

// again is when to look again at what a LoadBalancer that is being deleted waits for.
func again(left string) reconcile.Result {
	if left == "" {
		return reconcile.Result{}
	}
	return reconcile.Result{RequeueAfter: anew}
}
