package ledger

import (
	"testing"

	"fairlead.dev/fairlead/internal/ipam"
)

// Who held an address before is looked at while it is freed, and promised to the one that waited longest: that promise stands, though
// the API server has nothing of it yet.
func TestAPromiseOutlivesALookAtWhoHeldItBefore(t *testing.T) {
	k := newKeeper(t, newStore(1, 0), ignore, "192.0.2.1/32")
	old, first, second := needsOf(0), needsOf(1), needsOf(2)
	k.Wait([]ipam.Needs{first, second})
	held := k.HeldBy(first.Ref)
	if len(held) != 1 {
		t.Fatalf("the first has %v", held)
	}
	if err := k.confirm(t.Context(), held[0].Name, old.Ref); err != nil {
		t.Fatal(err)
	}
	if now := k.HeldBy(first.Ref); len(now) != 1 || len(k.HeldBy(second.Ref)) > 0 {
		t.Errorf("the first has %v, the second %v", now, k.HeldBy(second.Ref))
	}
}
