package main

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"text/tabwriter"
	"time"
)

// sizes are what changes are measured at.
var (
	frontendSizes = []int{10, 1000, 10000}
	memberSizes   = []int{3, 50}
	changeKinds   = []change{memberOut, memberIn, frontendAdded, frontendGone}
)

// once is one change.
type once struct {
	// Effect is from before lb.Diff to the first connection that went the new way having ended; connections are made every
	// few hundred microseconds. Apply is the call, Diff the comparison before it.
	Effect time.Duration `json:"effect"`
	Apply  time.Duration `json:"apply"`
	Diff   time.Duration `json:"diff"`
	// CPU and DiffCPU of the thread, in Apply and in Diff.
	CPU     time.Duration `json:"cpu"`
	DiffCPU time.Duration `json:"diffCPU"`
	// Relapses are connections that went the old way after one had gone the new.
	Relapses int `json:"relapses"`
}

// changeCase is one data plane at one size.
type changeCase struct {
	Plane     string `json:"plane"`
	Frontends int    `json:"frontends"`
	Members   int    `json:"members"`
	// Load is the first Apply; LoadEffect as once.Effect, of the last frontend, Apply included.
	Load       time.Duration `json:"load"`
	LoadEffect time.Duration `json:"loadEffect"`
	LoadCPU    time.Duration `json:"loadCPU"`
	// Kernel is the growth of unreclaimable slab, vmalloc and per-CPU memory of the whole machine by it.
	Kernel  int64             `json:"kernel"`
	RSS     int64             `json:"rss"`
	Changes map[change][]once `json:"changes"`
	// Messages and Bytes that nftables told of one change.
	Messages map[change]int `json:"messages,omitempty"`
	Bytes    map[change]int `json:"bytes,omitempty"`
}

// measureChanges loads each of our data planes with Programs of each size and changes them.
func (b *bench) measureChanges(ctx context.Context) error {
	for _, plane := range []string{ours, inGo} {
		for _, frontends := range frontendSizes {
			for _, members := range memberSizes {
				c := &changeCase{Plane: plane, Frontends: frontends, Members: members,
					Changes: map[change][]once{}, Messages: map[change]int{}, Bytes: map[change]int{}}
				if err := b.measureCase(ctx, c); err != nil {
					return fmt.Errorf("%s, %d frontends over %d members: %w", plane, frontends, members, err)
				}
				b.changes = append(b.changes, c)
				say("%s, %5d frontends over %2d members: load %s, %s", plane, frontends, members, c.LoadEffect.Round(time.Microsecond), c.line())
			}
		}
	}
	return nil
}

// stage is a data plane on a host of its own between a client and its members.
type stage struct {
	*network
	lb            *balancer
	plane, prober *helper
	shape         shape
	stops         []func()
}

func (s *stage) close() {
	for _, stop := range slices.Backward(s.stops) {
		stop()
	}
}

// newStage sets up a data plane that is loaded with nothing yet. Each of servers processes a backend answers for its
// share of that backend's members.
func newStage(ctx context.Context, plane string, frontends, memberCount, servers int) (s *stage, err error) {
	s = &stage{}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if s.network, err = newNetwork(); err != nil {
		return nil, err
	}
	s.stops = append(s.stops, s.network.Close)
	all := members(memberCount)
	for i := range len(s.backends) * servers {
		h, err := s.backends[i%len(s.backends)].start("server")
		if err != nil {
			return nil, err
		}
		s.stops = append(s.stops, h.stop)
		p := serveParams{}
		for j := i; j < len(all); j += len(s.backends) * servers {
			p.Who = append(p.Who, netip.AddrPortFrom(all[j], whoPort), netip.AddrPortFrom(all[j], whoPort+1))
		}
		if err := h.call(ctx, "serve", p, nil); err != nil {
			return nil, err
		}
	}
	if s.lb, err = s.balancer(plane); err != nil {
		return nil, err
	}
	if s.prober, err = s.client.start("probe"); err != nil {
		return nil, err
	}
	s.stops = append(s.stops, s.prober.stop)
	if s.plane, err = s.lb.start("plane"); err != nil {
		return nil, err
	}
	s.stops = append(s.stops, s.plane.stop)
	s.shape = shape{Frontends: frontends, Members: all, Service: s.lb.service, MemberPort: whoPort, KeepClient: plane == ours}
	return s, s.plane.call(ctx, "new", planeParams{plane, s.shape}, nil)
}

// load applies the whole Program, and returns when the last frontend answers, too.
func (s *stage) load(ctx context.Context) (applied, watchResult, error) {
	a, seen, err := s.watched(ctx, watchParams{To: s.shape.last(), Want: true}, "load", nothing{})
	if err != nil {
		return a, seen, fmt.Errorf("loading: %w", err)
	}
	if s.lb.Name() == ours {
		err = s.lb.set(forgetful)
	}
	return a, seen, err
}

// watched has the data plane do something and the prober watch for its effect.
func (s *stage) watched(ctx context.Context, w watchParams, op string, params any) (applied, watchResult, error) {
	var a applied
	var seen watchResult
	w.From = s.lb.client
	if err := s.prober.call(ctx, "watch", w, nil); err != nil {
		return a, seen, err
	}
	if err := s.plane.call(ctx, op, params, &a); err != nil {
		return a, seen, err
	}
	return a, seen, s.prober.call(ctx, "await", nothing{}, &seen)
}

func (b *bench) measureCase(ctx context.Context, c *changeCase) error {
	s, err := newStage(ctx, c.Plane, c.Frontends, c.Members, 1)
	if err != nil {
		return err
	}
	defer s.close()
	// What is left of the case before has been freed by then.
	if err := sleep(ctx, time.Second); err != nil {
		return err
	}
	kernel := kernelMemory()
	a, seen, err := s.load(ctx)
	if err != nil {
		return err
	}
	c.Load, c.LoadCPU = a.Apply, a.CPU
	c.LoadEffect = max(c.Load, time.Duration(seen.First-a.Began)) // the last may be served before others
	if err := sleep(ctx, 300*time.Millisecond); err != nil {
		return err
	}
	c.Kernel = kernelMemory() - kernel
	var u usage
	if err := s.plane.call(ctx, "usage", true, &u); err != nil {
		return err
	}
	c.RSS = u.RSS

	// Flows of the member whose state is to change, found while nothing changes.
	member := s.shape.Members[c.Members/2]
	flows := watchParams{To: s.shape.last(), Member: member}
	find := flowsParams{From: s.lb.client, To: flows.To, Member: member, Count: 64}
	if err := s.prober.call(ctx, "flows", find, &flows.Ports); err != nil {
		return err
	}
	for range b.repeats {
		for _, kind := range changeKinds {
			// Flows are used again, which is not what is measured.
			if err := s.lb.forget(); err != nil {
				return err
			}
			a, seen, err := s.watched(ctx, s.watchFor(kind, flows), "change", changeParams{kind, member})
			if err != nil {
				return fmt.Errorf("%s: %w", kind, err)
			}
			c.Changes[kind] = append(c.Changes[kind], once{
				Effect: time.Duration(seen.First - a.Began), Apply: a.Apply, Diff: a.Diff, CPU: a.CPU, DiffCPU: a.DiffCPU, Relapses: seen.Relapses,
			})
		}
	}
	if c.Plane != ours {
		return nil
	}
	// Once more with a listener, which costs time.
	m, err := s.lb.monitor()
	if err != nil {
		return err
	}
	defer m.close()
	for _, kind := range changeKinds {
		if err := s.plane.call(ctx, "change", changeParams{kind, member}, nil); err != nil {
			return err
		}
		if c.Messages[kind], c.Bytes[kind], err = m.count(ctx); err != nil {
			return err
		}
	}
	return nil
}

// watchFor is what shows that a change is in effect.
func (s *stage) watchFor(kind change, flows watchParams) watchParams {
	switch kind {
	case memberOut, memberIn:
		flows.Want = kind == memberIn
		return flows
	default:
		return watchParams{To: s.shape.extra(), Want: kind == frontendAdded}
	}
}

// kernelMemory is what the kernel holds for itself, in bytes.
func kernelMemory() int64 {
	info, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		fatal(err)
	}
	return kilobytes(info, "SUnreclaim", "VmallocUsed", "Percpu") << 10
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// of collects one field of all changes of some kinds.
func (c *changeCase) of(field func(once) time.Duration, kinds ...change) []time.Duration {
	var out []time.Duration
	for _, k := range kinds {
		for _, o := range c.Changes[k] {
			out = append(out, field(o))
		}
	}
	return out
}

func effectOf(o once) time.Duration  { return o.Effect }
func applyOf(o once) time.Duration   { return o.Apply }
func diffOf(o once) time.Duration    { return o.Diff }
func cpuOf(o once) time.Duration     { return o.CPU }
func bothCPUOf(o once) time.Duration { return o.CPU + o.DiffCPU }

func (c *changeCase) line() string {
	line := "in effect after (median, worst)"
	for _, k := range changeKinds {
		e := c.of(effectOf, k)
		line += fmt.Sprintf("  %s %s, %s", k, medianOf(e).Round(10*time.Microsecond), slices.Max(e).Round(10*time.Microsecond))
	}
	return line
}

func (b *bench) changesTable(t *tabwriter.Writer) {
	ms := func(d time.Duration) string { return fmt.Sprintf("%.2f", milliseconds(d)) }
	fmt.Fprintln(t, "CHANGE, ms\tFRONTENDS\tMEMBERS\tIN EFFECT\tWORST\tAPPLY\tDIFF\tAPPLY CPU\tDIFF CPU\tMESSAGES\tBYTES")
	for _, c := range b.changes {
		fmt.Fprintf(t, "%s: load\t%d\t%d\t%s\t\t%s\t\t%s\n", c.Plane, c.Frontends, c.Members, ms(c.LoadEffect), ms(c.Load), ms(c.LoadCPU))
	}
	for _, k := range changeKinds {
		for _, c := range b.changes {
			e := c.of(effectOf, k)
			fmt.Fprintf(t, "%s: %s\t%d\t%d\t%s\t%s\t%s\t%s\t%s\t%s\t", c.Plane, k, c.Frontends, c.Members, ms(medianOf(e)), ms(slices.Max(e)),
				ms(medianOf(c.of(applyOf, k))), ms(medianOf(c.of(diffOf, k))), ms(medianOf(c.of(cpuOf, k))),
				ms(medianOf(c.of(func(o once) time.Duration { return o.DiffCPU }, k))))
			if c.Plane == ours {
				fmt.Fprintf(t, "%d\t%d", c.Messages[k], c.Bytes[k])
			}
			fmt.Fprintln(t)
		}
	}
	fmt.Fprintln(t)
	t.Flush()
	fmt.Fprintln(t, "MEMORY, MB\tFRONTENDS\tMEMBERS\tKERNEL\tPROCESS")
	for _, c := range b.changes {
		fmt.Fprintf(t, "%s\t%d\t%d\t%.1f\t%.1f\n", c.Plane, c.Frontends, c.Members, float64(c.Kernel)/1e6, float64(c.RSS)/1e6)
	}
	fmt.Fprintln(t)
	t.Flush()
}

// judgeChanges makes the verdicts of what the changes cost.
func (b *bench) judgeChanges() {
	for _, plane := range []string{ours, inGo} {
		var worst, load time.Duration
		var effects []time.Duration
		relapses, first := 0, ""
		cpu, both := map[int][]time.Duration{}, map[int][]time.Duration{}
		for _, c := range b.changes {
			if c.Plane != plane {
				continue
			}
			cpu[c.Frontends] = append(cpu[c.Frontends], c.of(cpuOf, changeKinds...)...)
			both[c.Frontends] = append(both[c.Frontends], c.of(bothCPUOf, changeKinds...)...)
			for _, k := range changeKinds {
				for _, o := range c.Changes[k] {
					if relapses += o.Relapses; relapses > 0 && first == "" {
						first = fmt.Sprintf("first after %s, %d frontends, %d members", k, c.Frontends, c.Members)
					}
				}
			}
			if c.Frontends == frontendSizes[len(frontendSizes)-1] {
				load = max(load, c.LoadEffect)
				effects = append(effects, c.of(effectOf, changeKinds...)...)
				worst = slices.Max(effects)
			}
		}
		if len(cpu) == 0 {
			continue
		}
		least, most := frontendSizes[0], frontendSizes[len(frontendSizes)-1]
		b.atMost(fmt.Sprintf("%s: a change in effect at %d frontends", plane, most), "ms", milliseconds(worst), 20,
			fmt.Sprintf("the worst of %d; median %s", len(effects), medianOf(effects).Round(10*time.Microsecond)))
		b.atMost(fmt.Sprintf("%s: CPU of a change's Apply at %d frontends to that at %d", plane, most, least), "",
			float64(medianOf(cpu[most]))/float64(medianOf(cpu[least])), 2,
			fmt.Sprintf("medians of all kinds: %s to %s", medianOf(cpu[most]).Round(time.Microsecond), medianOf(cpu[least]).Round(time.Microsecond)))
		b.note(fmt.Sprintf("%s: CPU of a change's Diff and Apply at %d frontends", plane, most), "ms", milliseconds(medianOf(both[most])),
			fmt.Sprintf("%s at %d", medianOf(both[least]).Round(time.Microsecond), least))
		b.atMost(fmt.Sprintf("%s: %d frontends loaded", plane, most), "s", load.Seconds(), 3, "until Apply has returned and the last one answers; 3 or 50 members, the worse")
		b.atMost(plane+": connections that went the old way after one had gone the new", "", float64(relapses), 0, first)
	}
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
