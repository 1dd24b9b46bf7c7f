package testkit

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestPollCountsNothingThatItCutShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := Poll(ctx, time.Second, "a client to be turned away", func(ctx context.Context) error {
			<-ctx.Done() // its call is cut short
			return nil
		})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v, want it to say that time was over", err)
		}
	})
}
