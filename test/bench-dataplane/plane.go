package main

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"time"

	"fairlead.dev/fairlead/internal/dataplane"
	"fairlead.dev/fairlead/internal/dataplane/builtin"
	"fairlead.dev/fairlead/internal/dataplane/nftables"
	"fairlead.dev/fairlead/internal/lb"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"
)

// Our data planes, as they are called.
const (
	ours  = nftables.Name
	inGo  = builtin.Name
	hands = "handmade"
)

// newDataplane makes one of ours as internal/app does.
func newDataplane(name string) (dataplane.Dataplane, error) {
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	metrics := prometheus.NewRegistry()
	switch name {
	case ours:
		return nftables.New(nftables.Options{Logger: log, Registerer: metrics})
	case inGo:
		return builtin.New(builtin.Options{Logger: log, Registerer: metrics}), nil
	}
	return nil, fmt.Errorf("no such data plane: %s", name)
}

type planeParams struct {
	Name  string
	Shape shape
}

type changeParams struct {
	Kind change
	// Member that drains, or drains no more.
	Member netip.Addr
}

// change is one thing that happens to a Program.
type change string

const (
	memberOut     change = "member out"
	memberIn      change = "member in"
	frontendAdded change = "frontend added"
	frontendGone  change = "frontend gone"
)

// applied says what an Apply took. Began is before lb.Diff.
type applied struct {
	Began int64
	// Diff and Apply on the clock; CPU of the thread in Apply, DiffCPU in lb.Diff. What the process does beside, as collecting
	// the garbage of the Programs that the benchmark makes, is not in it.
	Diff, Apply  time.Duration
	CPU, DiffCPU time.Duration
	How          dataplane.Result
	Because      string
	Refused      []lb.Problem
}

// usage is what the process has used so far, and what it has.
type usage struct {
	CPU      time.Duration
	At       int64
	RSS      int64 // bytes
	Draining map[netip.Addr]int64
}

// planeOps are those of a data plane in a process of its own, as a proxy has it.
func planeOps() ops {
	p := &plane{}
	return ops{
		"new":    op(p.create),
		"load":   op(p.load),
		"change": op(p.change),
		"usage":  op(p.usage),
		"profile": op(func(file string) (nothing, error) {
			f, err := os.Create(file)
			if err != nil {
				return nothing{}, err
			}
			return nothing{}, pprof.StartCPUProfile(f)
		}),
		"profiled": op(func(nothing) (nothing, error) { pprof.StopCPUProfile(); return nothing{}, nil }),
	}
}

type plane struct {
	dataplane.Dataplane
	shape shape
	base  *lb.Program // without the extra frontend
	next  *lb.Program // to be loaded
	now   *lb.Program
}

func (p *plane) create(params planeParams) (nothing, error) {
	dp, err := newDataplane(params.Name)
	if err != nil {
		return nothing{}, err
	}
	p.Dataplane, p.shape = dp, params.Shape
	p.next = p.shape.program()
	p.base = p.next
	for _, problem := range dp.Check(p.next.Tenants[tenant]) {
		if problem.Effect == lb.Refused {
			return nothing{}, fmt.Errorf("%s can't serve the benchmark's frontends: %s", params.Name, problem.Message)
		}
	}
	_, err = dp.Recover(context.Background(), nil)
	return nothing{}, err
}

// load applies the whole Program to nothing.
func (p *plane) load(nothing) (applied, error) { return p.apply(p.next) }

func (p *plane) change(c changeParams) (applied, error) {
	next := p.base
	switch c.Kind {
	case memberOut, memberIn:
		next = withDraining(p.base, c.Member, c.Kind == memberOut)
		p.base = next
	case frontendAdded:
		next = p.shape.withFrontend(p.base, p.shape.extra(), p.shape.MemberPort+1)
	}
	return p.apply(next)
}

func (p *plane) apply(next *lb.Program) (applied, error) {
	var a applied
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cpu := spent(unix.CLOCK_THREAD_CPUTIME_ID)
	a.Began = monotonic()
	began := time.Now()
	changes := lb.Diff(p.now, next)
	a.Diff = time.Since(began)
	diffed := spent(unix.CLOCK_THREAD_CPUTIME_ID)
	out, err := p.Apply(context.Background(), next, changes)
	a.Apply = time.Since(began) - a.Diff
	a.CPU, a.DiffCPU = spent(unix.CLOCK_THREAD_CPUTIME_ID)-diffed, diffed-cpu
	a.How, a.Because, a.Refused = out.How, out.Because, out.Refused
	if err != nil {
		return a, err
	}
	if len(out.Refused) > 0 {
		return a, fmt.Errorf("%d objects refused, first %+v", len(out.Refused), out.Refused[0])
	}
	p.now = next
	return a, nil
}

func (p *plane) usage(fresh bool) (usage, error) {
	if fresh {
		debug.FreeOSMemory()
	}
	u := usage{CPU: spent(unix.CLOCK_PROCESS_CPUTIME_ID), At: monotonic(), RSS: resident(), Draining: map[netip.Addr]int64{}}
	for k, n := range p.Observe().Draining[tenant] {
		u.Draining[k.Address] = n
	}
	return u, nil
}

// spent is what this process, or thread, has used in user and kernel mode, by a clock of its own.
func spent(clock int32) time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(clock, &t); err != nil {
		fatal(err)
	}
	return time.Duration(t.Nano())
}

func resident() int64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		fatal(err)
	}
	return kilobytes(status, "VmRSS") << 10
}

// kilobytes is the sum of some lines of /proc/…/status or /proc/meminfo.
func kilobytes(file []byte, keys ...string) (sum int64) {
	for line := range bytes.Lines(file) {
		f := strings.Fields(string(line))
		if len(f) < 2 || !slices.Contains(keys, strings.TrimSuffix(f[0], ":")) {
			continue
		}
		if n, err := strconv.ParseInt(f[1], 10, 64); err == nil {
			sum += n
		}
	}
	return sum
}
