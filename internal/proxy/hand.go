package proxy

import (
	"context"
	"sync"
	"time"

	"fairlead.dev/fairlead/internal/lb"
)

// beliefFor is how long a predecessor's findings count where nothing was found since.
const beliefFor = 30 * time.Second

// hand is what a loop needs to take over, and to hand over.
type hand struct {
	// first is closed after the first Apply.
	first chan struct{}
	// calls are made between two turns.
	calls chan func()
	// heir: this process takes over from another.
	heir bool
	// before are the predecessor's findings, carried those of checks that others took the place of, until this process has
	// its own.
	before, carried lb.Health
	beforeUntil     time.Time
	// following: a successor serves; what is open here follows the Program still, and nobody is told.
	following bool
}

func newHand() hand { return hand{first: make(chan struct{}), calls: make(chan func())} }

// do runs f between two turns, and returns after it; false: ctx or the loop ended before.
func (l *loop) do(ctx context.Context, f func()) bool {
	done := make(chan struct{})
	select {
	case l.calls <- func() { defer close(done); f() }:
		<-done
		return true
	case <-ctx.Done():
		return false
	}
}

// hold has the loop stand still between two turns until release is called or
// ctx ends. Meanwhile its fields are the caller's. false: ctx ended before.
func (l *loop) hold(ctx context.Context) (release func(), ok bool) {
	held, released := make(chan struct{}), make(chan struct{})
	select {
	case l.calls <- func() {
		close(held)
		select {
		case <-released:
		case <-ctx.Done():
		}
	}:
		<-held
		return sync.OnceFunc(func() { close(released) }), true
	case <-ctx.Done():
		return nil, false
	}
}

// follow has the loop, while it is held, care from now on for what is open only.
func (l *loop) follow() {
	l.following = true
	l.o.Checker.SetProbes(nil)
	l.box.take()
}

// tell hands p to the reporter, while there is one.
func (l *loop) tell(p post) {
	if !l.following {
		l.box.put(p)
	}
}

// verdicts are the checker's; where it has none, what is carried over from another check, and for a while the predecessor's.
func (l *loop) verdicts() lb.Health {
	if time.Now().After(l.beforeUntil) {
		l.before = nil
	}
	h := l.o.Checker.Verdicts()
	h, l.carried = overlay(h, l.carried)
	h, l.before = overlay(h, l.before)
	return h
}
