package proxy

import (
	"testing"
	"testing/synctest"
	"time"
)

// After an outage one watch after the other opens, each a doubt.
func TestDoubtsThatComeOneAfterTheOtherAreSettledSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "")
		defer w.stop()
		w.opened()
		w.list(class())
		settle(time.Second)
		w.hub.leave()
		w.lost()
		settle(time.Hour)
		const doubts = 30
		n := 0
		w.hub.mu.Lock()
		w.hub.away = false
		w.hub.onUID = func() {
			if n++; n < doubts {
				w.proxy.inbox.Doubt() // Since this was asked.
			}
		}
		w.hub.mu.Unlock()
		settle(askUpTo + doubts*2*askFrom)
		if !w.proxy.inbox.Sure() {
			t.Errorf("after %d answers it is not sure yet", n)
		}
	})
}
