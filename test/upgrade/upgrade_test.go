package upgrade

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/fleet"
)

// part is what has a version of its own: all proxies are one.
type part string

const (
	manager part = "manager"
	agent   part = "agent"
	proxies part = "proxies"
)

// tries is how often the walk is judged until that proves something.
const tries = 3

// walk visits each mixture of two versions of the three parts, changing one at a time, and ends where it began: upgrades and
// downgrades, each part before each other. While proxies change, each pool is of two versions for a while.
var walk = []part{manager, agent, manager, proxies, manager, agent, manager, proxies}

// TestTheWalkVisitsEachMixture so that no pair of versions is left out.
func TestTheWalkVisitsEachMixture(t *testing.T) {
	now, seen := map[part]bool{}, map[[3]bool]bool{}
	for _, p := range walk {
		now[p] = !now[p]
		seen[[3]bool{now[manager], now[agent], now[proxies]}] = true
	}
	if len(seen) != 8 || now[manager] || now[agent] || now[proxies] {
		t.Errorf("%d mixtures are visited; it ends at %v", len(seen), now)
	}
}

// TestUpgradeAndBack begins with the kinds and roles, as docs/upgrading.md does; these stay when the parts go back.
func TestUpgradeAndBack(t *testing.T) { upgrade(t, "builtin") }

// TestUpgradeAndBackInKernel is the same with nftables, whose proxies are stopped and started.
func TestUpgradeAndBackInKernel(t *testing.T) { upgrade(t, "nftables") }

func upgrade(t *testing.T, dataplane string) {
	s := start(t, dataplane)
	report := s.judge(s.walk)
	for try := 1; try < tries && report.Wrong() == "" && cmp.Or(report.Busy(), s.busy) != ""; try++ { // it ends where it began
		t.Logf("it proves nothing, and is walked again: %s", cmp.Or(report.Busy(), s.busy))
		report = s.judge(s.walk)
	}
	if why := cmp.Or(report.Verdict(), s.busy); why != "" {
		t.Error(why)
	}
	if report.Sent < fewest || report.Held != held {
		t.Errorf("only %d requests and %d connections were judged", report.Sent, report.Held)
	}
	if dataplane == "builtin" {
		s.files(t.Context())
	}
	s.control()
	s.leave()
}

// walk changes part after part, and sees that the mixture works.
func (s *site) walk(ctx context.Context) error {
	if err := s.works(ctx); err != nil {
		return fmt.Errorf("the version before: %w", err)
	}
	if err := s.installNow(ctx); err != nil {
		return fmt.Errorf("installing kinds and roles: %w", err)
	}
	if err := s.works(ctx); err != nil {
		return fmt.Errorf("the version before, with the kinds and roles of now: %w", err)
	}
	is := map[part]string{manager: s.before, agent: s.before, proxies: s.before}
	if !s.ports {
		if err := s.early(ctx); err != nil {
			return fmt.Errorf("pools that the version before doesn't know: %w", err)
		}
	}
	steps := walk
	for len(steps) > 0 && !s.mayOpen(is) {
		if err := s.step(ctx, is, steps[0]); err != nil {
			return err
		}
		steps = steps[1:]
	}
	err := s.withPools(ctx, func(ctx context.Context) error {
		if err := s.works(ctx); err != nil {
			return fmt.Errorf("pools by port and of hosts: %w", err)
		}
		for len(steps) > 0 {
			next := maps.Clone(is)
			if next[steps[0]] = s.other(is[steps[0]]); !s.mayOpen(next) {
				break
			}
			if err := s.step(ctx, is, steps[0]); err != nil {
				return err
			}
			steps = steps[1:]
		}
		return nil
	})
	for ; err == nil && len(steps) > 0; steps = steps[1:] {
		err = s.step(ctx, is, steps[0])
	}
	return err
}

// step brings a part to its other version, and sees that the mixture works.
func (s *site) step(ctx context.Context, is map[part]string, p part) error {
	is[p] = s.other(is[p])
	began := time.Now()
	if err := s.change(ctx, p, is[p]); err != nil {
		return fmt.Errorf("changing %s: %w", p, err)
	}
	mixture := fmt.Sprintf("manager %s, agent %s, proxies %s", s.word(is[manager]), s.word(is[agent]), s.word(is[proxies]))
	if err := s.works(ctx); err != nil {
		return fmt.Errorf("%s: %w", mixture, err)
	}
	with := "a Service came and went"
	if s.open {
		with = "Services of each pool came and went"
	}
	s.t.Logf("%s: %s %s after the change began", mixture, with, time.Since(began).Round(10*time.Millisecond))
	return nil
}

func (s *site) other(binary string) string {
	if binary == s.before {
		return s.now
	}
	return s.before
}

func (s *site) word(binary string) string {
	if binary == s.before {
		return "before"
	}
	return "now"
}

func (s *site) change(ctx context.Context, p part, binary string) error {
	switch p {
	case manager:
		return s.Manager.Replace(ctx, binary)
	case agent:
		return s.tenant.Agent.Replace(ctx, binary)
	}
	for _, proxy := range s.Proxies {
		if err := s.changeProxy(ctx, proxy, binary); err != nil {
			return err
		}
	}
	return nil
}

// changeProxy does as docs/running-proxies.md says for the data plane.
func (s *site) changeProxy(ctx context.Context, p *fleet.Proxy, binary string) error {
	o, err := s.proxy(ctx, p)
	if err != nil {
		return err
	}
	if s.dataplane == "builtin" {
		err = p.HandOver(binary)
	} else {
		err = p.Replace(ctx, binary)
	}
	if err != nil {
		return err
	}
	return s.next(ctx, p, o.Status.Boot)
}

// control sees that the judge notices a restart that is none of those: without a hand-over where sockets are the process's own, and
// with the rules taken away where the kernel has them.
func (s *site) control() {
	s.t.Helper()
	p := s.Proxies[1]
	report := s.judge(func(ctx context.Context) error {
		o, err := s.proxy(ctx, p)
		if err != nil {
			return err
		}
		if err := p.Stop(ctx); err != nil {
			return err
		}
		if s.dataplane != "builtin" {
			if err := s.run(ctx, p, "purge", "proxy", "purge", "--dataplane="+s.dataplane); err != nil {
				return err
			}
			if err := s.refusesFor(ctx, p, time.Second); err != nil {
				return err
			}
		}
		if err := p.Replace(ctx, s.now); err != nil {
			return err
		}
		return s.next(ctx, p, o.Status.Boot)
	})
	if report.Failed == 0 || len(report.Lost) == 0 {
		s.t.Errorf("a restart that cuts connections was not noticed: %s", report.String())
	}
}
