package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"
)

// figure is one measured number beside its bound; no bound: for information.
type figure struct {
	Name     string  `json:"name"`
	Measured float64 `json:"measured"`
	Bound    float64 `json:"bound,omitempty"`
	Unit     string  `json:"unit"`
	// Because says where the bound comes from, or what the number is made of.
	Because string `json:"because,omitempty"`
	Pass    bool   `json:"pass"`
}

func (b *bench) add(name, unit string, measured, bound float64, because string) {
	b.figures = append(b.figures, figure{name, measured, bound, unit, because, bound == 0 || measured <= bound})
}

// report prints the figures; an error says which miss.
func (b *bench) report(w io.Writer, format string) error {
	missed := []string{}
	for _, f := range b.figures {
		if !f.Pass {
			missed = append(missed, f.Name)
		}
	}
	if format == "json" {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		if err := e.Encode(b.figures); err != nil {
			return err
		}
	} else if err := b.table(w); err != nil {
		return err
	}
	if len(missed) > 0 {
		return fmt.Errorf("%d figures miss their bound: %q", len(missed), missed)
	}
	return nil
}

func (b *bench) table(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "FIGURE\tMEASURED\tBOUND\t\tBECAUSE")
	for _, f := range b.figures {
		bound, verdict := "", ""
		if f.Bound != 0 {
			bound, verdict = fmt.Sprintf("%.4g %s", f.Bound, f.Unit), "ok"
			if !f.Pass {
				verdict = "MISSED"
			}
		}
		fmt.Fprintf(t, "%s\t%.4g %s\t%s\t%s\t%s\n", f.Name, f.Measured, f.Unit, bound, verdict, f.Because)
	}
	return t.Flush()
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// quantile of some durations, by the nearest rank; 0 of none.
func quantile(ds []time.Duration, q float64) time.Duration {
	if len(ds) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(ds))
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}
