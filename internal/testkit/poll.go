package testkit

import (
	"context"
	"fmt"
	"time"
)

// Poll calls f every so often until it returns nil. When ctx ends, the error says what
// was waited for and f's last error. What f finds as ctx ends doesn't count: a call that was
// cut short looks like one that was turned away.
func Poll(ctx context.Context, every time.Duration, what string, f func(context.Context) error) error {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	var last error
	for {
		err := f(ctx)
		if ctx.Err() == nil {
			if err == nil {
				return nil
			}
			last = err
		} else if last == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			if last == nil {
				return fmt.Errorf("waiting for %s: %w", what, context.Cause(ctx))
			}
			return fmt.Errorf("waiting for %s: %w (last: %w)", what, context.Cause(ctx), last)
		case <-ticker.C:
		}
	}
}
