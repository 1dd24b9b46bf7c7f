package dataplanetest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"fairlead.dev/fairlead/internal/lb"
)

// flow is something that a user would notice.
type flow struct {
	// name is the subtest's.
	name string
	// says what the user can count on, as the page prints it.
	says string
	// members run, from number 1.
	members int
	// needs makes services that ask for all that the flow wants: Check is asked about them.
	needs func() []service
	// run has a process that serves nothing yet.
	run func(w *world, p *proxy)
	// without asserts what holds for a data plane whose Factory says that it can't do this; nil: no data plane may say so.
	without func(w *world, p *proxy)
}

// flows are all of them, in the page's order.
func flows() []flow {
	return slices.Concat(servingFlows(), streamFlows(), udpFlows(), sctpFlows(), choiceFlows(), drainFlows(), healthFlows(), churnFlows(), restartFlows(), tenantFlows(), modelFlows())
}

// Run runs all flows on all data planes and compares the page with what passed. Tests call it from a package whose TestMain calls Main.
func Run(t *testing.T, factories []Factory, page Page) {
	all := flows()
	results := map[string]map[string]result{}
	for _, f := range factories {
		results[f.Name] = map[string]result{}
		t.Run(f.Name, func(t *testing.T) {
			checkLimits(t, f, all)
			for _, fl := range all {
				t.Run(fl.name, func(t *testing.T) {
					results[f.Name][fl.name] = fl.on(t, f)
				})
			}
		})
	}
	if t.Failed() {
		return
	}
	for _, f := range factories {
		if len(results[f.Name]) < len(all) {
			return // Not all flows were asked for.
		}
	}
	page.check(t, factories, all, results)
}

// checkLimits fails the test if the Factory claims a limit that is none.
func checkLimits(t *testing.T, f Factory, all []flow) {
	for name, reason := range f.Limits {
		i := slices.IndexFunc(all, func(fl flow) bool { return fl.name == name })
		if i < 0 || all[i].without == nil || reason == "" {
			t.Errorf("%s says that it can't do %q: there is no such flow, every data plane must do it, or the reason is missing", f.Name, name)
		}
	}
}

// result says why a data plane doesn't do a flow; empty: it does.
type result struct{ reason string }

func (fl flow) on(t *testing.T, f Factory) result {
	w := newWorld(t, f)
	p := w.serve(max(1, fl.members))
	if reason := f.Limits[fl.name]; reason != "" {
		fl.without(w, p)
		return result{reason}
	}
	if problems := p.check(program(fl.needs()...)); len(problems) > 0 {
		return result{fl.refused(w, p, problems)}
	}
	fl.run(w, p)
	return result{}
}

// refused asserts that what Check names is said well and costs nobody else anything, and returns the reason.
func (fl flow) refused(w *world, p *proxy, problems []lb.Problem) string {
	w.Helper()
	needs := fl.needs()
	var reasons []string
	for _, problem := range problems {
		if problem.Field == "" || problem.Reason == "" || problem.Message == "" {
			w.Errorf("a problem without field, reason or message: %+v", problem)
		}
		if !slices.ContainsFunc(needs, func(s service) bool { return s.concerns(problem) }) {
			w.Errorf("a problem of nothing in the Program: %+v", problem)
		}
		if !slices.Contains(reasons, problem.Message) {
			reasons = append(reasons, problem.Message)
		}
	}
	neighbour := service{tenant: "neighbour", name: "neighbour", at: vip(8, 8000), port: echoPort, members: []lb.Member{m(1)}}
	sibling := neighbour
	sibling.tenant, sibling.name, sibling.at = shop, "sibling", vip(8, 8001)
	served := []service{neighbour, sibling}
	var left []service
	for _, s := range needs {
		if slices.ContainsFunc(problems, func(p lb.Problem) bool { return p.Effect == lb.Refused && s.concerns(p) }) {
			left = append(left, s)
		} else {
			served = append(served, s)
		}
	}
	late := p.applyProgram(program(served...)).Outcome.Refused
	for _, problem := range late { // What is served without something may need it.
		if !slices.ContainsFunc(problems, func(p lb.Problem) bool { return p.Object == problem.Object }) {
			w.Errorf("refused: %v", problem)
		}
	}
	for _, s := range served {
		refused := slices.ContainsFunc(late, s.concerns)
		if s.protocol != lb.UDP && s.port != headedPort && len(s.members) > 0 && !refused {
			w.dial(s.at).drop()
		}
	}
	for _, s := range left {
		if s.protocol == lb.UDP {
			w.silent(w.packetsFrom(noSource, s.at))
		} else if s.protocol != lb.SCTP {
			w.unserved(noSource, s.at)
		}
	}
	return strings.Join(reasons, "; ")
}

// String is what a log shows.
func (r result) String() string {
	if r.reason == "" {
		return "yes"
	}
	return fmt.Sprintf("no: %s", r.reason)
}
