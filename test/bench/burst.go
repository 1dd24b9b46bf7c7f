package main

import (
	"context"
	"fmt"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"fairlead.dev/fairlead/internal/traffic"
)

// measureBursts measures a burst of many clients, which the machine's cores bound, and one
// of a single client that makes one Service after the other, as kubectl does.
func (b *bench) measureBursts(ctx context.Context) error {
	for _, clients := range []int{1, many} {
		if err := b.measureBurst(ctx, clients); err != nil {
			return err
		}
	}
	return nil
}

// measureBurst creates Services in one burst and waits until all answer through each
// proxy; and creates as many that nobody here serves, before and after, for comparison.
func (b *bench) measureBurst(ctx context.Context, clients int) error {
	n, name := b.options.burst, fmt.Sprintf("burst of %d by %d clients", b.options.burst, clients)
	if clients == 1 {
		name = fmt.Sprintf("burst of %d by one client", n)
	}
	before, cpuBefore, err := b.alone(ctx, "before", clients)
	if err != nil {
		return err
	}
	if err := b.settle(ctx, time.Second); err != nil {
		return err
	}
	from, err := b.now()
	if err != nil {
		return err
	}
	done := b.startProfiles(fmt.Sprintf("burst-%d", clients))
	cpuFrom, began := b.cpuNow(), time.Now()
	s, err := b.serveAll(ctx, names(fmt.Sprintf("burst-%d", clients), n), clients)
	if err != nil {
		return err
	}
	cpuBurst, cpuAnswered := b.cpuNow().since(cpuFrom), s.used.since(cpuFrom)
	if err := done(); err != nil {
		return err
	}
	b.inPlace += n
	counted, _, err := b.writesSince(from)
	if err != nil {
		return err
	}
	if err := b.settle(ctx, time.Second); err != nil {
		return err
	}
	after, cpuAfter, err := b.alone(ctx, "after", clients)
	if err != nil {
		return err
	}
	alone := (before + after) / 2
	b.add(name+": all answer through each proxy", "s", s.answered.Sub(began).Seconds(), 2*alone.Seconds(),
		fmt.Sprintf("twice creating %d alone: %.2f s before, %.2f s after", n, before.Seconds(), after.Seconds()))
	b.add(name+": all are created", "s", s.created.Sub(began).Seconds(), 0, "")
	b.add(name+": all have their address in their status", "s", s.published.Sub(began).Seconds(), 0, "")
	b.add(name+": first requests after the status that failed", "", float64(s.failed), 0, "one request through each proxy, once the status has the address")
	b.add(name+": writes a Service", "", float64(counted.total())/float64(n), 9, counted.per(n))
	b.add(name+": CPU until all answer", "s", cpuAnswered.total().Seconds(), 0, cpuAnswered.String())
	b.add(name+": CPU until all have their address", "s", cpuBurst.total().Seconds(), 0,
		fmt.Sprintf("of %.2f that %d processors have: %s", s.published.Sub(began).Seconds()*float64(runtime.NumCPU()), runtime.NumCPU(), cpuBurst))
	b.add(name+": CPU of creating them alone, mean", "s", (cpuBefore.total()+cpuAfter.total()).Seconds()/2, 0, cpuAfter.String())
	return nil
}

// alone creates Services of a class that nobody here serves, and deletes them again.
func (b *bench) alone(ctx context.Context, prefix string, clients int) (time.Duration, cpu, error) {
	all := names(prefix, b.options.burst)
	from := b.cpuNow()
	took, err := b.createAll(ctx, all, otherClass, clients)
	if err != nil {
		return 0, nil, err
	}
	used := b.cpuNow().since(from)
	return took, used, b.deleteAll(ctx, all)
}

// served is when the last of many Services was created, answered through each proxy, and had its
// address in its status; and how many of the requests that were made right then failed.
type served struct {
	created, answered, published time.Time
	failed                       int
	err                          error
	// used is what all processes had used when the last of many answered.
	used cpu
}

// serveAll creates Services and waits until all are served. Each is asked from the moment that the
// ledger grants its address.
func (b *bench) serveAll(ctx context.Context, all []string, clients int) (served, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	ends := make(chan served, len(all))
	var waiting atomic.Int64
	waiting.Store(int64(len(all)))
	for _, name := range all {
		go func() { ends <- b.serveOne(ctx, name, &waiting) }()
	}
	_, err := b.createAll(ctx, all, benchClass, clients)
	if err != nil {
		return served{}, err
	}
	last := served{created: time.Now()}
	for range all {
		s := <-ends
		if s.err != nil {
			return served{}, s.err
		}
		last.failed += s.failed
		if s.answered.After(last.answered) {
			last.answered = s.answered
		}
		if s.published.After(last.published) {
			last.published = s.published
		}
		if s.used != nil {
			last.used = s.used
		}
	}
	return last, nil
}

// serveOne follows one Service; waiting are those that don't answer yet.
func (b *bench) serveOne(ctx context.Context, name string, waiting *atomic.Int64) (s served) {
	grant, err := b.events.await(ctx, granted, name)
	if err != nil {
		return served{err: err}
	}
	if s.answered, s.err = b.answered(ctx, grant.address); s.err != nil {
		return s
	}
	if waiting.Add(-1) == 0 {
		s.used = b.cpuNow()
	}
	p, err := b.events.await(ctx, published, name)
	if err != nil {
		return served{err: err}
	}
	s.published = p.at
	for _, proxy := range b.Proxies {
		if _, err := traffic.Ask(ctx, netip.AddrPortFrom(proxy.At(p.address), port), "/"); err != nil {
			s.failed++
		}
	}
	return s
}

// answered asks an address through all proxies at the same time, each until it answers, and returns
// when the last did.
func (b *bench) answered(ctx context.Context, a netip.Addr) (time.Time, error) {
	errs := make([]error, len(b.Proxies))
	var all sync.WaitGroup
	for i, p := range b.Proxies {
		all.Go(func() {
			for {
				if _, errs[i] = traffic.Ask(ctx, netip.AddrPortFrom(p.At(a), port), "/"); errs[i] == nil {
					return
				}
				select {
				case <-ctx.Done():
					return
				case <-time.After(2 * time.Millisecond):
				}
			}
		})
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return time.Time{}, fmt.Errorf("asking %s: %w", a, err)
		}
	}
	return time.Now(), nil
}

// fill creates Services until enough are in place.
func (b *bench) fill(ctx context.Context) error {
	if n := b.options.inPlace - b.inPlace; n > 0 {
		if _, err := b.serveAll(ctx, names("fill", n), many); err != nil {
			return err
		}
		b.inPlace += n
	}
	return b.settle(ctx, 2*time.Second)
}
