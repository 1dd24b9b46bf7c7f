package traffic

import (
	"context"
	"fmt"
	"time"
)

// A window begins Before an event and ends After everything is whole again.
const (
	Before = 2 * time.Second
	After  = 5 * time.Second
)

// Around opens the held connections of all Services, lets traffic run for
// Before, calls event, which returns when everything is whole again, lets traffic
// run for After, and judges what was sent in all that time: one Report a Service,
// in the order in which they were added. Errors are those of event, of ctx, and of
// opening the held connections; what failed is in the Reports only.
func (g *Generator) Around(ctx context.Context, event func(context.Context) error) ([]Report, error) {
	streams := g.snapshot()
	held := make([]*Held, len(streams))
	for i, st := range streams {
		h, err := Hold(ctx, st.service)
		if err != nil {
			return nil, err
		}
		defer h.Close()
		held[i] = h
	}
	from := time.Since(g.start)
	if err := wait(ctx, Before); err != nil {
		return nil, err
	}
	eventErr := event(ctx)
	if eventErr == nil {
		eventErr = wait(ctx, After)
	}
	to := time.Since(g.start)
	lost := make([][]string, len(streams))
	for i, h := range held {
		lost[i] = h.Lost()
		h.Close()
	}
	if err := settle(ctx, streams, to); err != nil && eventErr == nil {
		eventErr = err
	}
	reports := make([]Report, len(streams))
	for i, st := range streams {
		reports[i] = st.judge(g.start, from, to)
		reports[i].Held, reports[i].Lost = st.service.Held, lost[i]
	}
	return reports, eventErr
}

// settle waits until the requests begun before that moment have ended; each does within Timeout.
func settle(ctx context.Context, streams []*stream, to time.Duration) error {
	for _, st := range streams {
		for st.unfinished(to) {
			if err := wait(ctx, 20*time.Millisecond); err != nil {
				return err
			}
		}
	}
	return nil
}

func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("measuring: %w", context.Cause(ctx))
	}
}
