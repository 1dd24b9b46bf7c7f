package survival

import (
	"context"
	"fmt"
	"testing"
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/fleet"
	"fairlead.dev/fairlead/internal/traffic"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const excluded = "node.kubernetes.io/exclude-from-external-load-balancers"

// returnedProxy: kill -9. While it is dead a member goes and a Service gives its address up, which waits for the proxy. It comes back with
// its file of before, and without the hub: it serves all that it served, and nobody else has the address yet. Once it reaches
// the hub it lets go of both, and the address goes on.
func returnedProxy(t *testing.T, w *world) {
	x := w.newExtra(t, "edge-4", 85)
	w.awaitProxy(t, x.name, "Serving")
	w.awaitWeb(t, x)
	h, node := w.waiting(t), w.Tenants[0].Nodes()[1].Name
	awaitAnswers(t, h.holder, h.address, x)
	x.awaitFiled(t, h.address)
	must(t, x.process.Kill())
	labelNode(t, h.holder, node, excluded, "")
	giveUp(t, h.holder, "scarce")
	w.awaitNoTarget(t, h.holder, node)
	eventually(t, soon, "the ledger to release "+h.address.String(), func(ctx context.Context) error { return w.IsReleasing(ctx, h.holder, h.address) })
	awaitRefusal(t, h.address, w.all()...)

	x.Cut()
	must(t, x.process.Start())
	w.awaitWeb(t, x)
	w.window(t, w.all(x), [2]int{0, held}, func() {
		throughout(t, 5*time.Second, "it serves from its file, and the address is kept", func(ctx context.Context) error {
			if err := answers(ctx, h.holder, h.address, x); err != nil {
				return err
			}
			return w.keeps(ctx, h)
		})
		if n := w.connects(t, x, h.holder, node); n == 0 {
			t.Errorf("it sent nothing to %s, which its file has: the claim could not fail", node)
		}
		x.Mend()
		w.passedOn(t, h, w.all(x)...)
		before := w.connects(t, x, h.holder, node)
		pause(t, 3*time.Second)
		if n := w.connects(t, x, h.holder, node) - before; n != 0 {
			t.Errorf("it sent %.0f connections to %s after the hub said that it is no target", n, node)
		}
	})
	labelNode(t, h.holder, node, excluded, nil)
	w.awaitFree(t, h)
	w.awaitState(t, h.holder, node, "", "")
}

// connects is how many connections a proxy tried to a tenant's node.
func (w *world) connects(t *testing.T, x *extra, tenant *fleet.Tenant, node string) float64 {
	t.Helper()
	n, err := x.metrics.Connects(t.Context(), tenant.Name(), node)
	must(t, err)
	return n
}

// fencedProxy: a proxy is dead, and a person fences it, so that its address goes to another tenant. Later the host comes back
// with the file of before: not one request to the address is answered by who had it, neither before nor after the fence is taken
// away. That can't be done sooner than the proxy has read it.
func fencedProxy(t *testing.T, w *world) {
	x := w.newExtra(t, "edge-5", 86)
	w.awaitProxy(t, x.name, "Serving")
	w.awaitWeb(t, x)
	h := w.waiting(t)
	awaitAnswers(t, h.holder, h.address, x)
	x.awaitFiled(t, h.address)
	w.window(t, w.all(), [2]int{held, held}, func() {
		must(t, x.process.Kill())
		giveUp(t, h.holder, "scarce")
		eventually(t, soon, "the ledger to release "+h.address.String(), func(ctx context.Context) error { return w.IsReleasing(ctx, h.holder, h.address) })
		throughout(t, 3*time.Second, "the address is kept", func(ctx context.Context) error { return w.keeps(ctx, h) })
		w.fence(t, x.name, "its host is gone")
		w.passedOn(t, h, w.all()...)
	})
	if err := w.tryFence(t, x.name, ""); !apierrors.IsInvalid(err) {
		t.Errorf("a fence that the proxy hasn't read is taken away: %v", err)
	}
	must(t, x.process.Start())
	way, served := x.Way(h.address, webPort), 0
	eventually(t, soon, "the proxy to say that it is fenced", func(ctx context.Context) error {
		if answer, err := way.Ask(ctx, "/"); err == nil {
			t.Fatalf("a fenced proxy serves: %s answers", answer.Cluster)
		}
		p := &v1alpha1.Proxy{}
		if err := w.Hub.API.Get(ctx, client.ObjectKey{Name: x.name}, p); err != nil {
			return err
		}
		if c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionReady); c == nil || c.Reason != "Fenced" {
			return fmt.Errorf("it says %+v", c)
		}
		return nil
	})
	w.fence(t, x.name, "")
	for until := time.Now().Add(10 * time.Second); time.Now().Before(until); {
		answer, err := way.Ask(t.Context(), "/")
		switch {
		case err == nil && answer.Cluster != h.waiter.Name():
			t.Fatalf("%s was answered by %s, which gave it up", h.address, answer.Cluster)
		case err == nil:
			served++
		case traffic.KindOf(err) != traffic.FailureRefused:
			t.Fatal(err)
		default:
			pause(t, time.Millisecond)
		}
	}
	if served == 0 {
		t.Error("nothing was answered: the claim could not fail")
	}
	w.awaitFree(t, h)
}

// sameName: two processes run under one name, each with a state directory of its own. Both serve, nobody else is touched, and
// the hub says what is wrong.
func sameName(t *testing.T, w *world) {
	x := w.newExtra(t, "edge-6", 87)
	w.awaitProxy(t, x.name, "Serving")
	w.awaitWeb(t, x)
	w.window(t, w.all(x), [2]int{held, held}, func() {
		y := w.newExtra(t, "edge-6", 88)
		w.awaitWeb(t, y)
		w.awaitProxy(t, x.name, "DuplicateName")
		must(t, y.process.Kill())
	})
}
