package cli

import (
	"cmp"
	"fmt"
	"io"
	"strings"
)

func (l *LeaveLine) String() string {
	if l.Namespace == "" {
		return "Node " + l.Name
	}
	return fmt.Sprintf("Machine %s/%s", l.Namespace, l.Name)
}

// all counts what carried something.
func (l *Leave) all() string {
	nodes := 0
	for i := range l.Machines {
		if l.Machines[i].Namespace == "" {
			nodes++
		}
	}
	out := count(len(l.Machines)-nodes, "Machine")
	if nodes > 0 {
		out += " and " + count(nodes, "Node")
	}
	return out
}

func (l *LeaveLine) compare(o *LeaveLine) int {
	return cmp.Or(cmp.Compare(l.Namespace, o.Namespace), cmp.Compare(l.Name, o.Name))
}

// WriteText prints what was taken off, or would be, for people.
func (l *Leave) WriteText(w io.Writer) error {
	p := &printer{w: w}
	var rows [][]string
	for _, m := range l.Machines {
		deleting := "-"
		if m.Deleting {
			deleting = "waits to be deleted"
		}
		rows = append(rows, []string{m.Namespace, m.Name, string(m.State), deleting, strings.Join(m.Takes, ", ")})
	}
	p.table("NAMESPACE MACHINE STATE DELETION CARRIES", rows)
	if len(rows) > 0 {
		p.line("")
	}
	switch l.State {
	case LeavePlanned:
		p.line("Nothing was changed: this is what would be taken off %s.", l.all())
	case LeaveRefused:
		p.line("✗ Refused: %s.", l.Message)
		p.line("  → %s", l.Fix)
	case LeaveLeft:
		p.line("✗ Not all of it: %s.", l.Message)
		p.line("  → %s", l.Fix)
	case LeaveDone:
		p.line("✓ Done: %s.", l.Message)
	}
	return p.err
}
