package loadbalancer

import (
	"fmt"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/internal/ipam"
)

// A LoadBalancer's change costs a write of the ledger, statuses, and what proxies write. So the changes of one namespace are
// followed in turns (kit.Turns): no tenant that goes on changing what is served keeps the hub from the others. What is made,
// released or proven waits for no turn.

// contentOf tells what is wanted of a LoadBalancer from what was wanted before.
func contentOf(l *clusterv1.LoadBalancer) string { return fmt.Sprint(l.UID, "/", l.Generation) }

// forget drops what is remembered of a LoadBalancer that is gone, or goes.
func (r *Reconciler) forget(ref ipam.Ref) {
	r.unasked(ref)
	r.Metrics.forget(ref)
	r.turns.Forget(ref.Namespace, ref)
}
