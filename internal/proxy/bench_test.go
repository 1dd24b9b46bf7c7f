package proxy

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/build"
	"fairlead.dev/fairlead/internal/dataplane"
	"fairlead.dev/fairlead/internal/lb"
	"github.com/prometheus/client_golang/prometheus"
)

// idleDataplane takes everything and does nothing, so that what is measured is the loop.
type idleDataplane struct{ fakeDataplane }

func (d *idleDataplane) Apply(context.Context, *lb.Program, lb.Changes) (dataplane.Outcome, error) {
	return dataplane.Outcome{How: dataplane.Hot}, nil
}

// BenchmarkOneMore is one LoadBalancer more beside those of fifty tenants, which are healthy: its two events, built, compared,
// handed over, and what is to be reported found out; without the data plane's work and the hub's.
func BenchmarkOneMore(b *testing.B) {
	for _, size := range []int{1000, 10000} {
		b.Run(fmt.Sprint(size), func(b *testing.B) { oneMore(b, size) })
	}
}

func oneMore(b *testing.B, size int) {
	const tenants = 50
	checker := &fakeChecker{changed: make(chan struct{}, 1)}
	o := Options{
		Name: "edge-1", Pool: "edge", Dataplane: &idleDataplane{}, Checker: checker,
		NewBuilder: func() Builder { return build.New(build.Options{ProxyPool: "edge"}) },
		Logger:     slog.New(slog.DiscardHandler), Metrics: NewMetrics(prometheus.NewRegistry()),
	}
	in, box := newInbox(o.Metrics.event), newMailbox()
	own := newOwn(in)
	l := newLoop(o, in, own, box, nil, &atomic.Bool{})
	own.listed, own.registered = true, true
	version := 100
	next := func() string { version++; return fmt.Sprint(version) }
	set := func(objects ...Object) {
		for _, o := range objects {
			o.SetResourceVersion(next())
			in.Set(resourceOf(o), o)
		}
	}
	for r := range resources {
		in.Replace(r, nil, next())
	}
	set(class())
	for t := range tenants {
		namespace := fmt.Sprintf("t%02d", t)
		set(targetGroup(namespace, node(1, ""), node(2, ""), node(3, "")))
		for i := range size / tenants {
			lb, a := loadBalancer(namespace, fmt.Sprintf("web-%d", i), fmt.Sprintf("10.1%02d.%d.%d", t, i/250, i%250+1))
			set(lb, a)
		}
	}
	x := newExceptions(nil, nil)
	turn := func() {
		l.turn(context.Background())
		if p := box.take(); p != nil {
			x.of(p.state, time.Now(), p.health)
		}
	}
	turn()
	if n := len(l.applied.Listeners); n != size {
		b.Fatalf("%d listeners", n)
	}
	checker.find(lb.Healthy)
	l.healthDirty = true
	turn()
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		lb, a := loadBalancer("t00", "more", "10.2.0.1")
		if i++; i%2 == 0 {
			in.Delete(LoadBalancers, keyOf(lb), next())
			in.Delete(Addresses, keyOf(a), next())
		} else {
			set(lb, a)
		}
		turn()
	}
}
