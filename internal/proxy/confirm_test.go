package proxy

import (
	"testing"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// What an Inbox makes of doubts, questions and answers, one by one.

// knows is an Inbox that remembers hub one, and has listed everything at version 10.
func knows(t *testing.T) *Inbox {
	in := newInbox(func(Resource, string) {})
	in.Wrote(0, "one", "px", 5)
	for r := range resources {
		in.Replace(r, nil, "10")
	}
	if answers(in, one(5)); !in.Sure() {
		t.Fatal("it doubts its hub")
	}
	in.take()
	return in
}

// one is hub one's answer, where the own Proxy stands at a seq.
func one(seq int64) Answer {
	px := &v1alpha1.Proxy{}
	px.UID, px.Status.Seq = "px", seq
	return Answer{HubUID: "one", Proxy: px}
}

// answers answers the present question.
func answers(in *Inbox, a Answer) {
	q, _ := in.Question()
	in.Answer(q, a)
}

func TestTheLastOfTwoListsInDoubtCounts(t *testing.T) {
	in := knows(t)
	a, _ := loadBalancer("shop", "a", "192.0.2.1")
	b, _ := loadBalancer("shop", "b", "192.0.2.2")
	in.Replace(LoadBalancers, []Object{a}, "20")
	in.Replace(LoadBalancers, []Object{b}, "21")
	answers(in, one(5))
	if d := in.take(); len(d.Changes) != 1 || d.Changes[0].Key != keyOf(b) {
		t.Errorf("changes %+v", d.Changes)
	}
}

func TestWhoKnowsNoHubDoubtsNone(t *testing.T) {
	in := newInbox(func(Resource, string) {})
	if in.Lost(OwnProxy); !in.Sure() {
		t.Error("it doubts a hub that it doesn't know")
	}
}

// A status may have been emptied by somebody, where the own Proxy was read before; where it wasn't, less than was written was lost.
func TestAStatusThatWasEmptied(t *testing.T) {
	in := knows(t)
	if !in.same(0, one(0), true) || !in.Sure() {
		t.Error("an emptied status is taken for another hub's")
	}
	if in.same(0, one(0), false) || in.Sure() {
		t.Error("a status that lacks what was written raises no doubt")
	}
}

// An answer settles what was in doubt before it was asked for, and nothing since.
func TestAnAnswerSettlesNothingThatCameSince(t *testing.T) {
	in := knows(t)
	in.Lost(OwnProxy)
	q, _ := in.Question()
	a, _ := loadBalancer("shop", "a", "192.0.2.1")
	in.Replace(LoadBalancers, []Object{a}, "5") // Older than what was known.
	in.Answer(q, one(5))
	if d := in.take(); in.Sure() || in.Frozen() != nil || len(d.Changes) > 0 {
		t.Errorf("sure %v, frozen %v, changes %+v", in.Sure(), in.Frozen(), d.Changes)
	}
	answers(in, one(5))
	if f := in.Frozen(); f == nil || f.Reason != v1alpha1.ReasonHubRestored {
		t.Errorf("an older list is taken for the hub's: %v", f)
	}
}

// replacedHub is an Inbox whose hub one was replaced by hub two.
func replacedHub(t *testing.T) *Inbox {
	in := knows(t)
	in.Opened(OwnProxy)
	answers(in, one(5))
	in.Lost(LoadBalancers)
	if answers(in, Answer{HubUID: "two"}); in.Frozen() == nil {
		t.Fatal("another hub is taken for the same")
	}
	return in
}

// A watch of the hub before says nothing of what the next one has.
func TestAWatchOfTheHubBeforeDoesNotStand(t *testing.T) {
	in := replacedHub(t)
	in.Wrote(1, "two", "px2", 1)
	in.Doubt()
	answers(in, Answer{HubUID: "two"})
	if era, _ := in.Era(); era != 2 {
		t.Errorf("era %d after the Proxy was lost", era)
	}
	in = knows(t) // Its own watch never opened.
	in.OwnDeleted()
	in.Doubt()
	if answers(in, Answer{HubUID: "one"}); in.Frozen() == nil {
		t.Error("a deletion counts that no watch can have seen")
	}
}

func TestNothingIsTakenOfAHubThatChangedBeforeItIsListed(t *testing.T) {
	in := replacedHub(t)
	a, _ := loadBalancer("shop", "a", "192.0.2.1")
	in.Set(LoadBalancers, a)
	if d := in.take(); len(d.Changes) > 0 {
		t.Errorf("changes %+v", d.Changes)
	}
}

func TestAnotherProxyOfThatNameTellsOfARestoredHub(t *testing.T) {
	a := one(9)
	a.Proxy.UID = "another"
	if c := (Memory{HubUID: "one", ProxyUID: "px", Seq: 5}).changed(a); c == nil || c.Reason != v1alpha1.ReasonHubRestored {
		t.Errorf("change %+v", c)
	}
	if lacks(apierrors.NewConflict(ofProxies, "edge-1", nil), "edge-1") {
		t.Error("a conflict is taken for a hub that has no such Proxy")
	}
}
