package survival

import (
	"context"
	"fmt"
	"net/netip"
	"testing"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/internal/fleet"
)

// waiting has the first tenant hold the one address of pool scarce, and the second wait for it.
func (w *world) waiting(t *testing.T) (h hoard) {
	t.Helper()
	h.holder, h.waiter = w.Tenants[0], w.Tenants[1]
	makeService(t, h.holder, "scarce", "scarce")
	h.address = awaitAddress(t, h.holder, "scarce")
	makeService(t, h.waiter, "scarce", "scarce")
	return h
}

// keeps tells whether an address that was freed is kept for who had it.
func (w *world) keeps(ctx context.Context, h hoard) error {
	if got, err := addressOf(ctx, h.waiter, "scarce"); err == nil {
		return fmt.Errorf("%s got %s", h.waiter.Name(), got)
	}
	return w.IsReleasing(ctx, h.holder, h.address)
}

// passedOn waits until the waiter has the address, and ends it.
func (w *world) passedOn(t *testing.T, h hoard, fronts ...front) {
	t.Helper()
	if got := awaitAddress(t, h.waiter, "scarce"); got != h.address {
		t.Fatalf("%s got %s, not %s", h.waiter.Name(), got, h.address)
	}
	if err := answers(t.Context(), h.waiter, h.address, fronts...); err != nil {
		t.Fatal(err)
	}
}

// whileSilent: a proxy was made silent. What leaves is not gone before it has said so: a member that drains, an address whose
// Service is deleted. A Service that comes is published without it.
func (w *world) whileSilent(t *testing.T, h hoard, node, proxy string, others ...front) {
	t.Helper()
	annotateNode(t, h.holder, node, clusterv1.DisabledAnnotation, "")
	giveUp(t, h.holder, "scarce")
	waits := fleet.WaitsFor(proxy)
	w.awaitState(t, h.holder, node, "draining", waits)
	eventually(t, soon, "the ledger to release "+h.address.String(), func(ctx context.Context) error { return w.IsReleasing(ctx, h.holder, h.address) })
	throughout(t, silence, "nothing is removed and nothing released while "+proxy+" is silent", func(ctx context.Context) error {
		if err := w.IsMember(ctx, h.holder, node, "draining", waits); err != nil {
			return err
		}
		return w.keeps(ctx, h)
	})
	eventually(t, soon, "pool scarce to name "+proxy, func(ctx context.Context) error { return w.IsBlocked(ctx, "scarce", proxy) })
	makeService(t, h.waiter, "meanwhile", "")
	awaitAnswers(t, h.waiter, awaitAddress(t, h.waiter, "meanwhile"), others...)
	if err := w.keeps(t.Context(), h); err != nil {
		t.Fatal(err)
	}
}

// tidy takes back what whileSilent and passedOn leave.
func (w *world) tidy(t *testing.T, h hoard, node string) {
	t.Helper()
	deleteService(t, h.waiter, "meanwhile")
	annotateNode(t, h.holder, node, clusterv1.DisabledAnnotation, nil)
	w.awaitState(t, h.holder, node, "", "")
	w.awaitFree(t, h)
}

// awaitFree deletes both Services, and waits until nobody has the address.
func (w *world) awaitFree(t *testing.T, h hoard) {
	t.Helper()
	deleteService(t, h.holder, "scarce")
	deleteService(t, h.waiter, "scarce")
	eventually(t, soon, h.address.String()+" to be free", func(ctx context.Context) error { return gone(w.Ledger(ctx, h.address)) })
}

// stoppedProxy: SIGSTOP. Its kernel carries the traffic on. A person fences it: then all that waited goes on without it, and
// once it runs again it serves nothing until the fence is taken away.
func stoppedProxy(t *testing.T, w *world) {
	stopped, running := w.Proxies[1], front(w.Proxies[0])
	h, node := w.waiting(t), w.Tenants[0].Nodes()[1].Name
	// No connection is held to the first tenant: a member with an open one is not gone.
	w.window(t, w.all(), [2]int{0, held}, func() {
		must(t, stopped.Process.Pause())
		w.whileSilent(t, h, node, stopped.Name, running)
	})
	w.fence(t, stopped.Name, "its host is gone")
	w.awaitState(t, h.holder, node, "drained", "")
	w.passedOn(t, h, running)
	must(t, stopped.Process.Resume())
	w.awaitProxy(t, stopped.Name, "Fenced")
	for i := range w.Tenants {
		awaitRefusal(t, w.web[i], stopped)
	}
	awaitRefusal(t, h.address, stopped)
	w.fence(t, stopped.Name, "")
	w.awaitWeb(t, stopped)
	awaitAnswers(t, h.waiter, h.address, stopped)
	w.tidy(t, h, node)
}

// cutOffProxy: it runs, and its clients notice nothing; it only doesn't reach the hub. When it does again, all that waited goes on.
func cutOffProxy(t *testing.T, w *world) {
	x := w.newExtra(t, "edge-3", 84)
	w.awaitProxy(t, x.name, "Serving")
	w.awaitWeb(t, x)
	h, node := w.waiting(t), w.Tenants[0].Nodes()[1].Name
	awaitAnswers(t, h.holder, h.address, x)
	w.window(t, w.all(x), [2]int{0, held}, func() {
		x.Cut()
		w.whileSilent(t, h, node, x.name, w.all()...)
		if err := answers(t.Context(), h.holder, h.address, x); err != nil {
			t.Errorf("what it was not told to stop it has stopped: %s", err)
		}
		x.Mend()
		w.awaitState(t, h.holder, node, "drained", "")
		w.passedOn(t, h, w.all(x)...)
	})
	w.tidy(t, h, node)
}

// hoard is an address that one tenant has, and another one waits for.
type hoard struct {
	holder, waiter *fleet.Tenant
	address        netip.Addr
}
