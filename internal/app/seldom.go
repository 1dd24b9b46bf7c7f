package app

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// sayEvery is how seldom the log hears what outsiders can cause.
const sayEvery = time.Minute

// seldom passes a record of level info or above on when none was for sayEvery, and says how many were left out.
// Records below pass: nobody sees them who didn't ask to. It is safe for concurrent use.
type seldom struct {
	slog.Handler
	said *said
}

// said is shared by all handlers that are made of one.
type said struct {
	mu   sync.Mutex
	last time.Time
	left int
}

func newSeldom(h slog.Handler) slog.Handler { return seldom{h, &said{}} }

// Handle passes r on, or counts it.
func (s seldom) Handle(ctx context.Context, r slog.Record) error {
	if r.Level < slog.LevelInfo {
		return s.Handler.Handle(ctx, r)
	}
	s.said.mu.Lock()
	if now := time.Now(); s.said.last.IsZero() || now.Sub(s.said.last) >= sayEvery {
		r = r.Clone()
		r.AddAttrs(slog.Int("leftOut", s.said.left))
		s.said.last, s.said.left = now, 0
		s.said.mu.Unlock()
		return s.Handler.Handle(ctx, r)
	}
	s.said.left++
	s.said.mu.Unlock()
	return nil
}

// WithAttrs keeps the count.
func (s seldom) WithAttrs(attrs []slog.Attr) slog.Handler {
	return seldom{s.Handler.WithAttrs(attrs), s.said}
}

// WithGroup keeps the count.
func (s seldom) WithGroup(name string) slog.Handler { return seldom{s.Handler.WithGroup(name), s.said} }
