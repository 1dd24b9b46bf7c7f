package address

import (
	"context"
	"fmt"
	"strings"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/controller/kit"
	"fairlead.dev/fairlead/internal/controller/ledger"
	"fairlead.dev/fairlead/internal/ipam"
	"fairlead.dev/fairlead/internal/proof"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// lookAgain is how often an Address that is held is looked at, whatever clocks do.
const lookAgain = time.Hour

// lookSoon is how often one is looked at whose time is over, where an agent has yet to write its objects again.
const lookSoon = time.Minute

// missing keeps an Address whose holders are missing for them, until they are back or their time is over.
func (r *Reconciler) missing(ctx context.Context, a *v1alpha1.Address) (reconcile.Result, error) {
	var holders []string
	var refs []ipam.Ref
	wrote := false
	for _, h := range a.Spec.Holders {
		key := types.NamespacedName{Namespace: h.Namespace, Name: h.Name}
		there, err := r.exists(ctx, key)
		if err != nil {
			return reconcile.Result{}, err
		}
		if there {
			continue
		}
		left, err := r.left(ctx, h.Namespace)
		if err != nil {
			return reconcile.Result{}, err
		}
		if left {
			// What a frozen proxy serves would be granted again at once. As a held one it is looked at when that is over.
			still, err := r.standsStill(ctx, a)
			if err != nil {
				return reconcile.Result{}, err
			}
			left = !still
		}
		if ref := (ipam.Ref{Namespace: h.Namespace, Name: h.Name}); left {
			if err := r.giveUp(ctx, a.Name, ref); err != nil {
				return reconcile.Result{}, err
			}
			wrote = true
		} else {
			holders, refs = append(holders, key.String()), append(refs, ref)
		}
	}
	if wrote {
		return reconcile.Result{}, nil // it is looked at again as it is now
	}
	noted := ledger.Noted(a)
	next, over := proof.JudgeMissing(noted, holders, r.Now())
	if over {
		if still, err := r.standsStill(ctx, a); err != nil || still {
			return reconcile.Result{RequeueAfter: lookAgain}, err
		}
		if comes, err := r.agentComes(ctx, refs); err != nil || comes {
			return reconcile.Result{RequeueAfter: lookSoon}, err
		}
		for _, ref := range refs {
			if err := r.giveUp(ctx, a.Name, ref); err != nil {
				return reconcile.Result{}, err
			}
		}
		return reconcile.Result{}, nil
	}
	said, err := r.Keeper.Note(ctx, a, next)
	if err != nil {
		return reconcile.Result{}, err
	}
	if len(holders) == 0 {
		return reconcile.Result{}, nil
	}
	if said && !next.Until.Equal(noted.Until) {
		r.Logger.Warn("an address's holder is missing, it is kept for it", "address", a.Name, "loadbalancers", strings.Join(holders, ","), "until", next.Until)
		if r.Events != nil {
			r.Events.Event(a, "Warning", v1alpha1.ReasonHolderMissing, fmt.Sprintf(
				"The LoadBalancers that hold it are missing: %s. It is kept for them until %s: create them again, or set the annotation %s to an earlier time.",
				kit.Some(holders), next.Until.UTC().Format(time.RFC3339), v1alpha1.AnnotationHeldUntil))
		}
	}
	return reconcile.Result{RequeueAfter: min(lookAgain, max(next.Until.Sub(r.Now()), time.Second))}, nil
}

// exists says whether a LoadBalancer is there. That it isn't, the API server itself says.
func (r *Reconciler) exists(ctx context.Context, key types.NamespacedName) (bool, error) {
	l := &clusterv1.LoadBalancer{}
	for _, reader := range []client.Reader{r.Client, r.Reader} {
		switch err := reader.Get(ctx, key, l); {
		case err == nil:
			return true, nil
		case !apierrors.IsNotFound(err):
			return false, fmt.Errorf("reading LoadBalancer %s: %w", key, err)
		}
	}
	return false, nil
}

// left says whether a person has done away with all of a namespace: nobody waits for what was in it.
func (r *Reconciler) left(ctx context.Context, namespace string) (bool, error) {
	n := &metav1.PartialObjectMetadata{}
	n.SetGroupVersionKind(kit.NamespaceKind)
	switch err := r.Client.Get(ctx, types.NamespacedName{Name: namespace}, n); {
	case err == nil && n.DeletionTimestamp != nil:
		return true, nil
	case client.IgnoreNotFound(err) != nil:
		return false, fmt.Errorf("reading namespace %s: %w", namespace, err)
	}
	t, err := kit.TenantOf(ctx, r.Client, namespace)
	return t != nil && t.DeletionTimestamp != nil, err
}

// agentComes says whether an agent has yet to write its LoadBalancers again since the hub changed: a time that is over was
// set before that, and came back with an older copy.
func (r *Reconciler) agentComes(ctx context.Context, holders []ipam.Ref) (bool, error) {
	for _, h := range holders {
		t, err := kit.TenantOf(ctx, r.Client, h.Namespace)
		if err != nil || t != nil && t.Status.AgentEpoch < t.Status.HubEpoch {
			return true, err
		}
	}
	return false, nil
}

func (r *Reconciler) giveUp(ctx context.Context, name string, ref ipam.Ref) error {
	r.Logger.Warn("an address's holder is gone without a word, it is released", "address", name, "loadbalancer", ref.String())
	if err := r.Keeper.GiveUp(ctx, name, ref); err != nil {
		return err
	}
	r.Wake(ref) // should it be back by now
	return nil
}
