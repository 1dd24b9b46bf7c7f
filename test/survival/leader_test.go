package survival

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/app"
	"fairlead.dev/fairlead/internal/testkit"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// contended addresses for contenders Services: what one gives up another one gets.
	contended  = 8
	contenders = 12
)

// leaderOverlap: the leading manager is stopped for longer than its Lease lasts, another one takes over, and the first goes on
// where it was. Services come and go all the while, and there are fewer addresses than Services.
func leaderOverlap(t *testing.T, w *world) {
	w.contend(t)
	leader := awaitLeader(t, w, "")
	second := w.secondManager(t)
	b := newBook(t, w)
	w.window(t, w.all(), [2]int{held, held}, func() {
		b.churn(t, contended/2)
		must(t, w.Manager.Process.Pause())
		w.churn(t, 0, func() {})
		taken := awaitLeader(t, w, leader)
		w.churn(t, 1, func() {})
		must(t, w.Manager.Process.Resume())
		b.churn(t, contended)
		if now := awaitLeader(t, w, ""); now != taken {
			t.Errorf("%s leads, and %s did when the first was let go on", now, taken)
		}
		b.settle(t)
	})
	grants, again := b.close()
	t.Logf("%d grants of %d addresses, %d of them to another Service than before", grants, contended, again)
	if again < contended {
		t.Errorf("only %d of %d grants passed an address on: the claim could not fail", again, grants)
	}
	for _, tenant := range w.Tenants {
		for i := range contenders {
			deleteService(t, tenant, contender(i))
		}
	}
	must(t, second.Kill())
	awaitLeader(t, w, leaderOf(t, w))
}

// contend makes a pool of few addresses, its class, and the Services of both tenants that want one.
func (w *world) contend(t *testing.T) {
	t.Helper()
	first := w.Network.Served().Addr().As4()
	pool := &v1alpha1.AddressPool{ObjectMeta: metav1.ObjectMeta{Name: "contended"}}
	pool.Spec.Ranges = []string{fmt.Sprintf("%d.%d.%d.208/29", first[0], first[1], first[2])}
	class := &v1alpha1.LoadBalancerClass{ObjectMeta: metav1.ObjectMeta{Name: "contended"}}
	class.Spec.Proxy = &v1alpha1.ClassProxy{Pool: "edge"}
	class.Spec.AddressPools = []string{pool.Name}
	must(t, client.IgnoreAlreadyExists(w.Hub.API.Create(t.Context(), pool)))
	must(t, client.IgnoreAlreadyExists(w.Hub.API.Create(t.Context(), class)))
	for _, tenant := range w.Tenants {
		for i := range contenders {
			makeService(t, tenant, contender(i), class.Name)
		}
	}
}

func contender(i int) string { return fmt.Sprintf("contender-%d", i) }

// churn deletes Services that have an address and makes them anew, for others to get it; between the two it waits for that.
func (w *world) churn(t *testing.T, round int, between func()) {
	t.Helper()
	for _, tenant := range w.Tenants {
		for i := range contenders {
			if i%3 == round%3 {
				deleteService(t, tenant, contender(i))
			}
		}
	}
	between()
	for _, tenant := range w.Tenants {
		for i := range contenders {
			if i%3 != round%3 {
				continue
			}
			makeService(t, tenant, contender(i), "contended")
		}
	}
}

func leaderOf(t *testing.T, w *world) string {
	t.Helper()
	l := &coordinationv1.Lease{}
	must(t, w.Hub.API.Get(t.Context(), client.ObjectKey{Namespace: v1alpha1.SystemNamespace, Name: app.ManagerLease}, l))
	return ptr.Deref(l.Spec.HolderIdentity, "")
}

// awaitLeader waits for a manager that leads, and is another than that one.
func awaitLeader(t *testing.T, w *world, other string) (name string) {
	t.Helper()
	eventually(t, soon, "a manager to lead", func(context.Context) error {
		if name = leaderOf(t, w); name == "" || name == other {
			return fmt.Errorf("it is %q", name)
		}
		return nil
	})
	return name
}

// secondManager stands by for the fleet's.
func (w *world) secondManager(t *testing.T) *testkit.Process {
	t.Helper()
	kubeconfig, err := w.Hub.ServiceAccountKubeconfig(t.Context(), v1alpha1.SystemNamespace, "fairlead-manager")
	must(t, err)
	p, err := testkit.StartProcess(testkit.Command{
		Name: "second manager", Path: w.self, Args: []string{"manager", "--kubeconfig=" + kubeconfig}, Log: filepath.Join(w.Dir, "manager-2.log"),
	})
	must(t, err)
	t.Cleanup(func() {
		if err := p.Kill(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// book notes each holder that the ledger ever had for the contended addresses.
type book struct {
	w     *world
	watch watch.Interface
	done  chan struct{}

	mu     sync.Mutex
	grants map[string][]string // by address: its holders, as namespace/name, in order
	wrong  []string
}

func newBook(t *testing.T, w *world) *book {
	t.Helper()
	watcher, err := w.Hub.API.Watch(t.Context(), &v1alpha1.AddressList{})
	must(t, err)
	b := &book{w: w, watch: watcher, done: make(chan struct{}), grants: map[string][]string{}}
	go func() {
		defer close(b.done)
		phase := map[string]v1alpha1.AddressPhase{}
		for e := range watcher.ResultChan() {
			a, ok := e.Object.(*v1alpha1.Address)
			if !ok || a.Spec.Pool != "contended" {
				continue
			}
			b.note(a, e.Type, phase)
		}
	}()
	t.Cleanup(func() { b.close() })
	return b
}

// note holds a change of the ledger to what may be: an address that was Granted goes to somebody else only by way of
// Releasing and its deletion, and has one holder.
func (b *book) note(a *v1alpha1.Address, event watch.EventType, phase map[string]v1alpha1.AddressPhase) {
	b.mu.Lock()
	defer b.mu.Unlock()
	was := phase[a.Name]
	if event == watch.Deleted {
		if was == v1alpha1.AddressGranted {
			b.wrong = append(b.wrong, fmt.Sprintf("%s was deleted while it was granted to %v", a.Name, a.Spec.Holders))
		}
		delete(phase, a.Name)
		return
	}
	phase[a.Name] = a.Spec.Phase
	if a.Spec.Phase != v1alpha1.AddressGranted {
		return
	}
	if len(a.Spec.Holders) != 1 {
		b.wrong = append(b.wrong, fmt.Sprintf("%s is granted to %v", a.Name, a.Spec.Holders))
		return
	}
	holder := a.Spec.Holders[0].Namespace + "/" + a.Spec.Holders[0].Name
	had := b.grants[a.Name]
	switch {
	case len(had) == 0 || was != v1alpha1.AddressGranted:
		b.grants[a.Name] = append(had, holder)
	case had[len(had)-1] != holder:
		b.wrong = append(b.wrong, fmt.Sprintf("%s was %s's and is %s's, and was not released in between", a.Name, had[len(had)-1], holder))
	}
}

// churn has Services come and go until so many grants have passed an address on.
func (b *book) churn(t *testing.T, passed int) {
	t.Helper()
	round := 0
	eventually(t, 2*soon, fmt.Sprintf("%d grants to pass an address on", passed), func(context.Context) error {
		before := b.granted()
		b.w.churn(t, round, func() {
			// Where none of those that went had an address, nobody gets one.
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			_ = testkit.Poll(ctx, look, "what was given up to be somebody's", func(context.Context) error {
				if maps.Equal(b.granted(), before) {
					return errors.New("nobody has got an address")
				}
				return nil
			})
		})
		round++
		if _, n := b.count(); n < passed {
			return fmt.Errorf("%d have", n)
		}
		return nil
	})
}

// granted is who had each address last.
func (b *book) granted() map[string]string {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := map[string]string{}
	for a, holders := range b.grants {
		out[a] = holders[len(holders)-1]
	}
	return out
}

// count returns how many grants there were so far, and how many of them were to another holder than the one before.
func (b *book) count() (grants, passed int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, holders := range b.grants {
		grants += len(holders)
		for i, h := range holders {
			if i > 0 && h != holders[i-1] {
				passed++
			}
		}
	}
	return grants, passed
}

// close ends the book, and counts.
func (b *book) close() (grants, passed int) {
	b.watch.Stop()
	<-b.done
	return b.count()
}

// settle waits until each contended address has a holder, whose Service shows it and whose Pods answer there, and nobody
// else shows it; and that the ledger never had two.
func (b *book) settle(t *testing.T) {
	t.Helper()
	eventually(t, 2*soon, "each contended address to be one Service's", func(ctx context.Context) error {
		shown := map[string]string{}
		for _, tenant := range b.w.Tenants {
			for i := range contenders {
				a, err := addressOf(ctx, tenant, contender(i))
				if err != nil {
					continue
				}
				if other, taken := shown[a.String()]; taken {
					return fmt.Errorf("%s is shown by %s and by %s's %s", a, other, tenant.Name(), contender(i))
				}
				shown[a.String()] = tenant.Name()
				if err := answers(ctx, tenant, a, b.w.all()...); err != nil {
					return err
				}
			}
		}
		if len(shown) != contended {
			return fmt.Errorf("%d are shown", len(shown))
		}
		return nil
	})
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.wrong) > 0 {
		slices.Sort(b.wrong)
		t.Errorf("the ledger: %s", strings.Join(b.wrong, "; "))
	}
}
