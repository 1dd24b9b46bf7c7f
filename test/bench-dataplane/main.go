// Command bench-dataplane measures the data planes on this machine: a client,
// load balancers and two backends are network namespaces that it makes itself,
// with wires between them. It needs root, nft and haproxy. All of it runs on two
// processors, however many there are, and what is compared is interleaved.
//
//	flows without answers, in batches taken in turn                         ─▶ ns a packet ───┐
//	rounds of load: direct, HAProxy, builtin, nftables, by hand, and back   ─▶ paired ratios ─┤
//	one change at 10, 1,000, 10,000 frontends, watched by connections alone ─▶ time to effect ├▶ figures, each with its bound
//	50,000 connections held open while a member drains                      ─▶ cost of counting ─┘
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

type options struct {
	output    string
	quick     bool
	profile   string
	only      string
	rounds    int
	turns     int
	turn      time.Duration
	frontends int
	repeats   int
	hold      int
	period    time.Duration
	flows     int
}

// bench is one run.
type bench struct {
	options
	cpus    []int
	traffic map[string]rounds
	changes []*changeCase
	figures []figure
}

func main() {
	if len(os.Args) == 3 && os.Args[1] == roleArg {
		if err := play(os.Args[2]); err != nil {
			fatal(err)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var o options
	flag.StringVar(&o.output, "o", "table", "output: table or json, with durations in nanoseconds, memory in bytes, latencies in microseconds")
	flag.BoolVar(&o.quick, "quick", false, "a short look: few rounds, few changes; flags that are set stay")
	flag.StringVar(&o.profile, "profile", "", "directory for CPU profiles of our data planes under load")
	flag.StringVar(&o.only, "only", "flows,traffic,changes,open", "which parts to run")
	flag.IntVar(&o.flows, "flows", 20, fmt.Sprintf("how often %d batches of flows are sent each way", flowsTurns))
	flag.IntVar(&o.rounds, "rounds", 21, "rounds of load; fixed before the first")
	flag.IntVar(&o.turns, "turns", 8, "turns of load of each kind in a round; what is compared takes turns")
	flag.DurationVar(&o.turn, "turn", 250*time.Millisecond, "how long a turn lasts")
	flag.IntVar(&o.frontends, "frontends", 1000, "frontends that our data planes serve while one of them has load")
	flag.IntVar(&o.repeats, "repeats", 20, "how often each change is made")
	flag.IntVar(&o.hold, "hold", 50000, "connections held open")
	flag.DurationVar(&o.period, "period", 30*time.Second, "how long the cost of counting them is watched")
	flag.Parse()
	if o.quick {
		o.shorten()
	}
	if err := run(ctx, o); err != nil {
		fatal(err)
	}
}

// shorten takes a short look, but for what the user asked for.
func (o *options) shorten() {
	set := map[string]bool{}
	flag.Visit(func(f *flag.Flag) { set[f.Name] = true })
	for name, do := range map[string]func(){
		"flows":   func() { o.flows = 5 },
		"rounds":  func() { o.rounds = 3 },
		"turns":   func() { o.turns = 2 },
		"repeats": func() { o.repeats = 5 },
		"period":  func() { o.period = 10 * time.Second },
	} {
		if !set[name] {
			do()
		}
	}
}

func run(ctx context.Context, o options) (err error) {
	if o.output != "table" && o.output != "json" {
		return fmt.Errorf("-o %q: must be table or json", o.output)
	}
	only := strings.Split(o.only, ",")
	for _, part := range only {
		if !slices.Contains([]string{"flows", "traffic", "changes", "open"}, part) {
			return fmt.Errorf("-only %q: must be of flows, traffic, changes, open", part)
		}
	}
	if o.rounds < 1 || o.repeats < 1 || o.turns < 1 || o.turn <= 0 || o.period <= 0 || o.frontends < 1 || o.flows < 1 {
		return fmt.Errorf("-rounds, -turns, -turn, -repeats, -period, -flows and -frontends must be above 0")
	}
	b := &bench{options: o, traffic: map[string]rounds{}}
	if b.cpus, err = twoProcessors(); err != nil {
		return err
	}
	began := time.Now()
	for _, part := range []struct {
		name, doing string
		do          func(context.Context) error
	}{
		{"flows", "packets of flows, each by the sender's clock", b.measureFlows},
		{"traffic", fmt.Sprintf("%d rounds of load, %d turns of %s of each kind", o.rounds, o.turns, o.turn), b.measureTraffic},
		{"changes", fmt.Sprintf("changes, %d times each", o.repeats), b.measureChanges},
		{"open", fmt.Sprintf("%d connections held open", o.hold), b.measureOpen},
	} {
		if !slices.Contains(only, part.name) {
			continue
		}
		say("%6s %s", time.Since(began).Round(time.Second), part.doing)
		if err := part.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", part.doing, err)
		}
	}
	say("%6s done", time.Since(began).Round(time.Second))
	return b.report(os.Stdout, o.output)
}

// twoProcessors keeps this program, and so all that it starts, on the first two processors it may use.
func twoProcessors() ([]int, error) {
	var allowed, two unix.CPUSet
	if err := unix.SchedGetaffinity(0, &allowed); err != nil {
		return nil, err
	}
	var cpus []int
	for cpu := 0; cpu < 1024 && len(cpus) < 2; cpu++ {
		if allowed.IsSet(cpu) {
			two.Set(cpu)
			cpus = append(cpus, cpu)
		}
	}
	// Threads to come inherit it from those there are.
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return nil, err
	}
	for _, t := range threads {
		var id int
		if _, err := fmt.Sscan(t.Name(), &id); err != nil {
			return nil, err
		}
		if err := unix.SchedSetaffinity(id, &two); err != nil && err != unix.ESRCH {
			return nil, err
		}
	}
	return cpus, nil
}

// say reports progress, apart from the result.
func say(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

func fatal(err error) {
	fmt.Fprintln(os.Stderr, "bench-dataplane:", err)
	os.Exit(1)
}
