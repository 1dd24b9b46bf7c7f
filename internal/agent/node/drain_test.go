package node_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/agent/node"
	v1 "k8s.io/api/core/v1"
)

func TestDoomed(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) string { return strconv.FormatInt(now.Add(-d).Unix(), 10) }
	tainted := func(value string) func(*v1.Node) {
		return func(n *v1.Node) { n.Spec.Taints = []v1.Taint{{Key: "ToBeDeletedByClusterAutoscaler", Value: value}} }
	}
	for _, c := range []struct {
		name string
		n    *v1.Node
		seen time.Duration // ago
		had  string        // the taint's value then
		want time.Duration // ago; -1: it isn't
	}{
		{"not tainted", worker(), 0, "", -1},
		{"not tainted any more", worker(), time.Minute, "", -1},
		{"just seen", worker(tainted("")), 0, "", 0},
		{"seen before", worker(tainted("")), time.Minute, "", time.Minute},
		{"it says for how long", worker(tainted(ago(time.Hour))), time.Minute, ago(time.Hour), time.Hour},
		{"it says less than was seen", worker(tainted(ago(time.Second))), time.Minute, ago(time.Second), time.Minute},
		{"its clock is ahead", worker(tainted(ago(-time.Hour))), time.Minute, ago(-time.Hour), time.Minute},
		{"no time", worker(tainted("soon")), time.Minute, "soon", time.Minute},
		{"no time either", worker(tainted("-5")), time.Minute, "-5", time.Minute},
		{"set anew", worker(tainted(ago(time.Second))), time.Hour, ago(2 * time.Hour), time.Second},
		{"set anew by a clock that is ahead", worker(tainted(ago(-time.Hour))), time.Hour, ago(2 * time.Hour), 0},
		{"set anew without a time", worker(tainted("")), time.Hour, ago(2 * time.Hour), 0},
		{"a person said so too", worker(tainted(""), func(n *v1.Node) { n.Annotations[clusterv1.DisabledAnnotation] = "" }), time.Minute, "", -1},
	} {
		before := node.Doom{}
		if c.seen > 0 {
			before = node.Doom{Since: now.Add(-c.seen), Value: c.had}
		}
		got := node.Doomed(c.n, before, now)
		if got.Since.IsZero() != (c.want < 0) || !got.Since.IsZero() && now.Sub(got.Since) != c.want {
			t.Errorf("%s: since %s", c.name, got.Since)
		}
	}
}

func TestSpare(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name string
		// targets are s, serving, d, draining by a person's word, or the minutes since the taint is there; ! behind it: not ready.
		targets, want string
		again         time.Duration
	}{
		{"nobody drains", "s s", "s s", 0},
		{"one does", "s 10", "s d", 50 * time.Minute},
		{"for too long", "s 60", "s s", 0},
		{"one of two for too long", "s 10 90", "s d s", 50 * time.Minute},
		{"the soonest counts", "s 10 20", "s d d", 40 * time.Minute},
		{"all of them: they serve on", "10 20", "s s", 40 * time.Minute},
		{"all, one by a person's word", "d 20", "d s", 40 * time.Minute},
		{"one left is enough", "60 20", "s d", 40 * time.Minute},
		{"a person's word holds", "d d", "d d", 0},
		{"who isn't ready doesn't count", "s! 20", "s s", 40 * time.Minute},
		{"nor if its time is over", "90! 20", "s s", 40 * time.Minute},
		{"a ready one does", "s! s 20", "s s d", 40 * time.Minute},
		{"the ready one serves on", "10! 20", "d s", 40 * time.Minute},
		{"one serves, nobody is ready", "s! 20!", "s d", 40 * time.Minute},
		{"all, and nobody is ready", "10! 20!", "s s", 40 * time.Minute},
		{"none", "", "", 0},
	} {
		var targets []v1alpha1.Target
		doomed := map[string]node.Doom{}
		for i, text := range strings.Fields(c.targets) {
			text, not := strings.CutSuffix(text, "!")
			ready := !not
			x := v1alpha1.Target{UID: strconv.Itoa(i), State: v1alpha1.TargetDraining, Ready: &ready}
			switch minutes, err := strconv.Atoi(text); {
			case err == nil:
				doomed[x.UID] = node.Doom{Since: now.Add(-time.Duration(minutes) * time.Minute)}
			case text == "s":
				x.State = v1alpha1.TargetServing
			}
			targets = append(targets, x)
		}
		got, again := node.Spare(targets, doomed, now)
		var states []string
		for _, x := range got {
			states = append(states, strings.ToLower(string(x.State[:1])))
		}
		if strings.Join(states, " ") != c.want || again != c.again {
			t.Errorf("%s: %q, again in %s", c.name, states, again)
		}
	}
}
