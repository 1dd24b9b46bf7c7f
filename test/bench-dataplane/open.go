package main

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"time"
)

const (
	// holders share the connections, servers a backend their other ends: one process has too few files.
	holders         = 4
	serversABackend = 2
	firstHeldPort   = 10000
)

// measureOpen holds real connections through our nftables, lets one of four members drain, and
// watches what it costs to know how many it still has.
func (b *bench) measureOpen(ctx context.Context) error {
	s, err := newStage(ctx, ours, 1000, 2*serversABackend, serversABackend)
	if err != nil {
		return err
	}
	defer s.close()
	if _, _, err := s.load(ctx); err != nil {
		return err
	}
	var hold [holders]*helper
	var all sync.WaitGroup
	var mu sync.Mutex
	open, total := map[netip.Addr]int64{}, 0
	began := time.Now()
	for i := range hold {
		if hold[i], err = s.client.start("holder"); err != nil {
			return err
		}
		defer hold[i].stop()
		count := b.hold / holders
		all.Go(func() {
			counts := map[netip.Addr]int{}
			from := netip.AddrPortFrom(s.lb.client, uint16(firstHeldPort+i*count))
			callErr := hold[i].call(ctx, "hold", holdParams{from, s.shape.last(), count}, &counts)
			mu.Lock()
			defer mu.Unlock()
			if callErr != nil {
				err = callErr
			}
			for m, n := range counts {
				open[m] += int64(n)
				total += n
			}
		})
	}
	if all.Wait(); err != nil {
		return fmt.Errorf("opening connections: %w", err)
	}
	say("%d connections opened in %s", total, time.Since(began).Round(time.Millisecond))

	idle, err := b.share(ctx, s.plane, b.period/3)
	if err != nil {
		return err
	}
	b.note(fmt.Sprintf("%s: %d connections open, none draining", ours, total), "% of a core", idle, fmt.Sprintf("over %s", b.period/3))
	member := s.shape.Members[1]
	if err := s.plane.call(ctx, "change", changeParams{memberOut, member}, nil); err != nil {
		return err
	}
	took, err := s.counts(ctx, member, open[member])
	if err != nil {
		return err
	}
	b.note(fmt.Sprintf("%s: a draining member's %d connections counted after", ours, open[member]), "s", took.Seconds(), "exactly as many as the clients hold")
	counting, err := b.share(ctx, s.plane, b.period)
	if err != nil {
		return err
	}
	b.atMost(fmt.Sprintf("%s: %d open connections counted", ours, total), "% of a core", counting, 5,
		fmt.Sprintf("user and kernel time of the process over %s, one of %d members draining; real connections", b.period, len(s.shape.Members)))

	var dropped int
	if err := hold[0].call(ctx, "drop", dropParams{member, 1000}, &dropped); err != nil {
		return err
	}
	if took, err = s.counts(ctx, member, open[member]-int64(dropped)); err != nil {
		return err
	}
	b.note(fmt.Sprintf("%s: the end of %d connections noticed after", ours, dropped), "s", took.Seconds(), "")
	return nil
}

// share is what a process uses of a processor over some time, in percent.
func (b *bench) share(ctx context.Context, p *helper, d time.Duration) (float64, error) {
	var before, after usage
	if err := p.call(ctx, "usage", false, &before); err != nil {
		return 0, err
	}
	if err := sleep(ctx, d); err != nil {
		return 0, err
	}
	if err := p.call(ctx, "usage", false, &after); err != nil {
		return 0, err
	}
	return 100 * float64(after.CPU-before.CPU) / float64(after.At-before.At), nil
}

// counts waits until the data plane counts so many open connections of a draining member.
func (s *stage) counts(ctx context.Context, member netip.Addr, want int64) (time.Duration, error) {
	began := time.Now()
	for {
		var u usage
		if err := s.plane.call(ctx, "usage", false, &u); err != nil {
			return 0, err
		}
		if took := time.Since(began); u.Draining[member] == want {
			return took, nil
		} else if took > time.Minute {
			return 0, fmt.Errorf("%d connections of a draining member are counted after %s, want %d", u.Draining[member], took.Round(time.Second), want)
		}
		if err := sleep(ctx, 50*time.Millisecond); err != nil {
			return 0, err
		}
	}
}
