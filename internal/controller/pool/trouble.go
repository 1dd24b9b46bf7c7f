package pool

import (
	"context"
	"fmt"
	"slices"
	"strings"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/controller/kit"
	"fairlead.dev/fairlead/internal/controller/ledger"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// trouble is what a person should know of a pool's addresses.
type trouble struct {
	// blocked names the silent proxies that hold up a release.
	blocked []string
	// held are the addresses whose holders are missing.
	held []ledger.Address
}

func (r *Reconciler) trouble(ctx context.Context, p *v1alpha1.AddressPool) (trouble, error) {
	blocked, err := r.blocked(ctx, p)
	if err != nil {
		return trouble{}, err
	}
	t := trouble{held: r.Keeper.Held(p.Name)}
	for _, w := range blocked {
		t.blocked = append(t.blocked, w.Proxy)
	}
	return t, nil
}

// degraded says what is amiss; of several things the one that holds up most.
func degraded(p *v1alpha1.AddressPool, t trouble) metav1.Condition {
	c := metav1.Condition{Type: clusterv1.ConditionDegraded, Status: metav1.ConditionTrue, ObservedGeneration: p.Generation}
	switch {
	case len(t.blocked) > 0:
		c.Reason = clusterv1.ReasonReleaseBlocked
		c.Message = fmt.Sprintf("Addresses can't be released because proxies are silent: %s. Bring each back, set spec.fenced on it if it can't serve any more, or delete its Proxy.", strings.Join(t.blocked, ", "))
	case len(t.held) > 0:
		c.Reason, c.Message = v1alpha1.ReasonHolderMissing, heldText(t.held)
	default:
		c.Status, c.Reason = metav1.ConditionFalse, clusterv1.ReasonAsExpected
	}
	return c
}

// heldText names what is held, and for whom.
func heldText(held []ledger.Address) string {
	var names []string
	for _, a := range held {
		names = append(names, fmt.Sprintf("%s of %s", a.Object.Name, kit.Some(ledger.Noted(a.Object).Holders)))
	}
	slices.Sort(names)
	return fmt.Sprintf("Addresses are kept for LoadBalancers that are missing: %s. Create them again, or set the Address's annotation %s to an earlier time.", kit.Some(names), v1alpha1.AnnotationHeldUntil)
}
