package main

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"fairlead.dev/fairlead/internal/traffic"
)

// measureBurst creates Services in one burst and waits until all answer through each
// proxy; and creates as many that nobody here serves, before and after, for comparison.
func (b *bench) measureBurst(ctx context.Context) error {
	n := b.options.burst
	before, err := b.alone(ctx, "alone-a")
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
	done := b.startProfiles("burst")
	began := time.Now()
	answered, published, failed, err := b.serveAll(ctx, names("burst", n))
	if err != nil {
		return err
	}
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
	after, err := b.alone(ctx, "alone-b")
	if err != nil {
		return err
	}
	alone := (before + after) / 2
	b.add(fmt.Sprintf("burst of %d: all answer through each proxy", n), "s", answered.Sub(began).Seconds(), 2*alone.Seconds(),
		fmt.Sprintf("twice creating %d alone: %.2f s before, %.2f s after", n, before.Seconds(), after.Seconds()))
	b.add(fmt.Sprintf("burst of %d: all have their address in their status", n), "s", published.Sub(began).Seconds(), 0, "")
	b.add("burst: first requests after the status that failed", "", float64(failed), 0, "one request through each proxy, once the status has the address")
	b.add("burst: writes a Service", "", float64(counted.total())/float64(n), 9, counted.per(n))
	return nil
}

// alone creates Services of a class that nobody here serves, and deletes them again.
func (b *bench) alone(ctx context.Context, prefix string) (time.Duration, error) {
	all := names(prefix, b.options.burst)
	took, err := b.createAll(ctx, all, otherClass)
	if err != nil {
		return 0, err
	}
	return took, b.deleteAll(ctx, all)
}

// serveAll creates Services and returns when the last was answered through each proxy, when
// the last had its address in its status, and how many of the requests that were made right then failed.
func (b *bench) serveAll(ctx context.Context, all []string) (answered, published time.Time, failed int, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	type end struct {
		answered, published time.Time
		failed              int
		err                 error
	}
	ends := make(chan end, len(all))
	for _, name := range all {
		go func() {
			p, err := b.events.awaitPublished(ctx, name)
			if err != nil {
				ends <- end{err: err}
				return
			}
			failed := 0
			for _, proxy := range b.Proxies {
				if _, err := traffic.Ask(ctx, netip.AddrPortFrom(proxy.At(p.address), port), "/"); err != nil {
					failed++
				}
			}
			at, err := b.answered(ctx, p.address)
			ends <- end{at, p.at, failed, err}
		}()
	}
	created, err := b.createAll(ctx, all, benchClass)
	if err != nil {
		return answered, published, 0, err
	}
	say("       created in %.2f s", created.Seconds())
	for range all {
		e := <-ends
		if e.err != nil {
			return answered, published, 0, e.err
		}
		failed += e.failed
		if e.answered.After(answered) {
			answered = e.answered
		}
		if e.published.After(published) {
			published = e.published
		}
	}
	return answered, published, failed, nil
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
				case <-time.After(time.Millisecond):
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
		if _, _, _, err := b.serveAll(ctx, names("fill", n)); err != nil {
			return err
		}
		b.inPlace += n
	}
	return b.settle(ctx, 2*time.Second)
}
