// Command bench measures one fleet on this machine: one tenant of three nodes,
// two proxies, real API servers. Each figure stands beside what the same servers
// need in the same run for nothing but creating objects and seeing them in a
// watch, so that figures of two machines, or of a busy one, can be compared.
//
//	fleet ─▶ burst, fill, one more, node ─▶ figures, each with its bound ─▶ table or JSON
//
// With -scale it fills the hub with tenants whose clusters are not there, up to what a fleet is to bear, and looks
// at one more, at rest and at restarts.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"fairlead.dev/fairlead/internal/fleet"
	"fairlead.dev/fairlead/internal/testkit"
)

// What is measured by default.
const (
	parts      = "bursts,single,node,death"
	scaleParts = "more,rest,restarts,nodes,flood"
	// scalePart is what -scale measures, instead of all else.
	scalePart = "scale"
)

type options struct {
	output  string
	profile string
	kube    string
	parts   string
	burst   int
	inPlace int
	singles int
	scale   bool
	// tenants without clusters, and their LoadBalancers together.
	tenants, loadBalancers int
	rest                   time.Duration
}

// seatsPerProcessor is how many requests the hub's API server answers at once, as config/rbac/README.md advises: those that are
// let in share the processors.
const seatsPerProcessor = 11

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	o := options{}
	flag.StringVar(&o.output, "o", "table", "output: table or json")
	flag.StringVar(&o.profile, "profile", "", "directory for CPU profiles of our processes and the API servers, during burst, singles, fills, one more of a scale, rest and flood; then leave restarts out of -parts")
	flag.StringVar(&o.kube, "kube", "", "path of the kube binary (default: $FAIRLEAD_KUBE, else bin/kube)")
	flag.StringVar(&o.parts, "parts", "", "what is measured (default "+parts+", of which single and node fill up first, and death needs root and nft; with -scale, which fills up in any case, "+scaleParts+")")
	flag.IntVar(&o.burst, "burst", 300, "Services created in one burst")
	flag.IntVar(&o.inPlace, "in-place", 1000, "Services in place when one more is created")
	flag.IntVar(&o.singles, "singles", 50, "how often one more is created")
	flag.BoolVar(&o.scale, "scale", false, "measure a fleet of many tenants, instead of one of one tenant")
	flag.IntVar(&o.tenants, "tenants", 50, "hollow tenants, with -scale; at most 100")
	flag.IntVar(&o.loadBalancers, "load-balancers", 10000, "LoadBalancers of all hollow tenants together, with -scale")
	flag.DurationVar(&o.rest, "rest", 2*time.Minute, "how long a fleet at rest is watched, with -scale")
	flag.Parse()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) (err error) {
	if o.output != "table" && o.output != "json" {
		return fmt.Errorf("-o %q: must be table or json", o.output)
	}
	if o.tenants < 1 || o.tenants > 100 || o.loadBalancers < o.tenants {
		return fmt.Errorf("-tenants %d, -load-balancers %d: must be 1 to 100, and one or more for each", o.tenants, o.loadBalancers)
	}
	if o.parts == "" && o.scale {
		o.parts = scaleParts
	} else if o.parts == "" {
		o.parts = parts
	}
	dir, err := os.MkdirTemp("", "fairlead-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	self := filepath.Join(dir, "fairlead")
	root, err := testkit.ModuleRoot()
	if err != nil {
		return err
	}
	build := exec.CommandContext(ctx, "go", "build", "-o", self, "./cmd/fairlead")
	build.Dir, build.Stderr = root, os.Stderr
	if err := build.Run(); err != nil {
		return fmt.Errorf("building fairlead: %w", err)
	}
	f, err := fleet.Start(ctx, fleet.Options{Self: self, KubeBinary: o.kube, Dir: filepath.Join(dir, "fleet"), Tenants: 1, Fairness: true, Seats: seatsPerProcessor * runtime.NumCPU(), Audit: true, Profiles: o.profile != "", Say: say})
	defer func() {
		if stopErr := f.Stop(); stopErr != nil && err == nil {
			err = stopErr
		}
	}()
	if err != nil {
		return err
	}
	b, err := newBench(ctx, f, o)
	if err != nil {
		return err
	}
	defer b.close()
	began := time.Now()
	for _, part := range []struct {
		of    string
		doing string
		do    func(context.Context) error
	}{
		{"bursts", fmt.Sprintf("bursts of %d Services, and the same number alone before and after", o.burst), b.measureBursts},
		{"single,node", fmt.Sprintf("filling up to %d Services", o.inPlace), b.fill},
		{"single", fmt.Sprintf("one Service more, %d times, each beside an echo", o.singles), b.measureSingles},
		{"node", "a node's change", b.measureNode},
		{"death", "a node's death, in network namespaces, for each data plane", b.measureDeaths},
		{scalePart, fmt.Sprintf("%d hollow tenants with %d LoadBalancers", o.tenants, o.loadBalancers), b.measureScale},
	} {
		if !slices.ContainsFunc(strings.Split(part.of, ","), b.measures) {
			continue
		}
		say("%6s %s", time.Since(began).Round(time.Second), part.doing)
		if err := part.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", part.doing, err)
		}
	}
	if deaths := f.TakeDeaths(); len(deaths) > 0 {
		return fmt.Errorf("programs died unasked: %v", deaths)
	}
	return b.report(os.Stdout, o.output)
}

// measures says that a part was asked for.
func (b *bench) measures(part string) bool {
	if b.options.scale && part == scalePart {
		return true
	}
	return slices.Contains(strings.Split(b.options.parts, ","), part)
}

// say reports progress, apart from the result.
func say(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }
