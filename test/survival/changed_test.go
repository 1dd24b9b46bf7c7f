package survival

import (
	"context"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/fleet"
)

// hubRestored: the hub's etcd goes back to an older copy, once with versions that go back too, and once with versions that an
// operator has raised. In the copy the first tenant has an address that is the second's by now, and a Service is missing.
// What runs wins: both addresses are served on for who has them, and the ledger learns it.
func hubRestored(t *testing.T, w *world) {
	for _, bump := range []int{0, 5000} {
		h := w.waiting(t)
		saved, err := w.Hub.SaveCopy()
		must(t, err)
		giveUp(t, h.holder, "scarce")
		w.passedOn(t, h, w.all()...)
		makeService(t, h.holder, "young", "")
		young := awaitAddress(t, h.holder, "young")
		awaitAnswers(t, h.holder, young, w.all()...)
		epoch := w.epoch(t)

		w.window(t, w.all(), [2]int{held, held}, func() {
			must(t, w.Hub.Restore(t.Context(), saved, bump))
			serves := func(ctx context.Context) error {
				if err := answers(ctx, h.waiter, h.address, w.all()...); err != nil {
					return err
				}
				return answers(ctx, h.holder, young, w.all()...)
			}
			w.untilFollowed(t, epoch, v1alpha1.ReasonHubRestored, serves)
			w.grantedTo(t, h.address, h.waiter)
			w.grantedTo(t, young, h.holder)
			throughout(t, 3*time.Second, "both are served on", serves)
			w.grantsAgain(t)
		})
		deleteService(t, h.holder, "young")
		w.awaitFree(t, h)
	}
}

// hubReplaced: an empty hub answers at the hub's address. Nobody has an identity there, and everything is served on. Then a
// person installs it as the first one was, and all that is served has its address there too.
func hubReplaced(t *testing.T, w *world) {
	tenant := w.Tenants[0]
	makeService(t, tenant, "young", "")
	young := awaitAddress(t, tenant, "young")
	awaitAnswers(t, tenant, young, w.all()...)
	epoch := w.epoch(t)
	w.window(t, w.all(), [2]int{held, held}, func() {
		must(t, w.Hub.Empty(t.Context()))
		serves := func(ctx context.Context) error { return answers(ctx, tenant, young, w.all()...) }
		throughout(t, scaled(5*time.Second, time.Minute), "it is served without a hub that knows it", serves)
		must(t, w.Reinstall(t.Context()))
		w.untilFollowed(t, epoch, v1alpha1.ReasonHubReplaced, serves)
		w.grantedTo(t, young, tenant)
		for i, a := range w.web {
			w.grantedTo(t, a, w.Tenants[i])
		}
		w.grantsAgain(t)
	})
	deleteService(t, tenant, "young")
	awaitRefusal(t, young, w.all()...)
}

// epoch is the highest that any proxy has adopted.
func (w *world) epoch(t *testing.T) int64 {
	t.Helper()
	epoch, err := w.Epoch(t.Context())
	must(t, err)
	return epoch
}

// untilFollowed is fleet.Fleet.AwaitFollowed, bounded.
func (w *world) untilFollowed(t *testing.T, epoch int64, reason string, meanwhile func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*soon)
	defer cancel()
	must(t, w.AwaitFollowed(ctx, epoch, reason, meanwhile))
}

// grantedTo waits until the ledger has an address for that tenant.
func (w *world) grantedTo(t *testing.T, a netip.Addr, tenant *fleet.Tenant) {
	t.Helper()
	eventually(t, soon, fmt.Sprintf("%s to be %s's", a, tenant.Name()), func(ctx context.Context) error { return w.IsGranted(ctx, tenant, a) })
}

// grantsAgain sees that a new Service is served, and ends it.
func (w *world) grantsAgain(t *testing.T) {
	t.Helper()
	tenant := w.Tenants[1]
	makeService(t, tenant, "after", "")
	a := awaitAddress(t, tenant, "after")
	awaitAnswers(t, tenant, a, w.all()...)
	deleteService(t, tenant, "after")
	awaitRefusal(t, a, w.all()...)
}
