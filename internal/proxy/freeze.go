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
//   - an Address follows the hub as soon as that grants it to the LoadBalancers that are shown for it, and to no others;
//   - a Tenant's namespace thaws once all its Addresses do, and its agent has written everything again, in an epoch above the
//     one that was adopted before the freeze, or when the ledger grants it nothing any more. One of no Tenant thaws with its
//     Addresses, and one that is new with the ledger;
//   - a Tenant thaws with its namespace, and a class with the last namespace in which a LoadBalancer of it is served: an older copy
//     may suspend or forbid what is allowed since;
//   - the ledger has thawed once it grants all that is served. Before, nothing is proven of anything, and nothing new is served.
type catchUp struct {
	// begun: something was delivered, in era.
	begun bool
	era   int
	// behind: what is heard is not all shown. Then heard is all that the hub says, as far as that is known.
	behind bool
	heard  objects
	// frozen is how the hub has changed; nil: it is the one that is shown.
	frozen *HubChange
	// still are the namespaces that have not thawed, thawed those that have; nil before the hub was listed. ledger: it has thawed.
	still, thawed map[string]bool
	ledger        bool
	disputed
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
		p.witnessed = d.Thawed
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
	thawed := p.frozen != nil
	p.catchUp = catchUp{begun: true, era: p.era}
	out := p.follow(all)
	if p.epoch = max(p.epoch, p.shown.epoch()); thawed {
		p.witnessed = p.epoch
	}
	return out
}

// release lets a frozen picture follow the hub as soon as that is complete: nothing is served by it.
func (p *picture) release() {
	p.frozen, p.state, p.witnessed = nil, nil, 0
}

// differences lead from what is shown to what was heard, where in says so.
func (p *picture) differences(in func(Resource, Key) bool) []Change {
	var out []Change
	for r := range resources {
		for k, o := range p.heard[r] {
			// The same generation is not the same content: the hub has another history.
			if p.shown[r][k] != o && in(r, k) {
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

// describe makes state anew if it would say something else. anew: serves is another.
func (p *picture) describe(anew bool) {
	if p.frozen == nil {
		p.state = nil
		return
	}
	next := &Frozen{HubChange: *p.frozen, Listed: p.still != nil, Ledger: p.ledger}
	if p.ledger {
		next.Namespaces = slices.Sorted(maps.Keys(p.still))
	} else {
		next.Serves = p.serves
	}
	if old := p.state; old == nil || anew || old.Listed != next.Listed || old.Ledger != next.Ledger || !slices.Equal(old.Namespaces, next.Namespaces) {
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
