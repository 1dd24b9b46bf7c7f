package testkit

import (
	"context"
	"fmt"
	"time"
)

// Poll calls f every so often until it returns nil. When ctx ends, the error says what
// was waited for and f's last error.
func Poll(ctx context.Context, every time.Duration, what string, f func(context.Context) error) error {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	var last error
	for {
		err := f(ctx)
		if err == nil {
			return nil
		}
		if last == nil || ctx.Err() == nil {
			last = err // one that ctx cut short says nothing
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w (last: %w)", what, context.Cause(ctx), last)
		case <-ticker.C:
		}
	}
}
