package proxy

import (
	"testing"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/build"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestAnotherHistoryHasTheSameGenerations: what a restored hub has under a UID and generation that were served may be
// something else, for both were given out again.
func TestAnotherHistoryHasTheSameGenerations(t *testing.T) {
	group := func(address string) []Object {
		return []Object{&v1alpha1.TargetGroup{
			ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "nodes", UID: "g", Generation: 2},
			Spec:       v1alpha1.TargetGroupSpec{Targets: []v1alpha1.Target{{Name: "n", UID: "n", Addresses: []string{address}}}},
		}}
	}
	v := NewView("edge", build.New(build.Options{ProxyPool: "edge"}))
	list := func(address, version string) Wanted {
		for r := range resources {
			var all []Object
			if r == TargetGroups {
				all = group(address)
			}
			v.Inbox.Replace(r, all, version)
		}
		if q, doubted := v.Inbox.Question(); doubted {
			v.Inbox.Answer(q, Answer{HubUID: "h", Proxy: &v1alpha1.Proxy{ObjectMeta: metav1.ObjectMeta{UID: "p"}, Status: v1alpha1.ProxyStatus{Seq: 3}}})
		}
		return v.Take()
	}
	list("10.0.0.1", "10")
	v.Inbox.Wrote(0, "h", "p", 5)
	if list("10.0.0.1", "20").Frozen == nil {
		t.Fatal("a hub that lost what was written is taken for the same")
	}
	if w := list("10.0.0.2", "20"); w.Frozen != nil || len(w.Changes) != 1 {
		t.Errorf("after the thaw %d changes, frozen %v", len(w.Changes), w.Frozen)
	}
}

func TestAnEpochIsSaidWithWhatIsSaidOfTheHub(t *testing.T) {
	in := newInbox(func(Resource, string) {})
	in.memory.Epoch = 4
	r := &reporter{inbox: in, state: &served{Epoch: 3, Frozen: &Frozen{}}}
	if n := r.epoch(); n != 3 {
		t.Errorf("epoch %d is said while what is served is of 3", n)
	}
	r.era = 1
	if n := r.epoch(); n != 4 {
		t.Errorf("epoch %d is said of another era", n)
	}
}

// TestNobodyRegistersInAHubThatHeDoesNotKnow: it may have become another since it was confirmed, and a proxy that wrote
// there would know that one from then on.
func TestNobodyRegistersInAHubThatHeDoesNotKnow(t *testing.T) {
	px := func(uid types.UID, seq int64) *v1alpha1.Proxy {
		return &v1alpha1.Proxy{ObjectMeta: metav1.ObjectMeta{UID: uid}, Status: v1alpha1.ProxyStatus{Seq: seq}}
	}
	for name, c := range map[string]struct {
		answer Answer
		same   bool
	}{
		"the same":            {Answer{"h", px("p", 5)}, true},
		"another hub":         {Answer{"other", px("p", 5)}, false},
		"it has lost the own": {Answer{"h", nil}, false},
		"it has another":      {Answer{"h", px("q", 5)}, false},
		"it is older":         {Answer{"h", px("p", 4)}, false},
	} {
		in := newInbox(func(Resource, string) {})
		in.memory = Memory{HubUID: "h", ProxyUID: "p", Seq: 5}
		if in.Same(c.answer) != c.same || in.Sure() != c.same {
			t.Errorf("%s: sure %v", name, in.Sure())
		}
	}
}

func TestAFileFollowsTheFirstHubAgain(t *testing.T) {
	in := newInbox(func(Resource, string) {})
	in.remember(Memory{HubUID: "one", ProxyUID: "p", Seq: 5, Frozen: v1alpha1.ReasonHubReplaced, Stale: true}, false)
	if m := in.Memory(); m.Frozen != v1alpha1.ReasonHubReplaced || !m.Stale {
		t.Fatalf("memory %+v", m)
	}
	in.Wrote(0, "two", "q", 1)
	in.Lost(OwnProxy)
	q, _ := in.Question()
	in.Answer(q, Answer{"one", &v1alpha1.Proxy{ObjectMeta: metav1.ObjectMeta{UID: "p"}, Status: v1alpha1.ProxyStatus{Seq: 5}}})
	if m := in.Memory(); in.Frozen() != nil || m.Frozen != "" || m.Stale {
		t.Errorf("frozen %v, memory %+v once the first hub answers again", in.Frozen(), m)
	}
}

// A hub that has lost something is not the first one again, though it has what was written there since, and another one answered
// in between.
func TestAHubThatHasLostSomethingIsNotTheFirstAgain(t *testing.T) {
	in := newInbox(func(Resource, string) {})
	says := func(a Answer) {
		in.Lost(OwnProxy)
		q, _ := in.Question()
		in.Answer(q, a)
	}
	own := func(uid types.UID, seq int64) *v1alpha1.Proxy {
		return &v1alpha1.Proxy{ObjectMeta: metav1.ObjectMeta{UID: uid}, Status: v1alpha1.ProxyStatus{Seq: seq}}
	}
	in.Wrote(0, "one", "p", 5)
	says(Answer{"one", own("p", 3)})
	in.Wrote(1, "one", "p", 6)
	next := newInbox(func(Resource, string) {})
	next.remember(in.Memory(), false)
	next.Wrote(0, "one", "p", 7)
	in = next
	says(Answer{"two", nil})
	in.Wrote(1, "two", "q", 8)
	says(Answer{"one", own("p", 7)})
	if f := in.Frozen(); f == nil || f.Reason != v1alpha1.ReasonHubRestored {
		t.Errorf("frozen %v", f)
	}
}
