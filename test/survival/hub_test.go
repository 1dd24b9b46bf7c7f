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
	reports, began := w.measure(t, w.all(), [2]int{held, held}, func() {
		must(t, w.Hub.StopAPIServer(t.Context()))
		stopped = time.Now()
		makeService(t, tenant, "late", "")
		giveUp(t, tenant, "early")
		pause(t, away/4)

		died = time.Now()
		must(t, tenant.KillNode(t.Context(), node))
		pause(t, noticed)

		for _, p := range w.Proxies {
			restart(t, p.Program)
			eventually(t, soon, p.Name+" to serve from its file", func(ctx context.Context) error { return ready(ctx, p) })
		}
		restart(t, w.Manager)
		for _, t2 := range w.Tenants {
			restart(t, t2.Agent)
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
	lost := w.onlyBetween(t, &reports[0], began, died, died.Add(noticed))
	t.Logf("away for %s; %d of %d requests lost when %s died", away, lost, reports[0].Sent, node)
	if w.proves(t, &reports[0]) && len(reports[0].Lost) > 0 {
		t.Errorf("%d of %d held connections were lost; first: %s", len(reports[0].Lost), reports[0].Held, reports[0].Lost[0])
	}
	w.nothingFailed(t, &reports[1])
	w.window(t, w.all(), [2]int{held, held}, func() {
		must(t, tenant.ReviveNode(t.Context(), node))
		w.awaitState(t, tenant, node, "", "")
	})
	deleteService(t, tenant, "late")
	deleteService(t, tenant, "early")
}

// restart ends a program as systemd does, and starts it again.
func restart(t *testing.T, p *fleet.Program) {
	t.Helper()
	must(t, p.Stop(t.Context()))
	must(t, p.Start())
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
