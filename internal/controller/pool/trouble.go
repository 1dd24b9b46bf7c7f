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
	"fairlead.dev/fairlead/internal/proof"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// trouble is what a person should know of a pool's addresses.
type trouble struct {
	// disputes are about addresses that proxies serve for different LoadBalancers.
	disputes []ledger.Dispute
	// frozen proxies may serve addresses of it that the ledger doesn't say.
	frozen []*proof.Proxy
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
	t := trouble{disputes: r.Keeper.Disputes(p.Name), frozen: r.Keeper.FrozenBy(p.Name), held: r.Keeper.Held(p.Name)}
	for _, w := range blocked {
		t.blocked = append(t.blocked, w.Proxy)
	}
	return t, nil
}

// degraded says what is amiss; of several things the one that holds up most.
func degraded(p *v1alpha1.AddressPool, t trouble) metav1.Condition {
	c := metav1.Condition{Type: clusterv1.ConditionDegraded, Status: metav1.ConditionTrue, ObservedGeneration: p.Generation}
	switch {
	case len(t.disputes) > 0:
		c.Reason, c.Message = v1alpha1.ReasonProxiesDisagree, disputesText(t.disputes)
	case len(t.frozen) > 0:
		c.Reason, c.Message = t.frozen[0].HubChanged, proof.FrozenText(t.frozen)
	case len(t.blocked) > 0:
		c.Reason = clusterv1.ReasonReleaseBlocked
		c.Message = fmt.Sprintf("Addresses can't be released because proxies are silent: %s. Bring each back, set spec.fenced on it if it can't serve any more, or delete its Proxy.", strings.Join(t.blocked, ", "))
	case p.Spec.Restoring:
		c.Reason = v1alpha1.ReasonRestoring
		c.Message = "The hub is being restored: the pool grants only what is asked for by name, and frees nothing. Set spec.restoring to false once all proxies and agents are in."
	case len(t.held) > 0:
		c.Reason, c.Message = v1alpha1.ReasonHolderMissing, heldText(t.held)
	default:
		c.Status, c.Reason = metav1.ConditionFalse, clusterv1.ReasonAsExpected
	}
	return c
}

// disputesText names the proxies that contradict each other.
func disputesText(disputes []ledger.Dispute) string {
	var names []string
	for _, d := range disputes {
		names = append(names, fmt.Sprintf("%s by %s", d.Address, kit.Some(d.Proxies)))
	}
	return fmt.Sprintf("Addresses are served for different LoadBalancers since the hub changed: %s. See what each proxy's ProxyReports say in serves, and set spec.fenced on the one that is wrong.", kit.Some(names))
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
