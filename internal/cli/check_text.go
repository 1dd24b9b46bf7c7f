package cli

import (
	"io"
	"strings"
)

// WriteText prints a report for people, an area after the other, with what to do below what is amiss.
func (r *Report) WriteText(w io.Writer) error {
	p := &printer{w: w}
	area, width, bad, warnings, skipped := "", 0, 0, 0, 0
	for _, c := range r.Checks {
		width = max(width, len(c.Area))
	}
	for _, c := range r.Checks {
		shown := ""
		if c.Area != area {
			area, shown = c.Area, c.Area
		}
		switch {
		case c.State.bad():
			bad++
		case c.State == Warning:
			warnings++
		case c.State == Skipped && c.Fix != "":
			skipped++
		}
		p.line("%-*s  %s %s: %s%s", width, shown, c.State.Sign(), c.Object, c.Message, (&Explanation{Now: r.Now}).since(c.State, c.Since))
		if c.Fix != "" && c.State != OK {
			p.line("%s→ %s", strings.Repeat(" ", width+4), c.Fix)
		}
	}
	if skipped > 0 {
		p.line("%s could not be looked at.", count(skipped, "thing"))
	}
	switch {
	case bad > 0:
		p.line("Trouble: %d of %s failed.", bad, count(len(r.Checks), "check"))
	case warnings > 0:
		p.line("No trouble; %s.", count(warnings, "warning"))
	default:
		p.line("No trouble.")
	}
	return p.err
}
