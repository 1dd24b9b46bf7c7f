package agent

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/agent/node"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// asked is a checking over two groups of Nodes, in a bubble's time, whose Nodes answer as the test says.
type asked struct {
	*testing.T
	*checking
	hub    client.Client
	answer func(address string) node.Answer
	asked  atomic.Int64
	woken  int
}

func newAsked(t *testing.T, state string) *asked {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	a := &asked{T: t}
	var objects []client.Object
	for index := range 2 {
		g := &v1alpha1.TargetGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "t", Name: node.GroupName(index)}}
		for i := range 40 {
			name := fmt.Sprintf("n%d-%d", index, i)
			g.Spec.Targets = append(g.Spec.Targets, v1alpha1.Target{Name: name, UID: name, Addresses: []string{fmt.Sprintf("10.0.%d.%d", index, i)}})
			g.Status.Targets = append(g.Status.Targets, v1alpha1.MemberStatus{Name: name, State: state})
		}
		objects = append(objects, g)
	}
	log := slog.New(slog.DiscardHandler)
	a.hub = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
	a.checking = &checking{
		hub: a.hub, namespace: "t", log: log, events: newRecorder(nil, "x", log, newMetrics("t")),
		nodes: &nodes{wake: func() { a.woken++ }},
		ask: func(ctx context.Context, address string) node.Answer {
			a.asked.Add(1)
			if a.answer(address) == node.Silent {
				<-ctx.Done()
			}
			return a.answer(address)
		},
	}
	return a
}

// until reconciles as often as it asks for it, or for so long.
func (a *asked) until(most time.Duration, done func() bool) (took time.Duration) {
	a.Helper()
	began := time.Now()
	for !done() && time.Since(began) < most {
		res, err := a.Reconcile(a.Context(), reconcile.Request{})
		if err != nil {
			a.Fatal(err)
		}
		if res.RequeueAfter == 0 {
			break
		}
		time.Sleep(res.RequeueAfter) // of the bubble's clock
	}
	return time.Since(began)
}

// unready has the target of an address say that its Node isn't ready; of none: each.
func (a *asked) unready(address string) {
	a.Helper()
	list := &v1alpha1.TargetGroupList{}
	if err := a.hub.List(a.Context(), list); err != nil {
		a.Fatal(err)
	}
	for i := range list.Items {
		g := &list.Items[i]
		for j := range g.Spec.Targets {
			if t := &g.Spec.Targets[j]; address == "" || t.Addresses[0] == address {
				t.Ready = new(bool)
			}
		}
		if err := a.hub.Update(a.Context(), g); err != nil {
			a.Fatal(err)
		}
	}
}

func all(answer node.Answer) func(string) node.Answer {
	return func(string) node.Answer { return answer }
}

func TestNodesAreAskedWhereTheHubFindsAllUnwell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAsked(t, "")
		a.answer = all(node.Refused)
		if a.until(time.Hour, func() bool { return false }) > 0 || a.asked.Load() > 0 {
			t.Errorf("%d were asked", a.asked.Load())
		}
	})
}

func TestChecksFollowWhatAllNodesSay(t *testing.T) {
	but := func(one string, says, others node.Answer) func(string) node.Answer {
		return func(address string) node.Answer {
			if address == one {
				return says
			}
			return others
		}
	}
	none := func(*asked) {}
	for name, c := range map[string]struct {
		answer func(string) node.Answer
		given  func(*asked)
		way    node.Way
	}{
		"all refuse": {all(node.Refused), none, node.ByPort},
		"all are silent: the agent doesn't reach them": {all(node.Silent), none, node.ByHealthz},
		"all are sick":                                        {all(node.Sick), none, node.ByHealthz},
		"one that is ready is silent":                         {but("10.0.1.39", node.Silent, node.Refused), none, node.ByHealthz},
		"one that isn't ready is silent":                      {but("10.0.1.39", node.Silent, node.Refused), func(a *asked) { a.unready("10.0.1.39") }, node.ByPort},
		"one whose Node is missing is silent":                 {but("10.0.1.39", node.Silent, node.Refused), func(a *asked) { a.nodes.kept = map[string]bool{"n1-39": true} }, node.ByPort},
		"none is ready, and one is silent":                    {but("10.0.1.39", node.Silent, node.Refused), func(a *asked) { a.unready("") }, node.ByHealthz},
		"none is ready, as without a network, and all refuse": {all(node.Refused), func(a *asked) { a.unready("") }, node.ByPort},
		"one is well":                                         {but("10.0.0.20", node.Well, node.Refused), none, node.ByHealthz},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newAsked(t, "unhealthy")
				a.answer = c.answer
				c.given(a)
				took := a.until(10*time.Minute, func() bool { return a.nodes.checkedBy(nil) != node.ByHealthz })
				if way := a.nodes.checkedBy(nil); way != c.way || len(a.events.queue) != a.woken || (a.woken == 1) != (c.way == node.ByPort) {
					t.Fatalf("%s, woken %d times, %d events", way, a.woken, len(a.events.queue))
				}
				if c.way == node.ByPort && took < (node.Rounds-1)*node.Pause {
					t.Errorf("decided in %s", took)
				}
			})
		})
	}
}

func TestChecksGoBackWhereMostNodesAreWell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAsked(t, "unhealthy")
		a.answer = all(node.Refused)
		a.until(time.Hour, func() bool { return a.woken > 0 })
		half := func(address string) node.Answer {
			if address < "10.0.1" {
				return node.Well
			}
			return node.Refused
		}
		for _, answer := range []func(string) node.Answer{all(node.Refused), all(node.Silent), all(node.Sick), half} {
			a.answer = answer
			if a.until(10*time.Minute, func() bool { return a.woken > 1 }); a.woken > 1 {
				t.Fatal("it went back")
			}
		}
		a.answer = func(address string) node.Answer {
			if address == "10.0.1.3" { // that is dead by now
				return node.Silent
			}
			return half(address)
		}
		if took := a.until(time.Hour, func() bool { return a.woken > 1 }); a.nodes.checkedBy(nil) != node.ByHealthz || took < (node.Rounds-1)*node.Pause {
			t.Fatalf("%s after %s", a.nodes.checkedBy(nil), took)
		}
		reasons := []string{(<-a.events.queue).Reason, (<-a.events.queue).Reason}
		if !slices.Equal(reasons, []string{v1alpha1.ReasonCheckedByPort, "AsExpected"}) {
			t.Errorf("it told %q", reasons)
		}
	})
}

// A kube-proxy that comes and goes costs no more than a change each way in its rounds, and one that comes and goes faster none.
func TestChecksDontFlap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAsked(t, "unhealthy")
		began := time.Now()
		a.answer = func(string) node.Answer {
			if int(time.Since(began)/(15*time.Second))%2 == 0 {
				return node.Refused
			}
			return node.Well
		}
		if a.until(time.Hour, func() bool { return a.woken > 0 }); a.woken > 0 {
			t.Errorf("changed after %s", time.Since(began))
		}
	})
}

// What the network answers, on real sockets.
func TestAskHealth(t *testing.T) {
	ask := askHealth()
	address := "127.97.31.1" // nobody else's
	if a := ask(t.Context(), address); a != node.Refused {
		t.Errorf("where nobody listens: %d", a)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if a := ask(ctx, address); a != node.Silent {
		t.Errorf("without time: %d", a)
	}
	for _, bad := range []string{"no such name.invalid", "256.1.1.1"} {
		if a := ask(t.Context(), bad); a != node.Silent {
			t.Errorf("%s: %d", bad, a)
		}
	}
	l, err := net.Listen("tcp", net.JoinHostPort(address, fmt.Sprint(node.HealthPort)))
	if err != nil {
		t.Fatal(err)
	}
	code := http.StatusOK
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != node.HealthPath {
			t.Errorf("asked for %s", r.URL.Path)
		}
		w.Header().Set("Location", "http://127.97.31.2:1/")
		w.WriteHeader(code)
	})}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	for next, want := range map[int]node.Answer{http.StatusOK: node.Well, http.StatusFound: node.Well, http.StatusServiceUnavailable: node.Sick, http.StatusNotFound: node.Sick} {
		code = next
		if a := ask(t.Context(), address); a != want {
			t.Errorf("%d: %d", code, a)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	<-ended
	mute, err := net.Listen("tcp", net.JoinHostPort(address, fmt.Sprint(node.HealthPort)))
	if err != nil {
		t.Fatal(err)
	}
	if a := ask(t.Context(), address); a != node.Silent {
		t.Errorf("of one that never answers: %d", a)
	}
	if err := mute.Close(); err != nil {
		t.Error(err)
	}
}

// A target that is held is known as such by the round that holds it.
func TestARoundKnowsWhatIsHeld(t *testing.T) {
	tenant, hub := fakes(t, 0)
	n := epochsOf(tenant, hub).nodes
	log := slog.New(slog.DiscardHandler)
	n.events = newRecorder(nil, "x", log, newMetrics("t"))
	list := &v1alpha1.TargetGroupList{Items: []v1alpha1.TargetGroup{{
		ObjectMeta: metav1.ObjectMeta{Namespace: "t", Name: node.GroupName(0)},
		Spec:       v1alpha1.TargetGroupSpec{Targets: []v1alpha1.Target{{Name: "n1", UID: "u1", Addresses: []string{"10.0.0.1"}}}},
	}}}
	if _, _, err := n.round(t.Context(), list); err != nil || !n.holds("u1") || n.holds("u2") {
		t.Errorf("%v, held: %t, %t", err, n.holds("u1"), n.holds("u2"))
	}
}
