package main

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
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
	// scaleSingles are made at each size.
	scaleSingles = 10
)

// measureScale fills a hub with hollow tenants, and looks at what a change costs there, and rest, and a restart.
func (b *bench) measureScale(ctx context.Context) error {
	h, err := b.newHollow(ctx)
	if err != nil {
		return err
	}
	defer h.close()
	small, full := min(1000, b.options.loadBalancers), b.options.loadBalancers
	var costs []time.Duration
	var written []float64
	for _, size := range []int{small, full} {
		took, err := h.fill(ctx, size)
		if err != nil {
			return err
		}
		b.add(fmt.Sprintf("%d tenants, %d LoadBalancers: filled up, from what was there", b.options.tenants, size), "s", took.Seconds(), 0, "written under the agents' identities; no API server of their own")
		cpu, writes, err := b.scaleSingles(ctx, size)
		if err != nil {
			return err
		}
		costs, written = append(costs, cpu), append(written, writes)
	}
	b.add(fmt.Sprintf("a change at %d: CPU of manager, agent and proxies", full), "ms", milliseconds(costs[1]), flat*milliseconds(costs[0]),
		fmt.Sprintf("%.2g times that at %d: %.1f ms", flat, small, milliseconds(costs[0])))
	b.add(fmt.Sprintf("a change at %d: writes", full), "", written[1], written[0]+0.5, fmt.Sprintf("half a write more than at %d: %.1f", small, written[0]))
	for name, p := range b.ours() {
		if strings.HasPrefix(name, "agent") {
			continue
		}
		rss, err := resident(p.PID())
		if err != nil {
			return err
		}
		b.add(fmt.Sprintf("%s at %d: memory", name, full), "MB", float64(rss)/(1<<20), mostMemory>>20, "resident, after the fill")
	}
	if err := b.measureRest(ctx); err != nil {
		return err
	}
	if err := b.measureRestarts(ctx, h); err != nil {
		return err
	}
	return b.measureManyNodes(ctx)
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
func (b *bench) scaleSingles(ctx context.Context, size int) (cpu time.Duration, written float64, err error) {
	var echoes, answers []time.Duration
	counted := writes{}
	for i := range scaleSingles {
		echo, err := b.echo(ctx, fmt.Sprintf("echo-%d-%d", size, i))
		if err != nil {
			return 0, 0, err
		}
		from := b.oursUsed()
		s, err := b.single(ctx, fmt.Sprintf("more-%d-%d", size, i))
		if err != nil {
			return 0, 0, err
		}
		cpu += b.oursUsed() - from
		echoes, answers = append(echoes, echo), append(answers, s.answered)
		for k, n := range s.writes {
			counted[k] += n
		}
	}
	echo := quantile(echoes, 0.5)
	b.add(fmt.Sprintf("one more at %d: answers through each proxy, median of %d", size, scaleSingles), "ms", milliseconds(quantile(answers, 0.5)),
		2*milliseconds(echo)+50, fmt.Sprintf("twice the echo's median %.1f ms + 50 ms", milliseconds(echo)))
	return cpu / scaleSingles, float64(counted.total()) / scaleSingles, nil
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
	began, usedBefore := time.Now(), b.oursUsed()
	say("       at rest for %s", b.options.rest)
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(b.options.rest): // What is measured is a time in which nothing happens.
	}
	share := (b.oursUsed() - usedBefore).Seconds() / time.Since(began).Seconds()
	w, _, err := b.writesSince(from)
	if err != nil {
		return err
	}
	name := fmt.Sprintf("at rest at %d", b.options.loadBalancers)
	b.figures = append(b.figures, figure{name + ": writes but of Leases", float64(w.total()), 0, "", "none may be; " + w.per(1), w.total() == 0})
	b.add(name+": manager, agent and proxies", "of a processor", share, mostAtRest, "")
	return nil
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
func (b *bench) measureRestarts(ctx context.Context, h *hollow) error {
	if _, err := b.serveAll(ctx, []string{"held"}, 1); err != nil {
		return err
	}
	grant, err := b.events.await(ctx, granted, "held")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	proxy := b.Proxies[0]
	held, err := traffic.Hold(ctx, traffic.Service{Name: "held", Ways: []traffic.Way{proxy.Way(grant.address, port)}, Held: heldOpen})
	if err != nil {
		return fmt.Errorf("opening connections: %w", err)
	}
	defer held.Close()
	before, err := b.boot(ctx, proxy.Name)
	if err != nil {
		return err
	}
	began := time.Now()
	if err := proxy.HandOver(filepath.Join(filepath.Dir(b.Dir), "fairlead")); err != nil {
		return err
	}
	err = testkit.Poll(ctx, 20*time.Millisecond, proxy.Name+" to be another process", func(ctx context.Context) error {
		now, err := b.boot(ctx, proxy.Name)
		if err == nil && now == before {
			err = fmt.Errorf("its boot is still %s", now)
		}
		return err
	})
	if err != nil {
		return err
	}
	b.add(fmt.Sprintf("%s hands over at %d: the next process serves", proxy.Name, b.options.loadBalancers), "s", time.Since(began).Seconds(), 0, "")
	if err := b.settle(ctx, 3*time.Second); err != nil {
		return err
	}
	lost := held.Lost()
	because := "none may be"
	if len(lost) > 0 {
		because += "; first " + lost[0]
	}
	b.figures = append(b.figures, figure{fmt.Sprintf("a planned restart at %d: connections lost of %d open", b.options.loadBalancers, heldOpen), float64(len(lost)), 0, "", because, len(lost) == 0})

	served, err := h.someServed(ctx)
	if err != nil {
		return err
	}
	proxy = b.Proxies[1]
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
	b.add(fmt.Sprintf("%s starts anew at %d: it accepts connections again", proxy.Name, b.options.loadBalancers), "s", time.Since(began).Seconds(), 0, "first, last and one in the middle")
	return nil
}
