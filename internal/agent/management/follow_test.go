package management

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// group has targets, name/uid or name/uid! where it drains; in the hub those of drained have stopped.
func group(uid string, generation int64, targets string, drained ...string) *v1alpha1.TargetGroup {
	g := &v1alpha1.TargetGroup{ObjectMeta: metav1.ObjectMeta{UID: "local", Generation: generation, Annotations: map[string]string{}}}
	if uid != "" {
		g.Annotations[v1alpha1.AnnotationOriginUID] = uid
	}
	for _, t := range strings.Fields(targets) {
		name, uid, _ := strings.Cut(strings.TrimSuffix(t, "!"), "/")
		state := v1alpha1.TargetServing
		if strings.HasSuffix(t, "!") {
			state = v1alpha1.TargetDraining
		}
		g.Spec.Targets = append(g.Spec.Targets, v1alpha1.Target{Name: name, UID: uid, Addresses: []string{"10.0.0.1"}, State: state})
	}
	for _, uid := range drained {
		g.Status.Targets = append(g.Status.Targets, v1alpha1.MemberStatus{Name: uid, UID: uid, State: isDrained})
	}
	g.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionAccepted, Status: metav1.ConditionTrue, ObservedGeneration: generation}}
	return g
}

func of(targets []v1alpha1.Target) string {
	var out []string
	for _, t := range targets {
		s := t.Name + "/" + t.UID
		if t.State == v1alpha1.TargetDraining {
			s += "!"
		}
		out = append(out, s)
	}
	return strings.Join(out, " ")
}

func TestTheHubFollowsWhatIsHere(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	hub := func(noted int64, targets string, drained ...string) *v1alpha1.TargetGroup {
		g := group("local", 7, targets, drained...)
		g.UID = "hub"
		g.Annotations[AnnotationOriginGeneration] = strconv.FormatInt(noted, 10)
		return g
	}
	older := hub(9, "a/1 b/2")
	other := hub(3, "a/1 b/2")
	other.Annotations[v1alpha1.AnnotationOriginUID] = "another"
	over := hub(9, "a/1 b/2")
	over.Annotations[v1alpha1.AnnotationHeldUntil] = now.Add(-time.Second).Format(time.RFC3339)
	unseen := hub(3, "a/1 b/2!", "2")
	unseen.Generation++
	for _, c := range []struct {
		name string
		Pair
		want string
		held bool
	}{
		{"the first", Pair{Local: group("", 1, "a/1 b/2!")}, "a/1 b/2!", false},
		{"as it is", Pair{Local: group("", 4, "a/1 b/2!"), Hub: hub(3, "a/1 b/2")}, "a/1 b/2!", false},
		{"gone while the hub was away", Pair{Local: group("", 4, "a/1"), Hub: hub(3, "a/1 b/2")}, "a/1 b/2!", false},
		{"it drains until proxies have stopped", Pair{Local: group("", 4, "a/1"), Hub: hub(3, "a/1 b/2!")}, "a/1 b/2!", false},
		{"they have", Pair{Local: group("", 4, "a/1"), Hub: hub(3, "a/1 b/2!", "2")}, "a/1", false},
		{"they have said so of another generation", Pair{Local: group("", 4, "a/1"), Hub: unseen}, "a/1 b/2!", false},
		{"one of its name", Pair{Local: group("", 4, "a/1 b/9"), Hub: hub(3, "a/1 b/2")}, "a/1 b/9", false},
		{"this cluster is an older one", Pair{Local: group("", 4, "a/1"), Hub: older}, "a/1 b/2", true},
		{"this cluster is another one", Pair{Local: group("", 4, "a/1"), Hub: other}, "a/1 b/2", true},
		{"the day is over", Pair{Local: group("", 4, "a/1"), Hub: over}, "a/1 b/2!", false},
		{"nothing is here", Pair{Hub: hub(3, "a/1 b/2!", "2")}, "a/1", true},
		{"what is here was deleted", Pair{Hub: hub(3, "a/1 b/2!", "2"), Deleted: true}, "a/1!", false},
		{"and all have stopped", Pair{Hub: hub(3, "a/1! b/2!", "1", "2"), Deleted: true}, "", false},
	} {
		c.Now = now
		targets, until := Follow(c.Pair)
		if of(targets) != c.want || !until.IsZero() != c.held {
			t.Errorf("%s: %s, held until %v; want %s", c.name, of(targets), until, c.want)
		}
		if c.Spare(targets) != (c.want == "") {
			t.Errorf("%s: spare: %v", c.name, c.Spare(targets))
		}
	}
}

// What the hub says counts for a target that stands there as it does here, and for the generation that it speaks of.
func TestWhatTheHubSaysOfAMachine(t *testing.T) {
	local := group("", 4, "a/1 b/2!")
	hub := func(change func(*v1alpha1.TargetGroup)) *v1alpha1.TargetGroup {
		g := group("local", 7, "a/1 b/2!", "2")
		g.Annotations[AnnotationOriginGeneration] = "4"
		if change != nil {
			change(g)
		}
		return g
	}
	says := func(uid, state, message string) func(*v1alpha1.TargetGroup) {
		return func(g *v1alpha1.TargetGroup) {
			g.Status.Targets = []v1alpha1.MemberStatus{{Name: "x", UID: uid, State: state, Message: message}}
		}
	}
	for _, c := range []struct {
		name     string
		hub      *v1alpha1.TargetGroup
		unproven string
		a, b     string
	}{
		{"all is well", hub(nil), "", "healthy", "gone"},
		{"it hasn't got them", nil, "", "no word", "waits"},
		{"its manager hasn't looked", hub(func(g *v1alpha1.TargetGroup) { g.Generation++ }), "", "no word", "waits"},
		{"it has them otherwise", hub(func(g *v1alpha1.TargetGroup) {
			g.Spec.Targets[0].State, g.Spec.Targets[1].State = v1alpha1.TargetDraining, v1alpha1.TargetServing
		}), "", "no word", "waits"},
		{"at another address", hub(func(g *v1alpha1.TargetGroup) {
			g.Spec.Targets[0].Addresses, g.Spec.Targets[1].Addresses = []string{"10.0.0.9"}, []string{"10.0.0.8"}
		}), "", "no word", "waits"},
		{"a reborn name", hub(func(g *v1alpha1.TargetGroup) { g.Spec.Targets[0].UID, g.Spec.Targets[1].UID = "8", "9" }), "", "no word", "waits"},
		{"proxies hold one", hub(says("2", "draining", "Waiting for proxies: edge has open connections.")), "", "healthy", "waits"},
		{"nothing is said of one that drains", hub(func(g *v1alpha1.TargetGroup) { g.Status.Targets = nil }), "", "healthy", "waits"},
		{"one fails", hub(says("1", "unhealthy", "Found so by 1 of 1 proxies: edge: TCP.")), "", "unhealthy", "waits"},
		{"one was not checked yet", hub(says("1", "adding", "")), "", "nothing", "waits"},
		{"another hub", hub(nil), "the hub is another one", "healthy", "waits"},
		{"as it was mirrored before", hub(func(g *v1alpha1.TargetGroup) { g.Annotations[AnnotationOriginGeneration] = "3" }), "", "no word", "waits"},
		{"as it was mirrored from another one", hub(func(g *v1alpha1.TargetGroup) { g.Annotations[v1alpha1.AnnotationOriginUID] = "x" }), "", "no word", "waits"},
	} {
		var got []string
		for at := range local.Spec.Targets {
			s := See(local, at, c.hub, 4, c.unproven)
			word := "no word"
			switch {
			case s.By != By:
				word = "nobody"
			case s.Gone:
				word = "gone"
			case local.Drains(at) && s.Waits != "":
				word = "waits"
			case s.Healthy == 1 && s.Live == 1:
				word = "healthy"
			case s.Unhealthy == 1 && s.Live == 1 && strings.HasPrefix(s.Why, "found so"):
				word = "unhealthy"
			case s.Live == 1:
				word = "nothing"
			}
			got = append(got, word)
		}
		if !slices.Equal(got, []string{c.a, c.b}) {
			t.Errorf("%s: %v, want %s and %s", c.name, got, c.a, c.b)
		}
	}
}
