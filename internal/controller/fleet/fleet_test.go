package fleet

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/proof"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func newFleet(lease func(context.Context, string) (*coordinationv1.Lease, error)) *Fleet {
	return New(Options{Logger: slog.New(slog.NewTextHandler(io.Discard, nil)), Now: time.Now, Lease: lease})
}

func proxyAt(reports, addresses string) *v1alpha1.Proxy {
	return &v1alpha1.Proxy{
		ObjectMeta: metav1.ObjectMeta{Name: "edge-1", UID: "u"}, Spec: v1alpha1.ProxySpec{Pool: "edge"},
		Status: v1alpha1.ProxyStatus{Boot: "b", Phase: v1alpha1.ProxyServing, Reports: reports, Through: v1alpha1.Through{Addresses: addresses}},
	}
}

func leaseOf(boot, through string, at int64) *coordinationv1.Lease {
	t := metav1.NewMicroTime(time.Unix(at, 0))
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: "edge-1", Annotations: map[string]string{v1alpha1.AnnotationBoot: boot, v1alpha1.AnnotationThrough: through}},
		Spec:       coordinationv1.LeaseSpec{RenewTime: &t},
	}
}

func reportAt(version, boot string, refused ...string) *v1alpha1.ProxyReport {
	r := &v1alpha1.ProxyReport{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "edge-1", ResourceVersion: version}, Boot: boot}
	for _, name := range refused {
		r.Refused = append(r.Refused, v1alpha1.RefusedFrontend{LoadBalancer: name})
	}
	return r
}

// one is the view of the only proxy.
func one(t *testing.T, f *Fleet) *proof.Proxy {
	t.Helper()
	all := f.Pool("edge")
	if len(all) != 1 {
		t.Fatalf("%d proxies", len(all))
	}
	return all[0]
}

func TestReportsAreCompleteUpToTheVersionDelivered(t *testing.T) {
	f := newFleet(nil)
	store := reportStore{f}
	f.SetProxy(proxyAt("20", "5"))
	for _, step := range []struct {
		do      func() error
		settled bool
		reports int
	}{
		{func() error { return store.Replace(nil, "10") }, false, 0},
		{func() error { return store.Add(reportAt("15", "b")) }, false, 1},
		{func() error { return store.Bookmark("19") }, false, 1},
		{func() error { return store.Update(reportAt("20", "b")) }, true, 1},
		{func() error { return store.Delete(reportAt("25", "b")) }, true, 0},
		{func() error { return store.Add(reportAt("26", "older")) }, true, 0}, // of another boot: void
		{func() error { return store.Replace([]any{reportAt("30", "b")}, "31") }, true, 1},
	} {
		if err := step.do(); err != nil {
			t.Fatal(err)
		}
		if p := one(t, f); p.Settled != step.settled || len(p.Reports) != step.reports {
			t.Errorf("at %d: settled %v, %d reports", f.reached, p.Settled, len(p.Reports))
		}
	}
}

// Reports are believed up to a version. In an older copy of the hub that would be believed of what is to come.
func TestAnOlderListOfReportsIsToldOf(t *testing.T) {
	var told []string
	f := New(Options{Logger: slog.New(slog.DiscardHandler), Now: time.Now, WentBack: func(_, before, now string) { told = append(told, before+" "+now) }})
	store := reportStore{f}
	for _, version := range []string{"10", "10", "100044"} {
		if err := store.Replace(nil, version); err != nil {
			t.Fatal(err)
		}
	}
	if len(told) > 0 {
		t.Errorf("told %q", told)
	}
	if err := store.Replace(nil, "59"); err != nil || len(told) != 1 || told[0] != "100044 59" {
		t.Errorf("told %q, error %v", told, err)
	}
}

func TestChangeNamesWhoIsConcerned(t *testing.T) {
	f := newFleet(nil)
	store := reportStore{f}
	f.SetProxy(proxyAt("", "5"))
	if err := store.Add(reportAt("1", "b", "web", "api")); err != nil {
		t.Fatal(err)
	}
	f.change = newChange()
	if err := store.Update(reportAt("2", "b", "web", "db")); err != nil {
		t.Fatal(err)
	}
	c := f.change
	_, web := c.LoadBalancers[types.NamespacedName{Namespace: "prod", Name: "web"}]
	if len(c.LoadBalancers) != 2 || web || len(c.Pools) != 1 {
		t.Errorf("%+v", c)
	}
}

func TestReportsOfABootConcernAgainWhenTheBootIsKnown(t *testing.T) {
	f := newFleet(nil)
	next := proxyAt("", "5")
	next.Status.Boot = "c"
	for _, step := range []struct {
		name string
		do   func()
		want int
	}{
		{"its report comes before it does", func() { f.SetProxy(proxyAt("", "5")) }, 1},
		{"nothing new", func() { f.SetProxy(proxyAt("", "6")) }, 0},
		{"another boot: the report is void", func() { f.SetProxy(next) }, 1},
		{"gone", func() { f.DeleteProxy(next) }, 1},
	} {
		if err := (reportStore{f}).Add(reportAt("1", "b", "web")); err != nil {
			t.Fatal(err)
		}
		f.change = newChange()
		if step.do(); len(f.change.LoadBalancers) != step.want {
			t.Errorf("%s: %+v", step.name, f.change)
		}
	}
}

func TestLeaseRepeatsHowFarItsBootHasCome(t *testing.T) {
	f := newFleet(nil)
	f.SetProxy(proxyAt("", "5"))
	if one(t, f).Live {
		t.Error("live without a lease")
	}
	f.ListLease(leaseOf("b", `{"addresses":"9"}`, 1))
	if p := one(t, f); !p.Live || p.Renewed || !p.Reported || p.Through.Addresses != 9 {
		t.Errorf("%+v", p)
	}
	f.SetLease(leaseOf("b", `{"addresses":"7"}`, 2))
	if p := one(t, f); !p.Renewed || p.Through.Addresses != 7 {
		t.Errorf("%+v", p)
	}
	f.SetLease(leaseOf("c", `{"addresses":"99"}`, 3))
	if p := one(t, f); p.Reported || p.Through.Addresses != 5 {
		t.Errorf("another process renews: %+v", p)
	} else if !p.Passing {
		t.Error("nobody waits for a proxy whose process changed")
	} else if p.Renewed {
		t.Error("heard of, and what its process says first isn't here")
	}
}

func TestAReportOfAnotherBootLeavesItsNamespaceUnproven(t *testing.T) {
	f := newFleet(nil)
	store := reportStore{f}
	f.SetProxy(proxyAt("", "5"))
	if err := store.Add(reportAt("7", "after", "web")); err != nil {
		t.Fatal(err)
	}
	if p := one(t, f); len(p.Reports) != 0 || len(p.Held) != 1 || p.Held[0] != "prod" {
		t.Errorf("reports %v, held %v", p.Reports, p.Held)
	}
}

func TestALeaseIsBelievedWithTheStatusThatBelongsToIt(t *testing.T) {
	f := newFleet(nil)
	px := proxyAt("", "5")
	px.Status.Seq = 3
	f.SetProxy(px)
	l := leaseOf("b", `{"addresses":"9"}`, 1)
	l.Annotations[v1alpha1.AnnotationSeq] = "4"
	f.SetLease(l)
	if p := one(t, f); p.Through.Addresses != 5 {
		t.Errorf("through %d, and the status that names its reports isn't here", p.Through.Addresses)
	} else if !p.Live || p.Renewed || len(f.Trouble().Unseen) != 1 {
		t.Errorf("%+v: the status that isn't here may say that the hub has changed", p)
	}
	next := px.DeepCopy()
	next.Status.Seq = 4
	f.SetProxy(next)
	if p := one(t, f); p.Through.Addresses != 9 || !p.Renewed || !f.Trouble().None() {
		t.Errorf("through %d with the status, renewed: %v", p.Through.Addresses, p.Renewed)
	}
}

func TestSilentOnlyAfterALookAtTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var answer *coordinationv1.Lease
		failure := errors.New("the hub is away")
		looks := 0
		f := newFleet(func(context.Context, string) (*coordinationv1.Lease, error) {
			looks++
			return answer, failure
		})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		f.SetProxy(proxyAt("", "5"))
		f.SetLease(leaseOf("b", "", 1))
		go f.watchSilence(ctx)
		after := func(d time.Duration, live bool, looked int) {
			t.Helper()
			time.Sleep(d) // the bubble's clock
			synctest.Wait()
			if p := one(t, f); p.Live != live || looks != looked {
				t.Errorf("live %v after %d looks, want %v after %d", p.Live, looks, live, looked)
			}
		}
		after(29*time.Second, true, 0)
		after(2*time.Second, true, 1) // the lease can't be read: nobody could have been seen
		failure, answer = nil, leaseOf("b", "", 2)
		after(31*time.Second, true, 2) // it was renewed, the watch lags
		after(31*time.Second, false, 3)
		f.SetLease(leaseOf("b", "", 3))
		after(0, true, 3)
		cancel()
	})
}
