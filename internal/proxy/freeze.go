package proxy

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
)

// catchUp is the part of a picture that is not shown yet.
//
// At the start it is the whole hub, until each resource was listed and confirmed. When the hub has changed, what is shown
// freezes. Then
//
//   - the ledger thaws once it grants every address that is shown to the LoadBalancer that is shown for it: Addresses,
//     classes and Tenants follow the hub again, and so do namespaces of no Tenant;
//   - a Tenant's namespace thaws once its agent has written everything again, in an epoch above the one that was
//     adopted before the freeze, or when the ledger grants it nothing any more.
type catchUp struct {
	// begun: something was delivered, in era.
	begun bool
	era   int
	// behind: what is heard is not all shown. Then heard is all that the hub says, as far as that is known.
	behind bool
	heard  objects
	// frozen is how the hub has changed; nil: it is the one that is shown.
	frozen *HubChange
	// ledger: it has thawed; but for the namespaces in still.
	ledger bool
	still  map[string]bool
	// state is what is said of it, made anew when it changes.
	state *Frozen
}

// Frozen is what a proxy has to say whose hub has changed. It is immutable.
type Frozen struct {
	HubChange
	// Listed: the hub's objects are known. Before, nothing is known of Serves.
	Listed bool
	// Serves is what is served against the hub's ledger, by namespace.
	Serves map[string][]v1alpha1.ServedAddress
	// Ledger: it has thawed. Namespaces are those whose objects have not, sorted.
	Ledger     bool
	Namespaces []string
}

// take follows a delivery, and returns what is shown otherwise now.
func (p *picture) take(d Delivery) []Change {
	var out []Change
	if d.Era != p.era || !p.begun {
		if !p.behind {
			out = p.follow(d.Earlier)
		}
		p.catchUp = catchUp{begun: true, era: d.Era, behind: true, heard: noObjects(), frozen: d.Frozen}
		for r := range p.held {
			clear(p.held[r]) // What is still missing will be found so.
		}
		p.describe(false)
	}
	p.epoch = max(p.epoch, d.Epoch)
	if !p.behind {
		out = append(out, p.follow(d.Changes)...)
		for _, c := range d.Changes {
			if t, ok := c.Object.(*v1alpha1.Tenant); ok {
				p.epoch = max(p.epoch, t.Status.HubEpoch)
			}
		}
		return out
	}
	for _, c := range d.Changes {
		p.heard.note(c)
	}
	if !d.Complete {
		return out
	}
	if p.frozen == nil {
		return append(out, p.caughtUp()...)
	}
	return append(out, p.thaw(d.Changes)...)
}

// versions are those up to which all that was delivered is shown; none while it is not.
func (p *picture) versions(v Versions) Versions {
	if p.behind && !p.ledger {
		return Versions{}
	}
	return v
}

// caughtUp shows all that was heard.
func (p *picture) caughtUp() []Change {
	all := p.differences(func(Resource, Key) bool { return true })
	p.catchUp = catchUp{begun: true, era: p.era}
	out := p.follow(all)
	p.epoch = max(p.epoch, p.shown.epoch())
	return out
}

// release lets a frozen picture follow the hub as soon as that is complete: nothing is served by it.
func (p *picture) release() {
	p.frozen, p.state = nil, nil
}

// differences lead from what is shown to what was heard, where in says so.
func (p *picture) differences(in func(Resource, Key) bool) []Change {
	var out []Change
	for r := range resources {
		for k, o := range p.heard[r] {
			// The same generation is not the same content: the hub has another history.
			if in(r, k) && p.shown[r][k] != o {
				out = append(out, Change{r, k, o})
			}
		}
		for k := range p.shown[r] {
			if p.heard[r][k] == nil && in(r, k) {
				out = append(out, Change{r, k, nil})
			}
		}
	}
	return out
}

// thaws says that an object follows the hub again.
func (p *picture) thaws(r Resource, k Key) bool {
	return p.ledger && (r != LoadBalancers && r != TargetGroups || !p.still[k.Namespace])
}

// thaw shows what may be, of what was heard; changes were heard last.
func (p *picture) thaw(changes []Change) (out []Change) {
	if !p.ledger {
		if p.frozen.Stale {
			out = p.follow(p.others())
		}
		if serves := p.against(); len(serves) > 0 {
			p.describe(true)
			return out
		}
		p.ledger, p.still = true, map[string]bool{}
		for _, r := range []Resource{LoadBalancers, TargetGroups} {
			for k := range p.shown[r] {
				p.still[k.Namespace] = true
			}
		}
		out = append(out, p.follow(p.differences(p.thaws))...)
	} else {
		var may []Change
		for _, c := range changes {
			if p.thaws(c.Resource, c.Key) {
				may = append(may, c)
			}
		}
		out = p.follow(may)
	}
	thawed, heard, shown := map[string]bool{}, p.heard.tenants(), p.shown.tenants()
	for ns := range p.still {
		if p.mayThaw(ns, heard[ns], shown[ns]) {
			thawed[ns] = true
		}
	}
	for ns := range thawed {
		delete(p.still, ns)
	}
	if len(p.still) == 0 {
		return append(out, p.caughtUp()...)
	}
	if len(thawed) > 0 {
		out = append(out, p.follow(p.differences(func(r Resource, k Key) bool {
			return (r == LoadBalancers || r == TargetGroups) && thawed[k.Namespace]
		}))...)
	}
	p.describe(true)
	return out
}

// mayThaw says that a namespace of a Tenant, as it was heard and is shown, may follow the hub again. The ledger does already.
func (p *picture) mayThaw(namespace string, heard, shown *v1alpha1.Tenant) bool {
	switch {
	case p.grantedIn[namespace] == 0: // Nothing of it is served.
		return true
	case heard != nil:
		return heard.Status.AgentEpoch > p.epoch
	}
	return shown == nil // It is the hub operator's.
}

// others are the Addresses that the ledger that was heard grants to somebody else than the one that is shown.
func (p *picture) others() (out []Change) {
	for k, o := range p.shown[Addresses] {
		a, _ := p.heard[Addresses][k].(*v1alpha1.Address)
		if a == nil || o == Object(a) {
			continue
		}
		shown := grants(o, p.pool)
		if slices.ContainsFunc(grants(a, a.Spec.ProxyPool), func(g v1alpha1.Holder) bool {
			return a.Spec.ProxyPool != p.pool || !slices.ContainsFunc(shown, func(h v1alpha1.Holder) bool { return g.Namespace == h.Namespace && g.Name == h.Name })
		}) {
			out = append(out, Change{Addresses, k, a})
		}
	}
	return out
}

// against is what is shown as served, and not granted by the ledger that was heard.
func (p *picture) against() map[string][]v1alpha1.ServedAddress {
	out := map[string][]v1alpha1.ServedAddress{}
	for k, o := range p.shown[Addresses] {
		for _, h := range grants(o, p.pool) {
			if p.shown[LoadBalancers][Key{h.Namespace, h.Name}] == nil {
				continue
			}
			granted := slices.ContainsFunc(grants(p.heard[Addresses][k], p.pool), func(g v1alpha1.Holder) bool {
				return g.Namespace == h.Namespace && g.Name == h.Name && covers(g.Ports, h.Ports)
			})
			if !granted {
				out[h.Namespace] = append(out[h.Namespace], v1alpha1.ServedAddress{Address: k.Name, LoadBalancer: h.Name, Ports: h.Ports})
			}
		}
	}
	for _, s := range out {
		slices.SortFunc(s, compareServed)
	}
	return out
}

func compareServed(a, b v1alpha1.ServedAddress) int {
	if c := strings.Compare(a.Address, b.Address); c != 0 {
		return c
	}
	return strings.Compare(a.LoadBalancer, b.LoadBalancer)
}

func sameServed(a, b v1alpha1.ServedAddress) bool {
	return compareServed(a, b) == 0 && slices.Equal(a.Ports, b.Ports)
}

// describe makes state anew if it would say something else.
func (p *picture) describe(listed bool) {
	if p.frozen == nil {
		p.state = nil
		return
	}
	next := &Frozen{HubChange: *p.frozen, Listed: listed, Ledger: p.ledger, Namespaces: slices.Sorted(maps.Keys(p.still))}
	if listed && !p.ledger {
		next.Serves = p.against()
	}
	if old := p.state; old == nil || old.Listed != next.Listed || old.Ledger != next.Ledger || !slices.Equal(old.Namespaces, next.Namespaces) ||
		!maps.EqualFunc(old.Serves, next.Serves, func(a, b []v1alpha1.ServedAddress) bool { return slices.EqualFunc(a, b, sameServed) }) {
		p.state = next
	}
}

// silent says that nothing that is released or drained may be spoken of: it would be of another hub's objects. f may be nil.
func (f *Frozen) silent() bool { return f != nil && !f.Ledger }

// message says what has happened, and what it waits for. In the namespaces that are missing the hub takes no report.
func (f *Frozen) message(missing []string) string {
	says := f.Because + "; what was served is served on, "
	if f.Stale {
		says += "but for addresses that the ledger grants to others, "
	}
	switch {
	case !f.Listed:
		return says + "while the hub's objects are listed anew"
	case !f.Ledger:
		all := slices.Sorted(maps.Keys(f.Serves))
		n := 0
		for _, s := range f.Serves {
			n += len(s)
		}
		first := f.Serves[all[0]][0]
		says += fmt.Sprintf("and the hub's ledger lacks %d of its addresses, such as %s for %s/%s, in %d namespaces (%s)", n, first.Address, all[0], first.LoadBalancer, len(all), some(all))
		if len(missing) > 0 {
			return says + fmt.Sprintf(": the manager enters them, also those of the namespaces that the hub hasn't, or deletes (%s): create these again, and their Tenants", some(missing))
		}
		return says + ": the manager enters them"
	}
	return says + fmt.Sprintf("in %d namespaces (%s) whose agents have not written all again: see to these agents, and to it that their Tenants are there", len(f.Namespaces), some(f.Namespaces))
}

// some names the first of many.
func some(names []string) string {
	if more := len(names) - 5; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:5], ", "), more)
	}
	return strings.Join(names, ", ")
}
