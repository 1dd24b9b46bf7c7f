package proxy

import (
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/build"
	"github.com/prometheus/client_golang/prometheus"
)

// What waits is a state, not a history: a proxy that can't go on for hours must not grow with each event.

func TestWhatWaitsForTheFirstViewIsEachObjectOnce(t *testing.T) {
	metrics := NewMetrics(prometheus.NewRegistry())
	in := newInbox(metrics.event)
	o := Options{
		NewBuilder: func() Builder { return build.New(build.Options{ProxyPool: "edge"}) },
		Logger:     slog.New(slog.DiscardHandler), Metrics: metrics,
	}
	l := newLoop(o, in, newOwn(in), newMailbox(), nil, &atomic.Bool{})
	for i := range 1000 {
		lb, _ := loadBalancer("shop", "web", "192.0.2.1")
		lb.Generation = int64(i + 1)
		lb.ResourceVersion = fmt.Sprint(i + 1)
		in.Set(LoadBalancers, lb)
		l.takeIn(l.own.state())
	}
	if n := len(l.picture.heard[LoadBalancers]); n != 1 || len(l.changes) > 0 {
		t.Errorf("%d objects and %d changes wait, of one object", n, len(l.changes))
	}
	for _, o := range l.picture.heard[LoadBalancers] {
		if o.GetGeneration() != 1000 {
			t.Errorf("generation %d waits, wanted the newest", o.GetGeneration())
		}
	}
}

func TestWithoutAFileNothingWaitsForIt(t *testing.T) {
	r := newReporter(Options{Logger: slog.New(slog.DiscardHandler)}, "boot", newOwn(newInbox(func(Resource, string) {})), newMailbox())
	for range 1000 {
		r.take(&post{state: &served{FromHub: true}, changes: []Change{{Resource: Tenants, Key: Key{Name: "a"}, Object: &v1alpha1.Tenant{}}}}, time.Now())
		if _, err := r.keepFile(time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	if len(r.unfiled) > 0 {
		t.Errorf("%d changes wait for a file that is not kept", len(r.unfiled))
	}
}
