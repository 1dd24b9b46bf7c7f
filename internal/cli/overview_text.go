package cli

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// shownProblems is how many problems are printed one by one.
const shownProblems = 30

// Width is how much of an Overview is printed.
type Width int

const (
	// Narrow counts LoadBalancers.
	Narrow Width = iota
	// Wide lists each.
	Wide
)

// WriteText prints the overview for people: problems first. now is the hub's time.
func (v *Overview) WriteText(w io.Writer, now time.Time, width Width) error {
	p := &printer{w: w}
	if len(v.Problems) == 0 {
		p.line("No problems.")
	}
	for i, x := range v.Problems {
		if i == shownProblems {
			p.line("  %d more: -o json has all", len(v.Problems)-i)
			break
		}
		text := x.Message
		if x.Reason != "" {
			text = x.Reason + ": " + x.Message
		}
		p.line("%s %s: %s%s", x.State.Sign(), x.Object, text, (&Explanation{Now: now}).since(x.State, x.Since))
	}
	p.line("")
	t := v.Totals
	p.line("LoadBalancers: %d, %d ready (%d degraded), %d waiting, %d not ready, %d being deleted", t.Total, t.Ready, t.Degraded, t.Waiting, t.NotReady, t.Deleting)
	var tenants, pools, proxies, lbs [][]string
	for _, x := range v.Tenants {
		tenants = append(tenants, []string{x.Name, x.Namespace, x.Ready, x.Agent, fmt.Sprint(x.LoadBalancers), fmt.Sprint(x.Addresses), x.Members})
	}
	for _, x := range v.Pools {
		pools = append(pools, []string{x.Name, fmt.Sprint(x.Free), fmt.Sprint(x.Granted), fmt.Sprint(x.Releasing)})
	}
	for _, x := range v.Proxies {
		proxies = append(proxies, []string{x.Name, x.Pool, x.State.Sign() + " " + x.Text, x.Dataplane, fmt.Sprint(x.Frontends), x.Through})
	}
	p.table("TENANT NAMESPACE READY AGENT LOADBALANCERS ADDRESSES MEMBERS", tenants)
	p.table("POOL FREE GRANTED RELEASING", pools)
	p.table("PROXY POOL STATE DATAPLANE FRONTENDS THROUGH", proxies)
	if width == Wide {
		for _, x := range v.Lines {
			lbs = append(lbs, []string{x.Namespace, x.Name, x.State.Sign(), x.Address, x.Class, x.Origin, x.Reason})
		}
		p.table("NAMESPACE LOADBALANCER STATE ADDRESS CLASS ORIGIN REASON", lbs)
	}
	if len(v.Hidden) > 0 {
		p.line("")
		p.line("Not visible to you: %s", strings.Join(v.Hidden, ", "))
	}
	return p.err
}

// table prints rows below a head, whose columns blanks separate; nothing without rows.
func (p *printer) table(head string, rows [][]string) {
	if len(rows) == 0 {
		return
	}
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, strings.ReplaceAll(head, " ", "\t"))
	for _, r := range rows {
		for i := range r {
			if r[i] = plain(r[i]); r[i] == "" {
				r[i] = "-"
			}
		}
		fmt.Fprintln(w, strings.Join(r, "\t"))
	}
	if err := w.Flush(); p.err == nil {
		p.err = err
	}
	p.line("")
	for l := range strings.Lines(b.String()) {
		p.line("%s", strings.TrimSuffix(l, "\n"))
	}
}
