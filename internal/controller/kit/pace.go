package kit

import (
	"sync"
	"time"
)

// Pace bounds how often what is only for people to read is written, by key: a sum that goes on changing is written after
// pauses that double from From to UpTo, one that was left alone for a while after From again. It is safe for concurrent use.
type Pace struct {
	From, UpTo time.Duration

	mu sync.Mutex
	of map[string]pace
}

type pace struct {
	written time.Time
	pause   time.Duration
}

// Rest is how long a key is left as it is; 0 or less: it may be written now.
func (p *Pace) Rest(key string, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	k := p.of[key]
	return k.written.Add(k.pause).Sub(now)
}

// Wrote notes a write.
func (p *Pace) Wrote(key string, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	k := p.of[key]
	if now.Sub(k.written) < 2*k.pause {
		k.pause = min(2*k.pause, p.UpTo)
	} else {
		k.pause = p.From
	}
	k.written = now
	if p.of == nil {
		p.of = map[string]pace{}
	}
	p.of[key] = k
}

// Forget drops a key that is gone.
func (p *Pace) Forget(key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.of, key)
}
