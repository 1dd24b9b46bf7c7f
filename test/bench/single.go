package main

import (
	"context"
	"fmt"
	"time"
)

// measureSingles creates one Service more, again and again, each beside an echo:
// a Service that nobody serves, created and seen in a watch.
func (b *bench) measureSingles(ctx context.Context) error {
	echoes, answers, statuses := []time.Duration{}, []time.Duration{}, []time.Duration{}
	counted, most := writes{}, writes{}
	done := b.startProfiles("singles")
	for i := range b.options.singles {
		echo, err := b.echo(ctx, fmt.Sprintf("echo-%02d", i))
		if err != nil {
			return err
		}
		s, err := b.single(ctx, fmt.Sprintf("single-%02d", i))
		if err != nil {
			return err
		}
		echoes, answers, statuses = append(echoes, echo), append(answers, s.answered), append(statuses, s.published)
		if s.writes.total() > most.total() {
			most = s.writes
		}
		for k, c := range s.writes {
			counted[k] += c
		}
	}
	if err := done(); err != nil {
		return err
	}
	n := b.options.singles
	echo := quantile(echoes, 0.5)
	bound := 2*milliseconds(echo) + 50
	b.add(fmt.Sprintf("one more at %d: answers through each proxy, median of %d", b.inPlace, n), "ms", milliseconds(quantile(answers, 0.5)), bound,
		fmt.Sprintf("twice the echo's median %.1f ms + 50 ms", milliseconds(echo)))
	b.add("one more: answers, 90th percentile", "ms", milliseconds(quantile(answers, 0.9)), 0, fmt.Sprintf("the echo's is %.1f ms", milliseconds(quantile(echoes, 0.9))))
	b.add("one more: address in its status, median", "ms", milliseconds(quantile(statuses, 0.5)), 0, "")
	b.add("one more: address in its status, 90th percentile", "ms", milliseconds(quantile(statuses, 0.9)), 0, "")
	b.add("one more: writes, mean", "", float64(counted.total())/float64(n), 9, counted.per(n))
	b.add("one more: writes, most", "", float64(most.total()), 9, most.per(1))
	return nil
}

// echo returns how long after the call a created Service is seen.
func (b *bench) echo(ctx context.Context, name string) (time.Duration, error) {
	began := time.Now()
	if err := b.tenant.API.Create(ctx, service(name, otherClass)); err != nil {
		return 0, fmt.Errorf("creating %s: %w", name, err)
	}
	m, err := b.events.await(ctx, seen, name)
	if err != nil {
		return 0, err
	}
	return m.at.Sub(began), b.deleteAll(ctx, []string{name})
}

// one is what one Service more took.
type one struct {
	answered, published time.Duration
	writes              writes
}

// single creates a Service and asks its address, as soon as the ledger names it, until
// each proxy answers. The writes are those until it is published.
func (b *bench) single(ctx context.Context, name string) (one, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	from, err := b.now()
	if err != nil {
		return one{}, err
	}
	began := time.Now()
	if err := b.tenant.API.Create(ctx, service(name, benchClass)); err != nil {
		return one{}, fmt.Errorf("creating %s: %w", name, err)
	}
	grant, err := b.events.await(ctx, granted, name)
	if err != nil {
		return one{}, err
	}
	answered, err := b.answered(ctx, grant.address)
	if err != nil {
		return one{}, err
	}
	p, err := b.events.await(ctx, published, name)
	if err != nil {
		return one{}, err
	}
	// The event, and what else is a consequence.
	if err := b.settle(ctx, 300*time.Millisecond); err != nil {
		return one{}, err
	}
	w, _, err := b.writesSince(from)
	if err != nil {
		return one{}, err
	}
	if err := b.deleteAll(ctx, []string{name}); err != nil {
		return one{}, err
	}
	// What counts Services is written late, and would be counted with the next one.
	return one{answered.Sub(began), p.at.Sub(began), w}, b.settle(ctx, 1200*time.Millisecond)
}
