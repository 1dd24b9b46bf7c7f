package demo

import (
	"context"
	"fmt"
	"time"
)

// outage stops something, has a tenant make a change that needs it, sees that it
// does not arrive, starts it again and waits until the change has arrived: a Service
// more, and one less. Nothing fails meanwhile.
func (s *story) outage(ctx context.Context, name string, down time.Duration, stop func(context.Context) error, start func(context.Context) error) (string, error) {
	t := s.Tenants[0]
	early, late := "before-"+name, "during-"+name
	if err := t.Apply(ctx, newService(early)); err != nil {
		return "", err
	}
	leaving, err := awaitAddress(ctx, t, early)
	if err != nil {
		return "", err
	}
	arrived := time.Duration(0)
	_, measured, err := s.window(ctx, func(ctx context.Context) error {
		if err := stop(ctx); err != nil {
			return err
		}
		stopped := time.Now()
		if err := t.Apply(ctx, s.elsewhere(newService(late))); err != nil {
			return err
		}
		if err := deleteService(ctx, t, early); err != nil {
			return err
		}
		if err := pause(ctx, time.Until(stopped.Add(down))); err != nil {
			return err
		}
		service, err := service(ctx, t, late)
		if err != nil {
			return err
		}
		if a, err := addressOf(service); err == nil {
			return fmt.Errorf("%s got %s while the %s was away: the claim could not fail", late, a, name)
		}
		if err := start(ctx); err != nil {
			return err
		}
		started := time.Now()
		a, err := awaitAddress(ctx, t, late)
		if err != nil {
			return err
		}
		if err := s.firstAnswers(ctx, t, a, webPort); err != nil {
			return err
		}
		arrived = time.Since(started)
		return s.awaitRefusal(ctx, leaving, webPort)
	})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("away for %s; a Service made meanwhile answers %s after the start, one deleted meanwhile is refused; %s",
		down, arrived.Round(time.Millisecond), measured), deleteService(ctx, t, late)
}

func managerRestart(ctx context.Context, s *story) (string, error) {
	return s.outage(ctx, "manager", 2*time.Second, s.Manager.Stop, func(context.Context) error { return s.Manager.Start() })
}

func agentRestart(ctx context.Context, s *story) (string, error) {
	agent := s.Tenants[0].Agent
	return s.outage(ctx, "agent", 2*time.Second, agent.Stop, func(context.Context) error { return agent.Start() })
}
