package member

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/proof"
)

// world is a LoadBalancer, its Machines, a manager that may stop between any two of its writes, and proxies that apply and
// report when they like. What a proxy says goes through package proof, as in life.
type world struct {
	l        LoadBalancer
	machines []*machine
	proxies  []*proxyStub
	version  proof.Version
	// refuses: a TargetGroup can't be written; all else can.
	refuses bool
	// breaches of what must always hold.
	breaches []string
}

type machine struct {
	Member
	exists bool
	// kept: the TargetGroup could not be written, and says of it what it did.
	kept bool
	// untold: a state since then was never written, or was lost.
	untold bool
	// conns and applied are each proxy's own.
	conns   []int
	applied []v1alpha1.TargetState
}

type proxyStub struct {
	word    *proof.Proxy
	applied proof.Version
	healthy []bool
	silent  bool
}

func newWorld(l LoadBalancer, machines, proxies int) *world {
	w := &world{l: l, version: 1}
	for i := range proxies {
		w.proxies = append(w.proxies, &proxyStub{
			word:    &proof.Proxy{Name: fmt.Sprintf("edge-%d", i), Live: true, Renewed: true, Reported: true, Settled: true, Reports: map[string]*v1alpha1.ProxyReport{}},
			healthy: make([]bool, machines),
		})
	}
	for i := range machines {
		w.machines = append(w.machines, &machine{
			Member: Member{Name: fmt.Sprintf("m%d", i), Selected: true, Addressed: true}, exists: true,
			conns: make([]int, proxies), applied: make([]v1alpha1.TargetState, proxies),
		})
	}
	return w
}

func (w *world) breach(format string, args ...any) {
	w.breaches = append(w.breaches, fmt.Sprintf(format, args...))
}

// sends says that a proxy that counts may send to a machine, or has connections open.
func (w *world) sends(m *machine) bool {
	for i, p := range w.proxies {
		if !p.word.Out && (m.applied[i] == v1alpha1.TargetServing || m.conns[i] > 0) {
			return true
		}
	}
	return false
}

func (w *world) look() {
	var words []*proof.Proxy
	for _, p := range w.proxies {
		words = append(words, p.word)
	}
	for _, m := range w.machines {
		asked := Asked{Removal: proof.Removal{Namespace: "ns", GroupUID: "g", TargetUID: m.Name, Address: "10.0.0.1", Version: w.version}, Draining: m.Placed == draining}
		if m.Sight = (Sight{}); m.Placed != Absent {
			m.Sight = Look(asked, words)
		}
	}
}

// decide asks for decisions as the manager does, and holds them to what must always be true.
func (w *world) decide() []Decision {
	w.look()
	var in []Member
	for _, m := range w.machines {
		in = append(in, m.Member)
	}
	out := Decide(w.l, in)
	at := 0
	for _, m := range w.machines {
		d := out[at]
		at++
		if m.exists && w.l.Frozen == "" && (d.State == Removed || d.State == Disabled) && w.sends(m) {
			w.breach("%s is %s while a proxy may send to it", m.Name, d.State)
		}
		if w.l.Frozen != "" && (d.Want != m.Placed || d.Hook != m.Hook) {
			w.breach("%s moves while all is frozen", m.Name)
		}
		if d.Want == serving && m.Placed != serving && (m.Deleting || w.l.Hooked && !m.Hook) {
			w.breach("%s begins to serve, deleting %v, hook %v", m.Name, m.Deleting, m.Hook)
		}
		if m.Deleting && d.Hook && !m.Hook {
			w.breach("%s gets a hook while it is being deleted", m.Name)
		}
		inferred := m.Cause != NoCause && m.Selected && !m.Deleting && !m.Disabled && !w.l.Leaving
		if inferred && d.Want == draining && d.Reason != ReasonHookFirst && w.l.Frozen == "" && !slices.ContainsFunc(w.machines, func(o *machine) bool {
			return o != m && o.exists && o.serves() && o.Selected && !o.Deleting && !o.Disabled && o.Cause == NoCause
		}) {
			w.breach("%s is drained for %s, and no other one is active", m.Name, m.Cause)
		}
	}
	return out
}

// step is one round of the manager; it stops after a number of its writes. It returns how many it would have made.
func (w *world) step(writes int) int {
	decisions := w.decide()
	served := map[*machine]bool{} // as it was decided on
	for _, m := range w.machines {
		served[m] = m.Placed == serving
	}
	made := 0
	may := func() bool { made++; return made <= writes }
	exists := func(f func(m *machine, d Decision)) {
		for i, m := range w.machines {
			if m.exists {
				f(m, decisions[i])
			}
		}
	}
	exists(func(m *machine, d Decision) { // hooks that come
		if d.Hook && !m.Hook && may() {
			m.Hook = true
		}
	})
	changed := false
	for i, m := range w.machines {
		changed = changed || m.exists && decisions[i].Want != m.Placed || !m.exists && m.Placed != Absent
	}
	if changed && may() && !w.refuses { // the TargetGroup, in one write
		w.version++
		for i, m := range w.machines {
			if m.Placed = Absent; m.exists {
				m.Placed = decisions[i].Want
			}
		}
	} else if changed {
		for i, m := range w.machines {
			m.kept = m.kept || m.Placed != decisions[i].Want
		}
	}
	exists(func(m *machine, d Decision) { // hooks that go
		if d.Hook || !m.Hook || !may() {
			return
		}
		if m.Hook = false; w.sends(m) && !w.exit(m, served[m]) {
			w.breach("the hook of %s is lifted while a proxy may send to it, without a way out", m.Name)
		}
	})
	exists(func(m *machine, d Decision) { // the status
		if m.Was == d.State {
			m.untold = m.untold && w.l.Frozen != ""
			return
		}
		if !may() {
			m.untold = true
			return
		}
		if !m.untold && !m.kept && !follows(m.Was, d.State) {
			w.breach("%s goes from %q to %q", m.Name, m.Was, d.State)
		}
		m.Was, m.untold, m.kept = d.State, false, d.Want != m.Placed
	})
	return made
}

// exit says that a hook may go whoever sends.
func (w *world) exit(m *machine, served bool) bool {
	return !w.l.Hooked || w.l.Leaving || w.l.ClusterLeaving || m.Dead && m.Deleting && served && m.Sight.Healthy == 0 ||
		!served && m.Waited >= w.l.MaxWait && (m.Deleting && w.l.Release || !m.Selected)
}

// follows says whether a state may come after another. From everywhere a member may be taken out, and what is out may come
// back, but then it begins again.
func follows(from, to State) bool {
	switch to {
	case Active:
		return from == Adding || from == Unhealthy || from == Active || from == Removing // the last active one was put off
	case Unhealthy:
		return from == Active
	case Waiting:
		return from == "" || from == Disabled || from == Removed
	}
	return true
}

// apply has a proxy take over what the TargetGroup says.
func (w *world) apply(i int) {
	p := w.proxies[i]
	if p.word.Out || p.silent {
		return
	}
	p.applied = w.version
	for _, m := range w.machines {
		if m.applied[i] = m.Placed; m.Placed == serving && p.healthy[slices.Index(w.machines, m)] {
			m.conns[i]++
		}
	}
}

// report has a proxy say what it has applied, and what is not plain.
func (w *world) report(i int) {
	p := w.proxies[i]
	if p.word.Out || p.silent {
		return
	}
	r := &v1alpha1.ProxyReport{}
	for n, m := range w.machines {
		e := v1alpha1.ReportedMember{GroupUID: "g", TargetUID: m.Name, Address: "10.0.0.1"}
		switch {
		case m.applied[i] == draining && m.conns[i] > 0:
			e.State, e.OpenConnections = v1alpha1.ReportedDraining, int64(m.conns[i])
		case m.applied[i] == draining:
			e.State = v1alpha1.ReportedGone
		case m.applied[i] == serving && !p.healthy[n]:
			e.State = v1alpha1.ReportedUnhealthy
		default:
			continue
		}
		r.Members = append(r.Members, e)
	}
	next := *p.word
	next.Through.TargetGroups = p.applied
	next.Reports = maps.Clone(next.Reports)
	next.Reports["ns"] = r
	p.word = &next
}

// end has a proxy's connections to machines that drain, or are dropped, end.
func (w *world) end(i int) {
	for _, m := range w.machines {
		if m.applied[i] != serving {
			m.conns[i] = 0
		}
	}
}

func (w *world) fence(i int) {
	next := *w.proxies[i].word
	next.Out = true
	w.proxies[i].word = &next
}

// clusterAPI lets machines go that are being deleted and held by no hook.
func (w *world) clusterAPI() {
	for _, m := range w.machines {
		if m.exists && m.Deleting && !m.Hook {
			m.exists = false
			m.Member = Member{Name: m.Name, Placed: m.Placed, Deleting: true}
		}
	}
}

func (w *world) pass(d time.Duration) {
	for _, m := range w.machines {
		if m.Deleting || !m.Selected {
			m.Waited = Wait(w.l, m.Waited+d, false, m.Placed == serving)
		} else {
			m.Waited = 0
		}
	}
}
