package provider

import (
	"fmt"
	"slices"
	"testing"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/provider/contract"
	"pgregory.net/rapid"
)

// outsideWorld is a load balancer that applies what it is told when it likes, in steps that a test chooses.
type outsideWorld struct {
	told    []Member
	members map[string]MemberPhase
	open    map[string]int64
}

func (w *outsideWorld) seen(counts bool) []MemberState {
	var out []MemberState
	for a, p := range w.members {
		m := MemberState{Address: a, Health: p}
		if n := w.open[a]; counts {
			m.Connections = &n
		}
		out = append(out, m)
	}
	return out
}

// apply has one member be as told.
func (w *outsideWorld) apply(a string) {
	i := slices.IndexFunc(w.told, func(m Member) bool { return m.Address == a })
	switch {
	case i < 0:
		delete(w.members, a)
		w.open[a] = 0
	case w.told[i].Draining:
		w.members[a] = MemberDraining
	default:
		w.members[a] = MemberActive
	}
}

// Whatever happens in whatever order: nobody is called removed or disabled who is outside still, or was seen to take new
// connections within the time to settle; nobody's open connections are cut before their time; and all comes to rest with
// the targets outside, and no others.
func TestMembersAreRemovedOnlyWhenSeenToBe(t *testing.T) {
	const settle, drain = 10 * time.Second, time.Minute
	rapid.Check(t, func(t *rapid.T) {
		addresses := []string{"10.0.0.1", "10.0.0.2"}
		w := &outsideWorld{members: map[string]MemberPhase{}, open: map[string]int64{}}
		counts := rapid.Bool().Draw(t, "counts")
		now := time.Unix(1000, 0)
		stopped := map[string]time.Time{}
		lastNew := map[string]time.Time{}
		var before []clusterv1.TargetStatus
		targets := map[string]target{}
		step := func() planned {
			var list []target
			for _, a := range addresses {
				if x, ok := targets[a]; ok {
					list = append(list, x)
				}
			}
			seen := w.seen(counts)
			p := plan(scene{targets: list, complete: true, outside: seen, before: before, stopped: stopped, now: now, settle: settle, drainFor: drain})
			for _, s := range p.targets {
				if s.State != contract.StateRemoved && s.State != contract.StateDisabled {
					continue
				}
				if phase, there := w.members[s.Address]; there {
					t.Fatalf("%s is called %s, and is %s outside", s.Address, s.State, phase)
				}
				if last, ok := lastNew[s.Address]; ok && now.Sub(last) < settle {
					t.Fatalf("%s is called %s %s after it may have got a new connection", s.Address, s.State, now.Sub(last))
				}
			}
			for a, phase := range w.members {
				wanted := slices.ContainsFunc(p.want, func(m Member) bool { return m.Address == a })
				if !wanted && (phase != MemberDraining || now.Sub(stopped[a]) < settle) {
					t.Fatalf("%s is taken out, and is %s", a, phase)
				}
				if !wanted && w.open[a] > 0 && now.Sub(stopped[a]) < drain {
					t.Fatalf("%s is taken out with %d open connections", a, w.open[a])
				}
			}
			w.told, before = p.want, p.targets
			return p
		}
		for range 150 {
			a := rapid.SampledFrom(addresses).Draw(t, "address")
			switch rapid.IntRange(0, 9).Draw(t, "what") { // small ones come more often
			case 4:
				targets[a] = target{Member: Member{Name: "m-" + a, Address: a, Weight: 1}, drainFor: drain}
			case 3:
				targets[a] = target{Member: Member{Name: "m-" + a, Address: a, Weight: 1, Draining: true}, drainFor: drain, disabled: rapid.Bool().Draw(t, "disabled")}
			case 5:
				delete(targets, a)
			case 2:
				w.members[a] = MemberActive // somebody's hand
			case 7:
				w.open[a] = rapid.Int64Range(0, 2).Draw(t, "open")
			case 8:
				stopped = map[string]time.Time{} // another process goes on
			case 6:
				now = now.Add(time.Duration(rapid.IntRange(1, 8).Draw(t, "seconds")) * time.Second)
			default:
				w.apply(a)
			}
			for a, p := range w.members {
				if p == MemberActive {
					lastNew[a] = now
				}
			}
			step()
		}
		// It comes to rest once what is told is applied, and time passes.
		var p planned
		for range 10 {
			for _, a := range addresses {
				w.apply(a)
			}
			now = now.Add(drain)
			p = step()
		}
		if p.again || differ(p.want, w.seen(counts)) {
			t.Fatalf("it comes to no rest: %+v with %v outside", p, w.members)
		}
		for _, a := range addresses {
			x, ok := targets[a]
			if _, there := w.members[a]; there != (ok && !x.Draining) {
				t.Fatalf("outside are %v, and %s is %+v", w.members, a, x)
			}
		}
	})
}

func TestPlan(t *testing.T) {
	serving := func(name, address string) target {
		return target{Member: Member{Name: name, Address: address, Weight: 1}}
	}
	leaving := func(name, address string) target {
		x := serving(name, address)
		x.Draining = true
		return x
	}
	beyond := func(x target) target {
		x.beyond = true
		return x
	}
	for name, tc := range map[string]struct {
		scene scene
		// states as name=state, and wanted as address or -address for one that drains.
		states, want, strangers []string
	}{
		"the incomplete view takes nobody out": {
			scene:  scene{outside: []MemberState{{Address: "10.0.0.9", Health: MemberActive}}},
			want:   []string{"10.0.0.9"},
			states: nil,
		},
		"while a target has no address, a stranger may be it": {
			scene:  scene{complete: true, targets: []target{serving("a", "")}, outside: []MemberState{{Address: "10.0.0.9", Health: MemberActive}}},
			states: []string{"a=waiting"}, want: []string{"10.0.0.9"},
		},
		"a stranger drains": {
			scene:  scene{complete: true, targets: []target{serving("a", "10.0.0.1")}, outside: []MemberState{{Address: "10.0.0.1", Health: MemberActive}, {Address: "10.0.0.9", Health: MemberActive}}},
			states: []string{"a=active", "10.0.0.9=removing"}, want: []string{"10.0.0.1", "-10.0.0.9"}, strangers: []string{"10.0.0.9"},
		},
		"one that was a target is no stranger": {
			scene: scene{complete: true, before: []clusterv1.TargetStatus{{Name: "b", Address: "10.0.0.9", State: contract.StateActive}},
				outside: []MemberState{{Address: "10.0.0.9", Health: MemberActive}}},
			states: []string{"b=removing"}, want: []string{"-10.0.0.9"},
		},
		"of two at one address one serves": {
			scene:  scene{complete: true, targets: []target{leaving("old", "10.0.0.1"), serving("new", "10.0.0.1"), serving("twin", "10.0.0.1")}, outside: []MemberState{{Address: "10.0.0.1", Health: MemberUnhealthy}}},
			states: []string{"old=removing", "new=unhealthy", "twin=waiting"}, want: []string{"10.0.0.1"},
		},
		"one that never was in is removed at once where nothing settles": {
			scene:  scene{complete: true, targets: []target{leaving("a", "10.0.0.1")}},
			states: []string{"a=removed"},
		},
		"what an earlier process saw removed stays so": {
			scene: scene{complete: true, settle: time.Hour, targets: []target{leaving("a", "10.0.0.1")},
				before: []clusterv1.TargetStatus{{Name: "a", Address: "10.0.0.1", State: contract.StateRemoved}}},
			states: []string{"a=removed"},
		},
		"one beyond the quota is not added, and holds up nobody": {
			scene:  scene{complete: true, targets: []target{serving("a", "10.0.0.1"), beyond(serving("b", "10.0.0.2"))}, outside: []MemberState{{Address: "10.0.0.1", Health: MemberActive}, {Address: "10.0.0.9", Health: MemberActive}}},
			states: []string{"a=active", "b=waiting", "10.0.0.9=removing"}, want: []string{"10.0.0.1", "-10.0.0.9"}, strangers: []string{"10.0.0.9"},
		},
		"one beyond the quota that is in stays": {
			scene:  scene{complete: true, targets: []target{serving("a", "10.0.0.1"), beyond(serving("b", "10.0.0.2"))}, outside: []MemberState{{Address: "10.0.0.1", Health: MemberActive}, {Address: "10.0.0.2", Health: MemberUnhealthy}}},
			states: []string{"a=active", "b=unhealthy"}, want: []string{"10.0.0.1", "10.0.0.2"},
		},
		"one beyond the quota that drains is not cut": {
			scene:  scene{complete: true, targets: []target{beyond(serving("b", "10.0.0.2"))}, settle: time.Hour, outside: []MemberState{{Address: "10.0.0.2", Health: MemberDraining}}},
			states: []string{"b=removing"}, want: []string{"-10.0.0.2"},
		},
		"one that leaves waits for none beyond the quota": {
			scene:  scene{complete: true, targets: []target{leaving("old", "10.0.0.1"), beyond(serving("new", "10.0.0.1"))}},
			states: []string{"old=removed", "new=waiting"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			tc.scene.stopped, tc.scene.now = map[string]time.Time{}, time.Unix(1000, 0)
			p := plan(tc.scene)
			var states, want []string
			for _, s := range p.targets {
				states = append(states, s.Name+"="+s.State)
			}
			for _, m := range p.want {
				if m.Draining {
					m.Address = "-" + m.Address
				}
				want = append(want, m.Address)
			}
			for what, x := range map[string][2][]string{"states": {states, tc.states}, "wanted": {want, tc.want}, "strangers": {p.strangers, tc.strangers}} {
				if fmt.Sprint(x[0]) != fmt.Sprint(x[1]) {
					t.Errorf("%s are %v, not %v", what, x[0], x[1])
				}
			}
		})
	}
}
