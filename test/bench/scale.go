package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/testkit"
	"fairlead.dev/fairlead/internal/traffic"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Bounds of a fleet at scale.
const (
	mostMemory = 300 << 20 // bytes, of the manager and of each proxy
	mostAtRest = 0.05      // of a processor, manager, agent and proxies together
	heldOpen   = 500
	// flat is how many times the processor time of a change in a small fleet it may cost in a large one.
	flat = 1.5
	// scaleSingles are made at each size: so many that a garbage collection, of which each process has one in a while, is not charged
	// to a few.
	scaleSingles = 20
	// idleFor is how long is looked at what is used while nothing happens, which is taken off what a change uses.
	idleFor = 20 * time.Second
)

// measureScale fills a hub with hollow tenants, and looks at what a change costs there, and rest, and a restart.
func (b *bench) measureScale(ctx context.Context) error {
	h, err := b.newHollow(ctx)
	if err != nil {
		return err
	}
	defer h.close()
	if err := h.measureSizes(ctx); err != nil {
		return err
	}
	for _, part := range []struct {
		name string
		do   func(context.Context) error
	}{
		{"rest", b.measureRest},
		{"restarts", h.measureRestarts},
		{"flood", h.measureFlood},
		{"nodes", b.measureManyNodes},
	} {
		if !b.measures(part.name) {
			continue
		}
		say("       %s", part.name)
		if err := part.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
	}
	return nil
}

// measureSizes fills up twice, and measures one change more at each size.
func (h *hollow) measureSizes(ctx context.Context) error {
	var fills []*filled
	var costs []time.Duration
	var written []writes
	full := h.options.loadBalancers
	small := min(1000, full)
	for _, size := range slices.Compact([]int{small, full}) {
		f, err := h.fill(ctx, size)
		if err != nil {
			return err
		}
		h.addFill(size, f, fills)
		fills = append(fills, f)
		if !h.measures("more") {
			continue
		}
		cpu, writes, err := h.scaleSingles(ctx, size)
		if err != nil {
			return err
		}
		costs, written = append(costs, cpu), append(written, writes)
	}
	if len(costs) == 2 {
		each := func(w writes) float64 { return float64(w.total()) / scaleSingles }
		h.add(fmt.Sprintf("a change at %d: CPU of manager, agent and proxies", full), "ms", milliseconds(costs[1]), flat*milliseconds(costs[0]),
			fmt.Sprintf("%.2g times that at %d: %.1f ms; creation, service and deletion, without what they use at rest", flat, small, milliseconds(costs[0])))
		h.add(fmt.Sprintf("a change at %d: writes", full), "", each(written[1]), each(written[0])+1,
			fmt.Sprintf("a write more than at %d: %.1f; %s", small, each(written[0]), written[1].per(scaleSingles)))
	}
	for name, p := range h.ours() {
		if strings.HasPrefix(name, "agent") {
			continue
		}
		rss, err := resident(p.PID())
		if err != nil {
			return err
		}
		h.add(fmt.Sprintf("%s at %d: memory", name, full), "MB", float64(rss)/(1<<20), mostMemory>>20, "resident, after the fill")
	}
	return nil
}

// addFill notes what a fill cost, beside the first one.
func (b *bench) addFill(size int, f *filled, before []*filled) {
	name := fmt.Sprintf("%d tenants, from %d to %d LoadBalancers", b.options.tenants, size-f.count, size)
	b.add(name+": all are programmed", "s", f.took.Seconds(), 0, fmt.Sprintf("written under the agents' identities; no API servers of their own; CPU: %s", f.used))
	for what, processes := range map[string][]string{"manager": {"manager"}, "both proxies": {b.Proxies[0].Name, b.Proxies[1].Name}} {
		bound, because := 0.0, ""
		if len(before) > 0 {
			first := milliseconds(before[0].each(processes...))
			bound, because = flat*first, fmt.Sprintf("%.2g times that of the first %d: %.2f ms", flat, before[0].count, first)
		}
		b.add(name+": CPU of "+what+" for each", "ms", milliseconds(f.each(processes...)), bound, because)
	}
	bound, because := 0.0, f.writes.per(f.count)
	if len(before) > 0 {
		first := float64(before[0].writes.total()) / float64(before[0].count)
		bound, because = first+0.5, fmt.Sprintf("half a write more than of the first %d: %.1f; %s", before[0].count, first, because)
	}
	b.add(name+": writes for each", "", float64(f.writes.total())/float64(f.count), bound, because)
}

// ours are the processes of the product, by name.
func (b *bench) ours() map[string]*testkit.Process {
	out := map[string]*testkit.Process{"manager": b.Manager.Process, "agent": b.tenant.Agent.Process}
	for _, p := range b.Proxies {
		out[p.Name] = p.Process
	}
	return out
}

func (b *bench) oursUsed() (sum time.Duration) {
	for _, p := range b.ours() {
		sum += used(p.PID())
	}
	return sum
}

// resident is the memory of a process, in bytes.
func resident(pid int) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			var kilobytes int64
			_, err := fmt.Sscan(rest, &kilobytes)
			return kilobytes << 10, err
		}
	}
	return 0, fmt.Errorf("process %d has no VmRSS: it has ended", pid)
}

// scaleSingles creates one Service more, some times, and returns what one cost our processes.
func (b *bench) scaleSingles(ctx context.Context, size int) (cpu time.Duration, counted writes, err error) {
	var echoes, answers []time.Duration
	counted = writes{}
	idle, err := b.idle(ctx, idleFor)
	if err != nil {
		return 0, nil, err
	}
	done := b.startProfiles(fmt.Sprintf("more-%d", size))
	for i := range scaleSingles {
		echo, err := b.echo(ctx, fmt.Sprintf("echo-%d-%d", size, i))
		if err != nil {
			return 0, nil, err
		}
		from, began := b.oursUsed(), time.Now()
		s, err := b.single(ctx, fmt.Sprintf("more-%d-%d", size, i))
		if err != nil {
			return 0, nil, err
		}
		cpu += b.oursUsed() - from - time.Duration(idle*float64(time.Since(began)))
		echoes, answers = append(echoes, echo), append(answers, s.answered)
		for k, n := range s.writes {
			counted[k] += n
		}
	}
	if err := done(); err != nil {
		return 0, nil, err
	}
	echo := quantile(echoes, 0.5)
	b.add(fmt.Sprintf("one more at %d: answers through each proxy, median of %d", size, scaleSingles), "ms", milliseconds(quantile(answers, 0.5)),
		2*milliseconds(echo)+50, fmt.Sprintf("twice the echo's median %.1f ms + 50 ms", milliseconds(echo)))
	return cpu / scaleSingles, counted, nil
}

// measureRest lets everything be for a while.
func (b *bench) measureRest(ctx context.Context) error {
	if err := b.settle(ctx, 10*time.Second); err != nil {
		return err
	}
	from, err := b.now()
	if err != nil {
		return err
	}
	say("       at rest for %s", b.options.rest)
	done, before := b.startProfiles("rest"), b.cpuNow()
	share, err := b.idle(ctx, b.options.rest)
	if err := errors.Join(err, done()); err != nil {
		return err
	}
	all := b.cpuNow().since(before)
	w, _, err := b.writesSince(from)
	if err != nil {
		return err
	}
	name := fmt.Sprintf("at rest at %d", b.options.loadBalancers)
	b.figures = append(b.figures, figure{name + ": writes but of Leases", float64(w.total()), 0, "", "none may be; " + w.per(1), w.total() == 0})
	b.add(name+": manager, agent and proxies", "of a processor", share, mostAtRest, fmt.Sprintf("CPU seconds in %s: %s", b.options.rest, all))
	return nil
}

// idle returns which share of a processor manager, agent and proxies use while nothing happens for that long.
func (b *bench) idle(ctx context.Context, d time.Duration) (float64, error) {
	began, before := time.Now(), b.oursUsed()
	select {
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	case <-time.After(d): // What is measured is a time in which nothing happens.
	}
	return (b.oursUsed() - before).Seconds() / time.Since(began).Seconds(), nil
}

// boot is that of a proxy that serves.
func (b *bench) boot(ctx context.Context, name string) (string, error) {
	o := &v1alpha1.Proxy{}
	if err := b.Hub.API.Get(ctx, client.ObjectKey{Name: name}, o); err != nil {
		return "", err
	}
	if o.Status.Phase != v1alpha1.ProxyServing {
		return "", fmt.Errorf("its phase is %q", o.Status.Phase)
	}
	return o.Status.Boot, nil
}

// measureRestarts hands over with connections open, and starts a proxy from nothing.
func (h *hollow) measureRestarts(ctx context.Context) error {
	if _, err := h.serveAll(ctx, []string{"held"}, 1); err != nil {
		return err
	}
	grant, err := h.events.await(ctx, granted, "held")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	proxy := h.Proxies[0]
	held, err := traffic.Hold(ctx, traffic.Service{Name: "held", Ways: []traffic.Way{proxy.Way(grant.address, port)}, Held: heldOpen})
	if err != nil {
		return fmt.Errorf("opening connections: %w", err)
	}
	defer held.Close()
	before, err := h.boot(ctx, proxy.Name)
	if err != nil {
		return err
	}
	began := time.Now()
	if err := proxy.HandOver(filepath.Join(filepath.Dir(h.Dir), "fairlead")); err != nil {
		return err
	}
	err = testkit.Poll(ctx, 20*time.Millisecond, proxy.Name+" to be another process", func(ctx context.Context) error {
		now, err := h.boot(ctx, proxy.Name)
		if err == nil && now == before {
			err = fmt.Errorf("its boot is still %s", now)
		}
		return err
	})
	if err != nil {
		return err
	}
	h.add(fmt.Sprintf("%s hands over at %d: the next process serves", proxy.Name, h.options.loadBalancers), "s", time.Since(began).Seconds(), 0, "")
	if err := h.settle(ctx, 3*time.Second); err != nil {
		return err
	}
	lost := held.Lost()
	because := "none may be"
	if len(lost) > 0 {
		because += "; first " + lost[0]
	}
	h.figures = append(h.figures, figure{fmt.Sprintf("a planned restart at %d: connections lost of %d open", h.options.loadBalancers, heldOpen), float64(len(lost)), 0, "", because, len(lost) == 0})

	served, err := h.someServed(ctx)
	if err != nil {
		return err
	}
	proxy = h.Proxies[1]
	if err := proxy.Stop(ctx); err != nil {
		return err
	}
	began = time.Now()
	if err := proxy.Start(); err != nil {
		return err
	}
	for _, a := range served {
		if err := accepts(ctx, netip.AddrPortFrom(proxy.At(a.Addr()), a.Port())); err != nil {
			return err
		}
	}
	h.add(fmt.Sprintf("%s starts anew at %d: it accepts connections again", proxy.Name, h.options.loadBalancers), "s", time.Since(began).Seconds(), 0, "first, last and one in the middle")
	return nil
}
