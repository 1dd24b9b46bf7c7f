package cli

import (
	"fmt"
	"io"
)

// WriteText prints a plan, or an end, for people.
func (d *Drain) WriteText(w io.Writer) error {
	p := &printer{w: w}
	p.line("%s", d.Subject)
	var targets, lbs [][]string
	for _, t := range d.Targets {
		targets = append(targets, []string{t.Name, t.Address, t.State, fmt.Sprint(t.OpenConnections)})
	}
	for _, l := range d.LoadBalancers {
		lbs = append(lbs, []string{l.Namespace, l.Name, l.Origin, fmt.Sprint(l.Before), fmt.Sprint(l.After), fmt.Sprintf("%d%%", l.MovesPercent), openFor(l.OpenFor)})
	}
	p.table("TARGET ADDRESS STATE OPEN", targets)
	p.table("NAMESPACE LOADBALANCER SERVICE MEMBERS AFTER MOVES OPEN-FOR", lbs)
	p.line("")
	switch d.State {
	case DrainPlanned:
		p.line("MEMBERS get new connections now, AFTER are left. MOVES is the share of new connections that go to those; open ones may run on for OPEN-FOR.")
		p.line("Nothing was changed: this is what a drain would do.")
	case DrainRefused:
		p.line("✗ Refused: %s.", d.Message)
		p.line("  → %s", d.Fix)
	case DrainDraining:
		p.line("… Not drained yet: %s.", d.Message)
		if d.Fix != "" {
			p.line("  → %s", d.Fix)
		}
	case DrainUnknown:
		p.line("✗ It can't be told whether it is drained: %s.", d.Message)
		p.line("  → %s", d.Fix)
	case DrainDrained:
		p.line("✓ Drained: %s.", d.Message)
	case DrainUndone:
		p.line("✓ %s.", d.Message)
	}
	return p.err
}
