package agent

import (
	"context"
	"errors"
	"sync"
	"time"
)

// silentFor is how long a hub that gave no answer in time isn't asked again. It is shorter than who asks rests.
const silentFor = 3 * time.Second

// silence remembers that the hub gives no answer, so that not each asker's worker waits for one. After silentFor one asks again; the
// others don't before it has heard. It is safe for concurrent use.
type silence struct {
	now func() time.Time

	mu     sync.Mutex
	until  time.Time // zero: it answers
	asking bool      // somebody does, to find out whether it answers again
}

func newSilence() *silence { return &silence{now: time.Now} }

// breaks says whether to ask; then the asker calls heard.
func (s *silence) breaks() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.until.IsZero():
		return true
	case s.asking || s.now().Before(s.until):
		return false
	}
	s.asking = true
	return true
}

// heard is told what came of an asking: the end of its time, if it ended.
func (s *silence) heard(end error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asking = false
	switch {
	case errors.Is(end, context.DeadlineExceeded):
		s.until = s.now().Add(silentFor)
	case end == nil: // it has answered, or refused, which takes no time
		s.until = time.Time{}
	}
}
