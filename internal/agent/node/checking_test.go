package node_test

import (
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/agent/node"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
)

// answersOf reads one letter a Node: well, sick, refused, silent as ".".
func answersOf(s string) (out []node.Answer) {
	for _, x := range s {
		out = append(out, map[rune]node.Answer{'w': node.Well, 's': node.Sick, 'r': node.Refused, '.': node.Silent}[x])
	}
	return out
}

func TestOther(t *testing.T) {
	for _, c := range []struct {
		present node.Way
		nodes   int
		answers string
		other   bool
	}{
		{node.ByHealthz, 3, "rrr", true},
		{node.ByHealthz, 3, "rrs", false},
		{node.ByHealthz, 3, "rrw", false},
		{node.ByHealthz, 3, "rr.", false}, // silence decides nothing
		{node.ByHealthz, 3, "rr", false},
		{node.ByHealthz, 3, "...", false},
		{node.ByHealthz, 0, "", false},
		{node.ByPort, 3, "rrr", false},
		{node.ByPort, 3, "...", false},
		{node.ByPort, 3, "sss", false},
		{node.ByPort, 3, "wrr", false},
		{node.ByPort, 4, "wwrr", false},
		{node.ByPort, 3, "ww", true},
		{node.ByPort, 3, "w.w", true},
		{node.ByPort, 2, "w.", true}, // the other one died: it would keep the way for ever
		{node.ByPort, 2, "w", true},
		{node.ByPort, 3, "w.r", false},
		{node.ByPort, 3, "w.s", false},
		{node.ByPort, 4, "ww.r", true},
		{node.ByPort, 0, "", false},
	} {
		if other, _ := node.Other(c.present, c.nodes, answersOf(c.answers)); other != c.other {
			t.Errorf("%s, %q of %d: %t", c.present, c.answers, c.nodes, other)
		}
	}
}

func TestAsked(t *testing.T) {
	yes, no := true, false
	ready := v1alpha1.Target{UID: "ready", Addresses: []string{"10.0.0.1"}, Ready: &yes}
	silent := v1alpha1.Target{UID: "nothing", Addresses: []string{"10.0.0.2"}} // says nothing of that
	dead := v1alpha1.Target{UID: "dead", Addresses: []string{"10.0.0.3"}, Ready: &no}
	held := v1alpha1.Target{UID: "held", Addresses: []string{"10.0.0.4"}, Ready: &yes}
	drains := v1alpha1.Target{UID: "drains", Addresses: []string{"10.0.0.5"}, Ready: &yes, State: v1alpha1.TargetDraining}
	bare := v1alpha1.Target{UID: "bare", Ready: &yes}
	for _, c := range []struct {
		groups [][]v1alpha1.Target
		want   string
	}{
		{nil, ""},
		{[][]v1alpha1.Target{{ready, dead, held, drains, bare}, {silent}}, "10.0.0.1 10.0.0.2"},
		{[][]v1alpha1.Target{{dead, drains}, {held, ready}}, "10.0.0.1"},
		{[][]v1alpha1.Target{{dead, drains, bare}, {held}}, "10.0.0.3 10.0.0.4"}, // none is ready: all are asked
	} {
		var groups []*v1alpha1.TargetGroup
		for _, targets := range c.groups {
			groups = append(groups, &v1alpha1.TargetGroup{Spec: v1alpha1.TargetGroupSpec{Targets: targets}})
		}
		if got := strings.Join(node.Asked(groups, func(uid string) bool { return uid == "held" }), " "); got != c.want {
			t.Errorf("%v: %q", c.groups, got)
		}
	}
}

// What is settled after some answers is what all of them say; and after all of them it is settled.
func TestOtherIsSettledForGood(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		present := rapid.SampledFrom([]node.Way{node.ByHealthz, node.ByPort}).Draw(t, "present")
		all := answersOf(rapid.StringOfN(rapid.RuneFrom([]rune("wsr.rrww")), 0, 9, -1).Draw(t, "answers"))
		want, settled := node.Other(present, len(all), all)
		if !settled {
			t.Fatal("all have answered, and it isn't settled")
		}
		for i := range all {
			if other, settled := node.Other(present, len(all), all[:i]); settled && other != want {
				t.Fatalf("%t after %d, %t after all", other, i, want)
			}
		}
	})
}

// Each letter is a round that is for the other way, or not; the way is the one after it.
func TestRounds(t *testing.T) {
	for _, c := range []struct{ rounds, want string }{
		{"yyy", "hhp"},
		{"yynyyy", "hhhhhp"},
		{"yyyyyy", "hhppph"},
		{"yyynyynyyy", "hhppppppph"},
	} {
		var k node.Checking
		way, now, got := node.ByHealthz, time.Unix(0, 0), ""
		for i, x := range c.rounds {
			if wait := k.Wait(now); wait > 0 {
				t.Fatalf("%s: round %d has to wait %s more", c.rounds, i, wait)
			}
			was := way
			way = k.Round(way, x == 'y', now)
			want := node.Pause
			if x == 'n' || was != way {
				want = node.Rest
			}
			if wait := k.Wait(now); wait != want {
				t.Errorf("%s: %s after round %d, want %s", c.rounds, wait, i, want)
			}
			now = now.Add(k.Wait(now))
			got += strings.ToLower(string(way[:1]))
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.rounds, got, c.want)
		}
	}
	var k node.Checking
	now := time.Unix(0, 0)
	k.Round(node.ByHealthz, true, now)
	k.Round(node.ByHealthz, true, now)
	k.Forget()
	if way := k.Round(node.ByHealthz, true, now); way != node.ByHealthz || k.Wait(now) != node.Pause {
		t.Errorf("what was forgotten counts: %s, %s", way, k.Wait(now))
	}
}

// The next agent goes on as the groups say.
func TestWayOf(t *testing.T) {
	group := func(index int, way node.Way) *v1alpha1.TargetGroup {
		g := &v1alpha1.TargetGroup{ObjectMeta: metav1.ObjectMeta{Name: node.GroupName(index)}, Spec: node.Place(nil, nil, way)[0]}
		if reason := way.Reason(); reason != "" {
			g.Annotations = map[string]string{v1alpha1.AnnotationCheckedByPort: reason}
		}
		return g
	}
	bare := group(0, node.ByPort)
	bare.Annotations = nil
	annotated := group(0, node.ByHealthz)
	annotated.Annotations = map[string]string{v1alpha1.AnnotationCheckedByPort: "x"}
	other := group(0, node.ByPort)
	other.Name = "other"
	for _, c := range []struct {
		name   string
		groups []*v1alpha1.TargetGroup
		want   node.Way
	}{
		{"none", nil, node.ByHealthz},
		{"the default", []*v1alpha1.TargetGroup{group(0, node.ByHealthz)}, node.ByHealthz},
		{"both", []*v1alpha1.TargetGroup{group(1, node.ByPort), group(0, node.ByPort)}, node.ByPort},
		{"stopped in between", []*v1alpha1.TargetGroup{group(1, node.ByHealthz), group(0, node.ByPort)}, node.ByPort},
		{"stopped in between, the other way", []*v1alpha1.TargetGroup{group(0, node.ByHealthz), group(1, node.ByPort)}, node.ByHealthz},
		{"the first is gone", []*v1alpha1.TargetGroup{group(2, node.ByPort)}, node.ByPort},
		{"a check that nobody gave a reason for", []*v1alpha1.TargetGroup{bare}, node.ByHealthz},
		{"a reason without the check", []*v1alpha1.TargetGroup{annotated}, node.ByHealthz},
		{"another group", []*v1alpha1.TargetGroup{other}, node.ByHealthz},
	} {
		if way := node.WayOf(c.groups); way != c.want {
			t.Errorf("%s: %s", c.name, way)
		}
	}
}
