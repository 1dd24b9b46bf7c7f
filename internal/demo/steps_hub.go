package demo

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/fleet"
	"fairlead.dev/fairlead/internal/testkit"
)

func hubAwayPlot(s *story) []string {
	expect := "Expected: no request fails, for a proxy tries another node."
	if s.inKernel {
		expect = fmt.Sprintf("Expected: only requests to the dead node fail, for %s at most.", noticedInKernel)
	}
	return []string{
		fmt.Sprintf("the hub's API server is away for %s. Meanwhile a Service is asked for, one gives its address up,", s.away),
		"and a node dies. " + expect,
		"Once the hub is back, what was asked for is done.",
	}
}

// hubAway: the hub's API server is away for long. Meanwhile a Service is asked for, another one gives up its address, and a node dies:
// what runs goes on from what each proxy last knew, and once the hub is back all is done that was asked for.
func hubAway(ctx context.Context, s *story) (string, error) {
	t := s.Tenants[0]
	node := t.Nodes()[1].Name
	leaving, err := s.serve(ctx, t, "before-hub")
	if err != nil {
		return "", err
	}
	killing, killed, arrived := time.Time{}, time.Time{}, time.Duration(0)
	reports, err := s.measure(ctx, holdAll, func(ctx context.Context) error {
		if err := s.Hub.StopAPIServer(ctx); err != nil {
			return err
		}
		stopped := time.Now()
		if err := t.Apply(ctx, s.elsewhere(newService("during-hub"))); err != nil {
			return err
		}
		if err := giveUp(ctx, t, "before-hub"); err != nil {
			return err
		}
		s.note("the hub is away; %s asks for Service during-hub, and before-hub is of type NodePort now", t.Name())
		if err := pause(ctx, s.away/4); err != nil {
			return err
		}
		killing = time.Now()
		if err := t.KillNode(ctx, node); err != nil {
			return err
		}
		killed = time.Now()
		s.note("%s of %s has died", node, t.Name())
		if err := s.unused(ctx, t, node, stopped.Add(s.away)); err != nil {
			return err
		}
		if err := s.nothingDone(ctx, t, leaving); err != nil {
			return err
		}
		if err := s.Hub.StartAPIServer(ctx); err != nil {
			return err
		}
		started := time.Now()
		s.note("the hub is back; until now during-hub had no address, and %s was answered on", leaving)
		a, err := awaitAddress(ctx, t, "during-hub")
		if err != nil {
			return err
		}
		if err := s.awaitRefusal(ctx, leaving, webPort); err != nil {
			return err
		}
		arrived = time.Since(started)
		s.note("during-hub has %s, and %s is refused", a, leaving)
		if err := t.ReviveNode(ctx, node); err != nil {
			return err
		}
		if err := s.awaitMember(ctx, t, node, "", ""); err != nil {
			return err
		}
		s.note("%s is back", node)
		return s.firstAnswers(ctx, t, a, webPort)
	})
	if err != nil {
		return "", err
	}
	if err := s.judgeDeath(reports, killing, killed); err != nil {
		return "", err
	}
	for _, name := range []string{"before-hub", "during-hub"} {
		if err := deleteService(ctx, t, name); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("seen: away for %s; all was done %s after the hub was back; %s", s.away, arrived.Round(time.Millisecond), counts(reports)), nil
}

// unused lets time pass until a moment, and sees that no proxy tries a dead node from 2 s after now on. In a kernel the judge sees to it.
func (s *story) unused(ctx context.Context, t *fleet.Tenant, node string, until time.Time) error {
	if s.inKernel {
		return pause(ctx, time.Until(until))
	}
	if err := pause(ctx, 2*time.Second); err != nil {
		return err
	}
	noticed, err := s.connectsBy(ctx, t, node)
	if err != nil {
		return err
	}
	if err := pause(ctx, time.Until(until)); err != nil {
		return err
	}
	after, err := s.connectsBy(ctx, t, node)
	if err != nil {
		return err
	}
	for i, p := range s.Proxies {
		if after[i] > noticed[i] {
			return fmt.Errorf("%s tried %s %.0f times more than 2 s after it was killed", p.Name, node, after[i]-noticed[i])
		}
	}
	return nil
}

// nothingDone sees that what was asked for while the hub is away is not done: else the claim could not fail.
func (s *story) nothingDone(ctx context.Context, t *fleet.Tenant, leaving netip.Addr) error {
	o, err := service(ctx, t, "during-hub")
	if err != nil {
		return err
	}
	if a, err := addressOf(o); err == nil {
		return fmt.Errorf("during-hub got %s while the hub was away: the claim could not fail", a)
	}
	if err := s.answers(ctx, t, leaving, s.Proxies...); err != nil {
		return fmt.Errorf("what no proxy could know to be given up has stopped: %w", err)
	}
	return nil
}

func hubReplacedPlot(*story) []string {
	return []string{
		"the hub is lost with all that it knew, and an empty one answers at its address. It is installed as the",
		"first was: kinds, roles, pools, classes, tenants. Expected: no request fails, and the new hub's ledger",
		"gets each address that is served, for the tenant that has it.",
	}
}

// hubReplaced: an empty hub answers at the hub's address. Nobody has an identity there, and everything is served on. Then it is
// installed as the first one was, and its ledger gets to know all that is served.
func hubReplaced(ctx context.Context, s *story) (string, error) {
	const empty = 3 * time.Second
	t, other := s.Tenants[0], s.Tenants[1]
	young, err := s.serve(ctx, t, "young")
	if err != nil {
		return "", err
	}
	epoch, err := s.Epoch(ctx)
	if err != nil {
		return "", err
	}
	serves := func(ctx context.Context) error { return s.answers(ctx, t, young, s.Proxies...) }
	followed := time.Duration(0)
	_, measured, err := s.window(ctx, func(ctx context.Context) error {
		if err := s.Hub.Empty(ctx); err != nil {
			return err
		}
		s.note("an empty hub answers where the first one did; it knows none of us")
		if err := throughout(ctx, empty, serves); err != nil {
			return err
		}
		installed := time.Now()
		if err := s.Reinstall(ctx); err != nil {
			return err
		}
		s.note("it is installed as the first one was, and each program has an identity there")
		waiting, cancel := context.WithTimeout(ctx, 3*soon)
		defer cancel()
		if err := s.AwaitFollowed(waiting, epoch, v1alpha1.ReasonHubReplaced, serves); err != nil {
			return err
		}
		followed = time.Since(installed)
		s.note("both proxies said that the hub was replaced, served on, and follow it now")
		for _, has := range []struct {
			t *fleet.Tenant
			a netip.Addr
		}{{t, young}, {t, s.web[0]}, {other, s.web[1]}} {
			if err := s.awaitGranted(ctx, has.t, has.a); err != nil {
				return err
			}
		}
		a, err := s.serve(ctx, other, "newcomer")
		if err != nil {
			return err
		}
		s.note("the ledger has %s, %s and %s again, each for its tenant; a new Service of %s got %s", young, s.web[0], s.web[1], other.Name(), a)
		if err := deleteService(ctx, other, "newcomer"); err != nil {
			return err
		}
		return s.awaitRefusal(ctx, a, webPort)
	})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("seen: nothing lost; followed %s after it was installed; %s", followed.Round(time.Millisecond), measured), s.gone(ctx, t, "young")
}

// awaitGranted waits until the ledger has an address for a tenant.
func (s *story) awaitGranted(ctx context.Context, t *fleet.Tenant, a netip.Addr) error {
	ctx, cancel := context.WithTimeout(ctx, soon)
	defer cancel()
	return testkit.Poll(ctx, look, fmt.Sprintf("%s to be %s's", a, t.Name()), func(ctx context.Context) error { return s.IsGranted(ctx, t, a) })
}
