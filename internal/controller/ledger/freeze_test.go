package ledger

import (
	"testing"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/ipam"
	"fairlead.dev/fairlead/internal/proof"
)

// Whoever waits for a frozen pool is told once, however many proxies come and go meanwhile.
func TestWaitersAreNotToldWhichProxiesAreFrozen(t *testing.T) {
	woken := 0
	k := newKeeper(t, newStore(1, 0), func(ipam.Ref) { woken++ }, "192.0.2.0/32")
	var trouble proof.Trouble
	k.Trouble, k.PoolsOf = func() *proof.Trouble { return &trouble }, func(string) []string { return []string{"public"} }
	frozen := func(names ...string) {
		trouble = proof.Trouble{}
		for i, name := range names {
			trouble.Frozen = append(trouble.Frozen, &proof.Proxy{Name: name, Pool: "edge", Live: i%2 == 0, HubChanged: v1alpha1.ReasonHubRestored})
		}
		k.RetryUnsettled()
	}
	frozen("p")
	if g, err := k.Grant(t.Context(), needsOf(1)); err != nil || g.Reason != clusterv1.ReasonHubChanged || g.Message != proof.FrozenWait {
		t.Fatalf("%+v, %v", g, err)
	}
	woken = 0
	if frozen("p", "q"); woken != 0 {
		t.Errorf("woken %d times by one more", woken)
	}
	if frozen("q"); woken != 0 {
		t.Errorf("woken %d times by one less", woken)
	}
	if frozen(); woken != 1 || len(k.HeldBy(needsOf(1).Ref)) != 1 {
		t.Errorf("woken %d times when all have thawed", woken)
	}
}
