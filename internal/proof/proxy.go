package proof

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
)

// Proxy is what is known of one proxy. It is shared and never changed.
type Proxy struct {
	Name, Pool string
	// Addresses are its host's own.
	Addresses []netip.Addr
	// Boot of the process that speaks.
	Boot string
	// Live: its Lease was seen renewed within Silence.
	Live bool
	// Renewed: its Lease was seen renewed since the watcher's start, and the status that the Lease goes with is here.
	Renewed bool
	// Out: fenced, or Left. It cannot serve.
	Out bool
	// OnMachine: it names the Machine that it runs on.
	OnMachine bool
	// Reported: its first full apply is done, and the process that said so renews the Lease.
	Reported bool
	// Passing: it isn't Reported because another process renews the Lease than the one that reported. One of them is
	// old news; which, is known in a moment.
	Passing bool
	// Through what it has applied, but for its exceptions.
	Through Vector
	// Settled: the reports known here are as new as the ones that it has written.
	Settled bool
	// HubChanged is why the hub isn't the one that the proxy knew, a condition's reason; empty: it is. Then Through says how
	// far it follows the new one: not at all, while it is Frozen.
	HubChanged string
	// Epoch of the hub that it adopted last; Thawed is that in which it followed the hub again which had changed under it, 0: never.
	Epoch, Thawed int64
	// Held are the namespaces whose report it could not write.
	Held []string
	// Reports of its present boot by namespace; a namespace without exceptions has none.
	Reports map[string]*v1alpha1.ProxyReport
}

// Problem is why a port isn't served, by one or more proxies.
type Problem struct {
	// Protocol and Port; Port 0: all of the LoadBalancer.
	Protocol string
	Port     int32
	// Field of the LoadBalancer, or of its class.
	Field   string
	Reason  string
	Message string
}

// Programmed is the answer to: does every live proxy serve this LoadBalancer as it stands now?
type Programmed struct {
	// Serving are the proxies that have applied it, exceptions or not.
	Serving []string
	// Waiting are the live proxies that have not said so, with what is missing.
	Waiting []Waiting
	// Starting are live proxies that have applied nothing yet. They hold up nobody.
	Starting []string
	// Silent are proxies that are not live. They hold up nobody.
	Silent []string
	// Problems that the Serving report, each once.
	Problems []Problem
	// Without is what the Serving can't do and serve without, each once.
	Without []Problem
}

// Waiting is a proxy that has not said what was asked for, and why it isn't taken for granted.
type Waiting struct {
	Proxy, Why string
	// Silent: it isn't live.
	Silent bool
}

// Done says that there is a live proxy, and that none is waited for.
func (p *Programmed) Done() bool { return len(p.Waiting) == 0 && len(p.Serving) > 0 }

// Equal says whether both say the same.
func (p *Programmed) Equal(o *Programmed) bool {
	return slices.Equal(p.Serving, o.Serving) && slices.Equal(p.Waiting, o.Waiting) && slices.Equal(p.Starting, o.Starting) &&
		slices.Equal(p.Silent, o.Silent) && slices.Equal(p.Problems, o.Problems) && slices.Equal(p.Without, o.Without)
}

// JudgeProgrammed asks the proxies of one pool, sorted by name, for a LoadBalancer whose present content is need.
func JudgeProgrammed(namespace, name string, need Vector, proxies []*Proxy) Programmed {
	var out Programmed
	for _, p := range proxies {
		switch {
		case p.Out:
		case !p.Live:
			out.Silent = append(out.Silent, p.Name)
		case p.Frozen():
			out.Waiting = append(out.Waiting, Waiting{Proxy: p.Name, Why: p.lacks(namespace, need)})
			out.problems(p, namespace, name, need)
		case p.Passing:
			out.Waiting = append(out.Waiting, Waiting{Proxy: p.Name, Why: "was restarted, and its new process has yet to be heard of"})
		case !p.Reported:
			out.Starting = append(out.Starting, p.Name)
		default:
			if why := p.lacks(namespace, need); why != "" {
				out.Waiting = append(out.Waiting, Waiting{Proxy: p.Name, Why: why})
			} else {
				out.Serving = append(out.Serving, p.Name)
			}
			out.problems(p, namespace, name, need)
		}
	}
	return out
}

// Refuses is what the proxy refuses of a LoadBalancer whose present content is need; known: it is live and has applied just that.
func (p *Proxy) Refuses(namespace, name string, need Vector) (refused []Problem, known bool) {
	if p.Out || !p.Live || p.Passing || !p.Reported || p.lacks(namespace, need) != "" {
		return nil, false
	}
	if r := p.Reports[namespace]; r != nil {
		refused = appendProblems(nil, r.Refused, name)
	}
	return refused, true
}

// problems adds what a proxy reports of a LoadBalancer, where that is a whole word on need.
func (p *Programmed) problems(of *Proxy, namespace, name string, need Vector) {
	if r := of.Reports[namespace]; r != nil && of.reaches(namespace, need) == "" {
		p.Problems = appendProblems(p.Problems, r.Refused, name)
		p.Without = appendProblems(p.Without, r.ServedWithout, name)
	}
}

// lacks says why the proxy isn't known to serve a namespace as need has it; empty: it is.
func (p *Proxy) lacks(namespace string, need Vector) string {
	switch {
	case p.Frozen():
		return "serves on what it had, for the hub has changed"
	case !p.Renewed:
		return "has yet to be heard of by this manager"
	}
	return p.reaches(namespace, need)
}

// reaches says why what the proxy says of a namespace isn't a whole word on need; empty: it is.
func (p *Proxy) reaches(namespace string, need Vector) string {
	if why := p.unproven(namespace); why != "" {
		return why
	}
	switch r := p.Reports[namespace]; {
	case r != nil && r.Truncated:
		return "has more exceptions in this namespace than it can report"
	case !p.Through.Reaches(need):
		return "has not applied it yet"
	}
	return ""
}

// unproven says why the proxy's word on a namespace proves nothing; empty: it counts.
func (p *Proxy) unproven(namespace string) string {
	switch {
	case slices.Contains(p.Held, namespace):
		return "could not write its report of this namespace"
	case !p.Settled:
		return "has written reports that have not arrived here yet"
	}
	return ""
}

// appendProblems adds those of a LoadBalancer that are not there yet.
func appendProblems(have []Problem, reported []v1alpha1.RefusedFrontend, name string) []Problem {
	for _, f := range reported {
		if f.LoadBalancer != name {
			continue
		}
		next := Problem{string(f.Protocol), f.Port, f.Problem.Field, f.Problem.Reason, f.Problem.Message}
		if next.Protocol == "" && next.Port != 0 {
			next.Protocol = "TCP"
		}
		if !slices.Contains(have, next) {
			have = append(have, next)
		}
	}
	return have
}

// Names lists who is waited for, at most three by name.
func Names(waiting []Waiting) string {
	var names []string
	for i, w := range waiting {
		if i == 3 {
			names = append(names, fmt.Sprintf("%d more", len(waiting)-i))
			break
		}
		names = append(names, w.Proxy+" "+w.Why)
	}
	return strings.Join(names, "; ")
}
