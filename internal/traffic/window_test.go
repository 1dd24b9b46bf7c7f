package traffic

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

func threeBackends(t *testing.T) []*backend {
	return []*backend{
		newBackend(t, Identity{"red", "default", "web-1", "node-1"}),
		newBackend(t, Identity{"red", "default", "web-2", "node-2"}),
		newBackend(t, Identity{"red", "default", "web-3", "node-3"}),
	}
}

// measure runs one window with an event over the Service and returns its Report.
func measure(t *testing.T, s Service, event func()) Report {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	g := NewGenerator()
	defer g.Stop()
	g.Add(ctx, s)
	reports, err := g.Around(ctx, func(context.Context) error { event(); return nil })
	if err != nil {
		t.Fatal(err)
	}
	if len(reports) != 1 {
		t.Fatalf("%d reports for one Service", len(reports))
	}
	t.Log(reports[0].String())
	return reports[0]
}

func TestHealthyServicePasses(t *testing.T) {
	t.Parallel()
	b := threeBackends(t)
	edge := forward(t, b...)
	r := measure(t, Service{Name: "web", Ways: []Way{{Name: "edge-1", Address: edge}, {Name: "edge-2", Address: edge}}, Rate: 200, Held: 50}, func() {})
	if why := r.Verdict(); why != "" {
		t.Errorf("verdict: %s", why)
	}
	if len(r.Pods) != 3 || len(r.Ways) != 2 {
		t.Errorf("answers by Pod %v, requests by way %v", r.Pods, r.Ways)
	}
	if r.Sent < 1400 || r.P50 <= 0 || r.P99 < r.P50 {
		t.Errorf("sent %d, p50 %s, p99 %s", r.Sent, r.P50, r.P99)
	}
	sum := 0
	for _, s := range r.Seconds {
		sum += s.Sent
	}
	if sum != r.Sent {
		t.Errorf("%d requests in the seconds, %d in all", sum, r.Sent)
	}
}

// The control: this composition must fail, so that the measure is known to measure.
func TestForwarderWithoutRetryAndChecksFails(t *testing.T) {
	t.Parallel()
	b := threeBackends(t)
	edge := forward(t, b...)
	r := measure(t, Service{Name: "web", Ways: []Way{{Name: "edge-1", Address: edge}}, Rate: 200, Held: 50}, b[1].close)
	why := r.Verdict()
	if !strings.Contains(why, "requests failed") {
		t.Fatalf("one of three backends is dead, and the verdict is %q", why)
	}
	// A third of the requests of five of seven seconds.
	if share := float64(r.Failed) / float64(r.Sent); share < 0.15 || share > 0.35 {
		t.Errorf("%d of %d failed, want about 24 %%", r.Failed, r.Sent)
	}
	if len(r.Lost) != 0 {
		t.Errorf("a closed listener loses no open connection, but %d are lost: %s", len(r.Lost), r.Lost[0])
	}
}

func TestWrongTenantFails(t *testing.T) {
	t.Parallel()
	b := append(threeBackends(t), newBackend(t, Identity{"blue", "default", "web-1", "node-1"}))
	allow := func(who Identity, _ time.Time) string {
		if who.Cluster != "red" {
			return "answer of tenant " + who.Cluster
		}
		return ""
	}
	edge := forward(t, b...)
	r := measure(t, Service{Name: "web", Ways: []Way{{Name: "edge-1", Address: edge}}, Rate: 200, Allow: allow}, func() {})
	if r.Failures[FailureWrongPod] == 0 || !strings.Contains(r.Verdict(), "tenant blue") {
		t.Errorf("verdict %q, failures %v", r.Verdict(), r.Failures)
	}
}

func TestLostConnectionFails(t *testing.T) {
	t.Parallel()
	b := threeBackends(t)
	edge := forward(t, b...)
	// Which backend has how many of the six is chance, so all are cut.
	cut := 0
	r := measure(t, Service{Name: "web", Ways: []Way{{Name: "edge-1", Address: edge}}, Rate: 200, Held: 6}, func() { cut = b[0].cut() + b[1].cut() + b[2].cut() })
	if cut != 6 || len(r.Lost) != cut || !strings.Contains(r.Verdict(), "6 of 6 held connections were lost") {
		t.Errorf("lost %q, verdict %q", r.Lost, r.Verdict())
	}
}

func TestHoldNeedsSomebodyWhoAnswers(t *testing.T) {
	t.Parallel()
	b := threeBackends(t)
	edge := forward(t, b...)
	for _, x := range b {
		x.close()
	}
	if _, err := Hold(t.Context(), Service{Name: "web", Ways: []Way{{Name: "edge-1", Address: edge}}, Held: 6}); err == nil {
		t.Error("held connections to dead backends")
	}
}

func TestErrorOfTheEventIsReturned(t *testing.T) {
	t.Parallel()
	edge := forward(t, threeBackends(t)...)
	g := NewGenerator()
	defer g.Stop()
	g.Add(t.Context(), Service{Name: "web", Ways: []Way{{Name: "edge-1", Address: edge}}, Rate: 50})
	want := errors.New("no scale")
	if _, err := g.Around(t.Context(), func(context.Context) error { return want }); !errors.Is(err, want) {
		t.Errorf("got %v, want %v", err, want)
	}
}
