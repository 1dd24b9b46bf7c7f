package member

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Whatever happens, in whatever order, and wherever the manager stops: no member is called removed while a proxy may send to
// it, no hook is lifted before that without a way out, nothing serves before it is hooked, and the last active member is not
// drained for what is only inferred. And then it ends: a fleet that answers, or whose silent proxies are fenced, lets go of
// everything that is to leave, no hook is left behind, and at rest nothing is written.
func TestMembersUnderAnyEvents(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := LoadBalancer{
			Hooked: rapid.IntRange(0, 4).Draw(t, "hooked") > 0, MaxWait: 10 * time.Minute, Release: rapid.Bool().Draw(t, "release"),
		}
		w := newWorld(l, rapid.IntRange(1, 4).Draw(t, "machines"), rapid.IntRange(1, 3).Draw(t, "proxies"))
		var history []string
		for range rapid.IntRange(0, 120).Draw(t, "events") {
			history = append(history, w.event(t))
			if len(w.breaches) > 0 {
				t.Fatalf("%v\nafter %v", w.breaches, history)
			}
		}
		w.settle()
		if len(w.breaches) > 0 {
			t.Fatalf("at the end: %v\nafter %v", w.breaches, history)
		}
	})
}

// event is one of what may happen.
func (w *world) event(t *rapid.T) string {
	m := w.machines[rapid.IntRange(0, len(w.machines)-1).Draw(t, "machine")]
	i := rapid.IntRange(0, len(w.proxies)-1).Draw(t, "proxy")
	// What a manager and a fleet do all the time comes most often.
	kind := rapid.SampledFrom([]string{
		"manager", "manager", "manager", "manager", "stops", "stops", "apply", "apply", "apply", "report", "report", "report", "end", "healthy", "healthy",
		"unhealthy", "delete", "disable", "enable", "updating", "updated", "deselect", "select", "addresses", "addressless", "dead", "remediated", "remediated", "dropped", "unhooked",
		"pass", "clusterapi", "clusterapi", "freeze", "thaw", "silent", "back", "fence", "lost", "leaving", "clusterleaving", "again", "refuses", "takes",
	}).Draw(t, "event")
	switch kind {
	case "manager":
		w.step(1 << 20)
	case "stops":
		w.step(rapid.IntRange(0, 6).Draw(t, "writes"))
	case "apply":
		w.apply(i)
	case "report":
		w.report(i)
	case "end":
		w.end(i)
	case "healthy", "unhealthy":
		w.proxies[i].healthy[slices.Index(w.machines, m)] = kind == "healthy"
	case "delete":
		m.Deleting = true
	case "disable", "enable":
		m.Disabled = kind == "disable"
	case "updating", "updated":
		m.Cause = map[string]Cause{"updating": InPlaceUpdate, "updated": NoCause}[kind]
	case "deselect", "select":
		m.Selected = kind == "select"
	case "addresses", "addressless":
		m.Addressed = kind == "addresses"
	case "dead", "remediated":
		m.Dead = m.exists
		m.Deleting = m.Deleting || kind == "remediated"
	case "dropped": // by a person, from the TargetGroup. Where status, hook and entry are lost at once, nobody can know of it
		if was := m.Placed; was != Absent {
			if m.Placed = Absent; w.sends(m) && !m.Hook && slices.Contains([]State{"", Waiting, Removed, Disabled}, m.Was) {
				m.Placed = was
			} else {
				w.version++
			}
		}
	case "unhooked": // by a person, who means it
		if !w.sends(m) {
			m.Hook = false
		}
	case "pass":
		w.pass(4 * time.Minute)
	case "clusterapi":
		w.clusterAPI()
	case "freeze", "thaw":
		w.l.Frozen = map[string]string{"freeze": "paused", "thaw": ""}[kind]
	case "refuses", "takes":
		w.refuses = kind == "refuses"
	case "silent", "back":
		w.proxies[i].silent = kind == "silent"
	case "fence":
		if w.proxies[i].silent {
			w.fence(i)
		}
	case "lost": // the status, as clusterctl move loses it; hooks are annotations, and go along there
		if w.l.Hooked && m.Placed != Absent {
			m.Was, m.untold = "", true
		}
	case "leaving":
		w.l.Leaving = w.l.Leaving || rapid.IntRange(0, 9).Draw(t, "seldom") == 0
	case "clusterleaving":
		w.l.ClusterLeaving = w.l.ClusterLeaving || rapid.IntRange(0, 9).Draw(t, "seldom") == 0
	case "again": // a new Machine takes the place of one that is gone
		if !m.exists && m.Placed == Absent && !w.sends(m) {
			m.exists, m.Member = true, Member{Name: m.Name, Selected: true, Addressed: true}
		}
	}
	return fmt.Sprintf("%s(%s,%d)", kind, m.Name, i)
}

// settle lets everybody do their part until nothing happens any more, and holds the end to what it must be.
func (w *world) settle() {
	w.l.Frozen, w.refuses = "", false
	for i, p := range w.proxies {
		if p.silent {
			w.fence(i)
		}
	}
	writes := 0
	for range 40 {
		writes = w.step(1 << 20)
		w.clusterAPI()
		for i := range w.proxies {
			w.apply(i)
			w.end(i)
			w.report(i)
		}
		w.pass(time.Minute)
	}
	if writes > 0 {
		w.breach("%d writes at rest", writes)
	}
	for _, m := range w.machines {
		switch leaves := m.leaves(w.l); {
		case m.exists && m.Deleting:
			w.breach("%s is being deleted still, %s, hook %v", m.Name, m.Was, m.Hook)
		case !m.exists && m.Placed != Absent:
			w.breach("%s is gone, and listed", m.Name)
		case m.exists && leaves && (m.Hook || m.Was != Removed):
			w.breach("%s is to leave, and is %s, hook %v", m.Name, m.Was, m.Hook)
		case m.exists && leaves && !w.l.Leaving && m.Placed != Absent:
			w.breach("%s isn't selected, and listed", m.Name)
		case m.exists && !leaves && w.l.Hooked && !w.l.ClusterLeaving && m.Placed == serving && !m.Hook:
			w.breach("%s serves without its hook", m.Name)
		}
	}
}

// A proxy that has fallen silent holds a Machine up to maxWait with the policy Release, and until it is fenced with Block.
func TestASilentProxyHoldsAMachineNoLongerThanThePolicySays(t *testing.T) {
	for _, release := range []bool{true, false} {
		l := hooked
		l.Release = release
		w := newWorld(l, 2, 2)
		round := func(n int) {
			for range n {
				w.step(1 << 20)
				w.clusterAPI()
				for i, p := range w.proxies {
					p.healthy[0], p.healthy[1] = true, true
					w.apply(i)
					w.end(i)
					w.report(i)
				}
			}
		}
		round(5)
		m := w.machines[0]
		if m.Was != Active || !m.Hook {
			t.Fatalf("release %v: it is %s, hook %v", release, m.Was, m.Hook)
		}
		w.proxies[1].silent = true
		m.Deleting = true
		w.pass(9 * time.Minute)
		if round(5); !m.exists || !m.Hook || m.Was != Removing {
			t.Fatalf("release %v: before maxWait it is %s, hook %v", release, m.Was, m.Hook)
		}
		w.pass(time.Hour)
		if round(5); m.exists == release {
			t.Fatalf("release %v: after maxWait it exists: %v", release, m.exists)
		}
		w.fence(1)
		if round(5); m.exists {
			t.Errorf("release %v: it is held though nobody sends", release)
		}
		if len(w.breaches) > 0 {
			t.Error(w.breaches)
		}
	}
}
