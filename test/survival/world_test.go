package survival

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/fleet"
	"fairlead.dev/fairlead/internal/testkit"
	"fairlead.dev/fairlead/internal/traffic"
)

const (
	// rate is the requests a second that each Service gets in a window, at least.
	rate = 200
	// held is the number of open connections to each Service that must stay.
	held = 50
	// soon bounds what should take a moment; it is never a claim.
	soon = time.Minute
	look = 50 * time.Millisecond
	// silence is how long a proxy must be silent until it counts as such, and a moment.
	silence = 35 * time.Second
	// noticed is when a member that answers nothing is out: two checks 2 s apart, each with 1 s to answer, after up to 2 s,
	// and jitter.
	noticed = 8 * time.Second
)

// scaled is how long something lasts here, and in full.
func scaled(short, full time.Duration) time.Duration {
	if os.Getenv("FAIRLEAD_SURVIVAL") == "full" {
		return full
	}
	return short
}

// world is a fleet whose tenants each serve a Service web.
type world struct {
	*fleet.Fleet
	self string
	// web holds each tenant's address of the Service web, in the order of the tenants; the zero value of one that is gone.
	web []netip.Addr
	// busy says that a window proved nothing, because this machine was too busy for it.
	busy bool
}

// tries is how often a failure is tried until all its windows prove something.
const tries = 3

// scenario is one failure.
type scenario struct {
	name string
	run  func(*testing.T, *world)
	// kills says that programs of the fleet die of it.
	kills bool
	// once says that it can't be tried again.
	once bool
}

// survive runs scenarios on one fleet, one after the other, up to the first that fails.
func survive(t *testing.T, options fleet.Options, scenarios []scenario) {
	w := startWorld(t, options)
	for _, s := range scenarios {
		w.busy = true
		for try := 1; w.busy; try++ {
			w.busy = false
			held := t.Run(s.name, func(t *testing.T) {
				s.run(t, w)
				if deaths := w.TakeDeaths(); !s.kills && len(deaths) > 0 {
					t.Errorf("died: %s", strings.Join(deaths, "; "))
				}
			})
			if !held {
				t.Fatalf("%s did not hold; what comes after it proves nothing", s.name)
			}
			if w.busy && (s.once || try == tries) {
				t.Fatalf("%s proves nothing: this machine is too busy", s.name)
			}
		}
	}
}

func startWorld(t *testing.T, o fleet.Options) *world {
	t.Helper()
	w := &world{self: filepath.Join(t.TempDir(), "fairlead")}
	root, err := testkit.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-o", w.self, "./cmd/fairlead")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building fairlead: %s\n%s", err, out)
	}
	o.Self, o.Tenants, o.Say = w.self, 2, func(format string, args ...any) { fmt.Fprintf(t.Output(), format+"\n", args...) }
	w.Fleet, err = fleet.Start(t.Context(), o)
	t.Cleanup(func() {
		if t.Failed() {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			if w.Hub != nil {
				if err := w.Dump(ctx); err != nil {
					t.Log(err)
				}
			}
			t.Logf("logs and objects are in %s", w.Dir)
		}
		if err := w.Stop(); err != nil {
			t.Error(err)
		}
		if !t.Failed() {
			if err := w.Remove(); err != nil {
				t.Error(err)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	w.serveWeb(t)
	return w
}

// front is a proxy that clients ask.
type front interface {
	Way(a netip.Addr, port uint16) traffic.Way
}

// all are the fleet's own proxies, and more.
func (w *world) all(more ...front) []front {
	fronts := []front{}
	for _, p := range w.Proxies {
		fronts = append(fronts, p)
	}
	return append(fronts, more...)
}

// services are what a window measures: each tenant's Service web, with that many connections held open to it.
func (w *world) services(fronts []front, held [2]int) []traffic.Service {
	services := []traffic.Service{}
	for i, t := range w.Tenants {
		if !w.web[i].IsValid() {
			continue // it is gone
		}
		ways := []traffic.Way{}
		for _, p := range fronts {
			ways = append(ways, p.Way(w.web[i], webPort))
		}
		services = append(services, traffic.Service{Name: t.Name(), Ways: ways, Rate: rate, Held: held[i], Allow: t.Pods.Allow("web")})
	}
	return services
}

// measure judges the traffic of both tenants around an event.
func (w *world) measure(t *testing.T, fronts []front, held [2]int, event func()) []traffic.Report {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	g := traffic.NewGenerator()
	defer g.Stop()
	for _, s := range w.services(fronts, held) {
		g.Add(ctx, s)
	}
	reports, err := g.Around(ctx, func(context.Context) error {
		event()
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range reports {
		t.Log(r.String())
	}
	return reports
}

// window is measure where nothing may fail.
func (w *world) window(t *testing.T, fronts []front, held [2]int, event func()) {
	t.Helper()
	reports := w.measure(t, fronts, held, event)
	for i := range reports {
		w.nothingFailed(t, &reports[i])
	}
}

// proves tells whether a report proves anything.
func (w *world) proves(t *testing.T, r *traffic.Report) bool {
	t.Helper()
	why := r.Busy()
	if why != "" {
		t.Log(why)
		w.busy = true
	}
	return why == ""
}

// nothingFailed judges a report in which nothing may fail.
func (w *world) nothingFailed(t *testing.T, r *traffic.Report) {
	t.Helper()
	if !w.proves(t, r) {
		return
	}
	if why := r.Verdict(); why != "" {
		t.Error(why)
	}
}

// onlyBetween judges a report in which requests may fail between two moments, and some must.
func (w *world) onlyBetween(t *testing.T, r *traffic.Report, from, to time.Time) {
	t.Helper()
	if !w.proves(t, r) {
		return
	}
	if why := r.OnlyBetween(from, to); why != "" {
		t.Error(why)
	}
}

// eventually waits for a condition.
func eventually(t *testing.T, within time.Duration, what string, f func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	if err := testkit.Poll(ctx, look, what, f); err != nil {
		t.Fatal(err)
	}
}

// throughout looks again and again, for that long, that a condition holds.
func throughout(t *testing.T, long time.Duration, what string, f func(context.Context) error) {
	t.Helper()
	ticker := time.NewTicker(look)
	defer ticker.Stop()
	for began := time.Now(); time.Since(began) < long; {
		if err := f(t.Context()); err != nil {
			t.Fatalf("%s: not any more after %s: %s", what, time.Since(began).Round(time.Millisecond), err)
		}
		select {
		case <-ticker.C:
		case <-t.Context().Done():
			t.Fatal(context.Cause(t.Context()))
		}
	}
}

// must ends the test on an error.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// pause lets time pass in which what was done has its effect, or has none.
func pause(t *testing.T, d time.Duration) {
	t.Helper()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.Context().Done():
		t.Fatal(context.Cause(t.Context()))
	}
}
