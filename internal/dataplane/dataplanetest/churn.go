package dataplanetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"fairlead.dev/fairlead/internal/lb"
	"fairlead.dev/fairlead/internal/traffic"
)

func churnFlows() []flow {
	return []flow{
		{
			name: "MemberChurn", says: "Three thousand changes of members under load: no request fails, no open connection is lost", members: 4,
			needs: func() []service { return []service{page(m(1), m(2), m(3), m(4))} },
			run: func(w *world, p *proxy) {
				const changes = 3000
				p.apply(page(m(1), m(2), m(3), m(4)))
				random := rand.New(rand.NewPCG(1, 2))
				start, took := time.Now(), time.Duration(0)
				w.judged(func(context.Context) error {
					pace := time.NewTicker(time.Millisecond)
					defer pace.Stop()
					for range changes {
						<-pace.C
						out := p.applyProgram(program(page(someMembers(random)...)))
						if len(out.Outcome.Refused) > 0 {
							return fmt.Errorf("refused: %v", out.Outcome.Refused)
						}
						took += out.Took
					}
					return nil
				})
				w.Logf("%d changes in %s, %s in Apply each", changes, time.Since(start).Round(time.Millisecond), took/changes)
			},
		},
		{
			name: "FrontendChurn", says: "Two thousand ports of others come and go under load: no request fails, no open connection is lost", members: 2,
			needs: func() []service { return []service{page(m(1), m(2))} },
			run: func(w *world, p *proxy) {
				p.apply(page(m(1), m(2)))
				w.judged(func(context.Context) error {
					var others []service
					for range 4 {
						for i := range 500 {
							others = append(others, service{
								tenant: "neighbour", name: fmt.Sprintf("other%d", i), at: vip(2+i%5, 1000+i), port: echoPort, group: "nodes",
								members: []lb.Member{m(1), m(2)},
							})
							if i%50 == 49 {
								p.apply(append(others, page(m(1), m(2)))...)
							}
						}
						w.only(vip(2+7%5, 1007), 1, 2)
						others = nil
						p.apply(page(m(1), m(2)))
					}
					return nil
				})
			},
		},
		{
			name: "Control", says: "(control: the judge does see a port that has no members for 50 ms)", members: 2,
			needs: func() []service { return []service{page(m(1), m(2))} },
			run: func(w *world, p *proxy) {
				p.apply(page(m(1), m(2)))
				report := w.judgeBusy(func(ctx context.Context) error {
					p.apply(page())
					short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
					defer cancel()
					<-short.Done()
					p.apply(page(m(1), m(2)))
					return nil
				})
				if report.Failed == 0 || !strings.Contains(report.Verdict(), "failed") {
					w.Errorf("the judge saw nothing: %s", &report)
				}
				if report.Failed > report.Sent/10 {
					w.Errorf("more failed than in 50 ms: %s", &report)
				}
			},
		},
	}
}

// page is a service whose members answer as internal/traffic asks.
func page(members ...lb.Member) service {
	s := web(members...)
	s.port = webPort
	return s
}

// someMembers are the four members as they might be, at least one of them taking connections.
func someMembers(random *rand.Rand) []lb.Member {
	always := 1 + random.IntN(4)
	var out []lb.Member
	for n := 1; n <= 4; n++ {
		switch kind := random.IntN(5); {
		case n == always:
			out = append(out, m(n))
		case kind == 0: // Gone.
		case kind == 1:
			out = append(out, draining(m(n)))
		default:
			out = append(out, weighing(m(n), kind-1))
		}
	}
	return out
}

// judge has the judge of traffic look at web's port while something happens: 200 requests a second, each a new connection, and 100
// connections that are held.
func (w *world) judge(event func(context.Context) error) traffic.Report {
	w.Helper()
	g := traffic.NewGenerator()
	defer g.Stop()
	g.Add(context.Background(), traffic.Service{
		Name: "web", Ways: []traffic.Way{{Name: "lb1", Address: vip(1, 80)}}, Rate: 200, Held: 100, Dial: w.dialContext,
	})
	reports, err := g.Around(context.Background(), event)
	w.must(err)
	return reports[0]
}

// judgeBusy looks again where this machine was too busy to ask: such a window proves nothing.
func (w *world) judgeBusy(event func(context.Context) error) traffic.Report {
	w.Helper()
	for left := 3; ; left-- {
		report := w.judge(event)
		w.Log(&report)
		busy := report.Busy()
		if busy == "" || left == 0 {
			return report
		}
		w.Log(busy)
	}
}

// judged fails the test unless the judge finds that nothing failed.
func (w *world) judged(event func(context.Context) error) {
	w.Helper()
	report := w.judgeBusy(event)
	if why := report.Verdict(); why != "" {
		w.Error(why)
	}
}
