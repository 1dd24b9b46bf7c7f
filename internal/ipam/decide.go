package ipam

import (
	"net/netip"
	"slices"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
)

// Action is what is to be done to the ledger.
type Action string

const (
	// Keep: the LoadBalancer holds Entry as it is.
	Keep Action = "Keep"
	// Create: Entry is new.
	Create Action = "Create"
	// Change: an entry of this name exists and becomes Entry.
	Change Action = "Change"
)

// Step is what becomes of one address.
type Step struct {
	Action Action
	Entry  Entry
}

// Decision is what a LoadBalancer gets.
type Decision struct {
	// Steps are one an address, or one a port where these are granted by themselves; the primary family's first. None: nothing can be granted now, it waits.
	Steps []Step
	// Surplus are further entries of the LoadBalancer, to be given up once Steps are written.
	Surplus []Entry
	// Short says that it has not all the families that it can't do without.
	Short bool
	// Reason and Message say why it waits or, beside Steps, which wish is not fulfilled:
	// a condition reason, and cause, then fix. They never name another tenant's objects.
	Reason, Message string
}

// Waits tells whether nothing is granted.
func (d *Decision) Waits() bool { return len(d.Steps) == 0 }

// Keeps tells whether nothing is to be written.
func (d *Decision) Keeps() bool {
	return len(d.Steps) > 0 && !slices.ContainsFunc(d.Steps, func(s Step) bool { return s.Action != Keep })
}

// Decide says what n gets. It changes nothing: the caller Sets what it carries out.
// Grants stick: a LoadBalancer that holds an address keeps it, unless it wants
// another by name, or of another family, and can have that. Where all its
// families are required it gets the first one with the last, so that two never wait for each other.
//
// settled says of an entry of a pool whose addresses tenants share whether every proxy has applied what was
// changed on it: before, nobody gets another port of it. Nil: all have.
func (l *Ledger) Decide(n Needs, settled func(Entry) bool) Decision {
	n.Ports = SortPorts(n.Ports)
	c := &chooser{Ledger: l, Needs: n, settled: settled, claimedOf: map[string]int{}, leaving: map[string]int{}}
	var granted []Entry
	for _, e := range l.HeldBy(n.Ref) {
		switch e.Phase {
		case Granted:
			granted = append(granted, e)
		case Releasing:
			c.allReleasing = append(c.allReleasing, e)
		}
	}
	c.allGranted, c.portsHeld = granted, len(portsOf(n.Ref, granted))

	families := n.Families
	if len(families) == 0 {
		families = []Family{AnyFamily}
	}
	if p := strayWish(n.Wanted, families); p != nil && len(granted) == 0 {
		return Decision{Reason: p.reason, Message: p.message}
	} else if p != nil {
		c.note = p
	}
	d := Decision{}
	var missing *problem
	families, gone := c.present(families)
	for _, f := range append(families, gone...) {
		if slices.Contains(gone, f) {
			if len(d.Steps) > 0 {
				continue // its pool has that family no more, and the other will do
			}
			clear(c.leaving) // it stays
		}
		s, p := c.one(f)
		switch {
		case len(s) > 0:
			d.Steps = append(d.Steps, s...)
			c.remember(p)
		case missing == nil || missing.reason == clusterv1.ReasonFamilyNotInPool && !n.Required:
			missing = p
		}
	}
	if missing != nil && (n.Required || len(d.Steps) == 0) {
		return c.wanting(d, missing)
	}
	if missing != nil && missing.reason != clusterv1.ReasonFamilyNotInPool {
		c.remember(missing)
	}
	d.Surplus = c.given(without(granted, d.Steps))
	return c.noted(d)
}

// present parts the families of which it can do without one into those that it may have and those that it has on hosts which have
// them no more, and wants no other address of. What it has of these isn't counted: it goes where another is granted.
func (c *chooser) present(families []Family) (present, gone []Family) {
	if c.Required || len(families) < 2 {
		return families, nil
	}
	for _, f := range families {
		c.family = f
		of := slices.DeleteFunc(slices.Clone(c.allGranted), func(e Entry) bool { return !f.Has(e.Address) })
		if len(of) == 0 || len(c.wishes()) > 0 || slices.ContainsFunc(of, func(e Entry) bool { return !c.gone(e) }) {
			present = append(present, f)
			continue
		}
		gone = append(gone, f)
		for _, e := range c.given(of) {
			c.leaving[e.Pool]++
		}
	}
	return present, gone
}

// wanting is the decision where a family can't be had that must be: what is held stays, and nothing else is granted.
func (c *chooser) wanting(d Decision, missing *problem) Decision {
	d.Steps = slices.DeleteFunc(d.Steps, func(s Step) bool {
		return !slices.ContainsFunc(c.allGranted, func(e Entry) bool { return e.Name == s.Entry.Name })
	})
	if len(c.allGranted) == 0 {
		return Decision{Reason: missing.reason, Message: missing.message}
	}
	for _, e := range without(c.allGranted, d.Steps) {
		s, p := c.keep(e)
		d.Steps = append(d.Steps, s)
		c.remember(p)
	}
	names := make([]string, 0, len(d.Steps))
	for _, s := range d.Steps {
		if name := c.place(s.Entry); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	c.note = problemf(missing.reason, "%s Meanwhile the LoadBalancer keeps %s.", missing.message, list(names))
	d.Short = true
	return c.noted(d)
}

func (c *chooser) noted(d Decision) Decision {
	if c.note != nil {
		d.Reason, d.Message = c.note.reason, c.note.message
	}
	return d
}

// strayWish says which wanted address is of none of the families.
func strayWish(wanted []netip.Addr, families []Family) *problem {
	for _, a := range wanted {
		if !slices.ContainsFunc(families, func(f Family) bool { return f.Has(a) }) {
			return problemf(clusterv1.ReasonInvalid, "The wanted address %s is of family %s, which the LoadBalancer's families leave out: add it to ipFamilies, or want another address.", a, FamilyOf(a))
		}
	}
	return nil
}

// without are the entries that no step is about.
func without(entries []Entry, steps []Step) []Entry {
	var out []Entry
	for _, e := range entries {
		if !slices.ContainsFunc(steps, func(s Step) bool { return s.Entry.Name == e.Name }) {
			out = append(out, e)
		}
	}
	return out
}
