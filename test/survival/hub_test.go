package survival

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/fleet"
)

// hubAway: the hub's API server is away for long. Meanwhile a node dies, and every program of ours is restarted. Traffic goes
// on from what each proxy last knew; what was asked for meanwhile is done once the hub is back.
func hubAway(t *testing.T, w *world) {
	away := scaled(40*time.Second, 10*time.Minute)
	tenant := w.Tenants[0]
	node := tenant.Nodes()[1].Name
	makeService(t, tenant, "early", "")
	early := awaitAddress(t, tenant, "early")
	var stopped, died time.Time
	reports := w.measure(t, w.all(), [2]int{held, held}, func() {
		must(t, w.Hub.StopAPIServer(t.Context()))
		stopped = time.Now()
		makeService(t, tenant, "late", "")
		giveUp(t, tenant, "early")
		pause(t, away/4)

		died = time.Now()
		must(t, tenant.KillNode(t.Context(), node))
		pause(t, noticed)

		for _, p := range w.Proxies {
			must(t, p.Restart(t.Context()))
			eventually(t, soon, p.Name+" to serve from its file", func(ctx context.Context) error { return ready(ctx, p) })
		}
		must(t, w.Manager.Restart(t.Context()))
		for _, t2 := range w.Tenants {
			must(t, t2.Agent.Restart(t.Context()))
		}
		pause(t, time.Until(stopped.Add(away)))

		if a, err := addressOf(t.Context(), tenant, "late"); err == nil {
			t.Errorf("late got %s while the hub was away: the claim could not fail", a)
		}
		if err := answers(t.Context(), tenant, early, w.all()...); err != nil {
			t.Errorf("what no proxy could know to be given up has stopped: %s", err)
		}
		must(t, w.Hub.StartAPIServer(t.Context()))
		awaitAnswers(t, tenant, awaitAddress(t, tenant, "late"), w.all()...)
		awaitRefusal(t, early, w.all()...)
	})
	w.onlyBetween(t, &reports[0], died, died.Add(noticed))
	t.Logf("away for %s; %d of %d requests lost when %s died", away, reports[0].Failed, reports[0].Sent, node)
	if why := reports[0].AllHeld(); w.proves(t, &reports[0]) && why != "" {
		t.Error(why)
	}
	w.nothingFailed(t, &reports[1])
	w.window(t, w.all(), [2]int{held, held}, func() {
		must(t, tenant.ReviveNode(t.Context(), node))
		w.awaitState(t, tenant, node, "", "")
	})
	deleteService(t, tenant, "late")
	deleteService(t, tenant, "early")
}

// ready asks a proxy whether it has applied something.
func ready(ctx context.Context, p *fleet.Proxy) error {
	h := hostOf(p.Process)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: h.dial}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.Metrics.String()+"/readyz", nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("it says %s", resp.Status)
	}
	return nil
}
