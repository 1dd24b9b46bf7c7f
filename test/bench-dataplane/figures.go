package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
)

// figure is one measured number beside its bound; no bound: for information.
type figure struct {
	Name     string  `json:"name"`
	Measured float64 `json:"measured"`
	Unit     string  `json:"unit"`
	// Must is "≥" or "≤", or empty.
	Must  string  `json:"must,omitempty"`
	Bound float64 `json:"bound"`
	// Because says where the bound comes from, or what the number is made of.
	Because string `json:"because,omitempty"`
	Pass    bool   `json:"pass"`
}

// note adds a figure for information.
func (b *bench) note(name, unit string, measured float64, because string) {
	b.figures = append(b.figures, figure{Name: name, Measured: measured, Unit: unit, Because: because, Pass: true})
}

func (b *bench) atLeast(name, unit string, measured, bound float64, because string) {
	b.figures = append(b.figures, figure{name, measured, unit, "≥", bound, because, measured >= bound})
}

func (b *bench) atMost(name, unit string, measured, bound float64, because string) {
	b.figures = append(b.figures, figure{name, measured, unit, "≤", bound, because, measured <= bound})
}

// report prints all rounds, all changes and the figures; an error says which miss.
func (b *bench) report(w io.Writer, format string) error {
	b.judgeTraffic()
	b.judgeChanges()
	var missed []string
	for _, f := range b.figures {
		if !f.Pass {
			missed = append(missed, f.Name)
		}
	}
	var err error
	if format == "json" {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		err = e.Encode(map[string]any{"traffic": b.traffic, "changes": b.changes, "figures": b.figures})
	} else {
		err = b.tables(w)
	}
	if err == nil && len(missed) > 0 {
		err = fmt.Errorf("%d figures miss their bound: %q", len(missed), missed)
	}
	return err
}

func (b *bench) tables(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if len(b.traffic) > 0 {
		fmt.Fprintf(w, "Load: each value is the median of %d turns of %s, taken in turn; ours serve %d frontends.\n\n", b.turns, b.turn, b.frontends)
		b.roundsTable(t)
		b.summaryTable(t)
	}
	if len(b.changes) > 0 {
		b.changesTable(t)
	}
	fmt.Fprintln(t, "FIGURE\tMEASURED\tBOUND\t\tBECAUSE")
	for _, f := range b.figures {
		bound, verdict := "", ""
		if f.Must != "" {
			bound, verdict = fmt.Sprintf("%s %.4g %s", f.Must, f.Bound, f.Unit), "met"
			if !f.Pass {
				verdict = "MISSED"
			}
		}
		fmt.Fprintf(t, "%s\t%.4g %s\t%s\t%s\t%s\n", f.Name, f.Measured, f.Unit, bound, verdict, f.Because)
	}
	return t.Flush()
}

func (b *bench) roundsTable(t *tabwriter.Writer) {
	for _, m := range measures {
		r := b.traffic[m.name]
		fmt.Fprintf(t, "ROUND\t%s, %s:\t", m.name, m.unit)
		for _, c := range carriers[1:] {
			fmt.Fprintf(t, "%s\t", c)
		}
		fmt.Fprintf(t, "%s/%s\t%s/%s\t\n", ours, hands, inGo, haproxy)
		for i := range r[direct] {
			fmt.Fprintf(t, "%d\t%s %.0f\t", i+1, direct, r[direct][i].Value)
			for _, c := range carriers[1:] {
				fmt.Fprintf(t, "%.0f\t", r[c][i].Value)
			}
			fmt.Fprintf(t, "%.3f\t%.3f\t\n", r[ours][i].Value/r[hands][i].Value, r[inGo][i].Value/r[haproxy][i].Value)
		}
		fmt.Fprintln(t)
		t.Flush()
	}
}

func (b *bench) summaryTable(t *tabwriter.Writer) {
	fmt.Fprintln(t, "MEASURE\tTHROUGH\tMEDIAN\tSPREAD\tTO DIRECT, PAIRED\tP50 µs\tP99 µs\tFAILED")
	for _, m := range measures {
		r := b.traffic[m.name]
		for _, c := range carriers {
			v := r.values(c)
			to := intervalOf(ratios(v, r.values(direct)))
			var p50, p99 []int64
			failed := 0
			for _, s := range r[c] {
				p50, p99, failed = append(p50, s.P50), append(p99, s.P99), failed+s.Failed
			}
			fmt.Fprintf(t, "%s\t%s\t%.0f %s\t%.0f to %.0f\t%.3f [%.3f, %.3f]\t%d\t%d\t%d\n", m.name, c, intervalOf(v).Median, m.unit,
				slices.Min(v), slices.Max(v), to.Median, to.Low, to.High, medianOf(p50), medianOf(p99), failed)
		}
	}
	fmt.Fprintln(t)
	t.Flush()
}

// judgeTraffic makes the verdicts of what the rounds measured.
func (b *bench) judgeTraffic() {
	toHAProxy := []float64{0.6, 0.7, 0.9}
	failed, requests := 0, ""
	for i, m := range measures {
		r := b.traffic[m.name]
		if len(r) == 0 {
			return
		}
		for _, c := range carriers {
			for _, s := range r[c] {
				if failed += s.Failed; s.Failed > 0 && requests == "" {
					requests = "first through " + c + ": " + s.Failure
				}
			}
		}
		n := len(r[direct])
		x := intervalOf(ratios(r.values(ours), r.values(hands)))
		of := fmt.Sprintf("median of %d paired ratios, %.1f %% interval %.3f to %.3f", n, 100*x.Covers, x.Low, x.High)
		b.atLeast(m.name+": nftables to handmade", "", x.Median, 0.95, of)
		b.atLeast(m.name+": nftables to handmade, interval reaches", "", x.High, 0.98, "")
		for _, c := range []string{ours, hands} {
			x := intervalOf(ratios(r.values(c), r.values(direct)))
			b.note(fmt.Sprintf("%s: %s to no load balancer", m.name, c), "", x.Median, fmt.Sprintf("interval %.3f to %.3f", x.Low, x.High))
		}
		x = intervalOf(ratios(r.values(inGo), r.values(haproxy)))
		b.atLeast(m.name+": builtin to HAProxy TCP", "", x.Median, toHAProxy[i], fmt.Sprintf("interval %.3f to %.3f", x.Low, x.High))
	}
	b.atMost("failed requests under load", "", float64(failed), 0, requests)
}
