package builtin

import (
	"errors"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	bufferSize = 32 << 10
	// After spliceAfter full buffers in a row bytes go through a pipe in the kernel, up to spliceChunk at a time. A
	// pipe takes two more files, so that it is kept only while bytes flow.
	spliceAfter = 4
	spliceChunk = 1 << 20
)

// relay carries bytes both ways until both ends have said all, or one breaks.
func (d *Dataplane) relay(c *conn, m *member, idle time.Duration) {
	var active *atomic.Int64
	if idle > 0 {
		active = &c.active
		defer c.watchIdle(idle)()
	}
	began := time.Now()
	var e end
	there := pump{d: d, from: c.client, to: c.target, active: active}
	back := pump{d: d, from: c.target, to: c.client, active: active, first: m.heard}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		back.carry(c, &e)
	}()
	there.carry(c, &e)
	<-ended
	if !back.moved && (isReset(back.readErr) || isReset(there.writeErr)) {
		d.resetEarly(m, c, there.moved, time.Since(began))
	}
	if e.broken.Load() {
		c.cut()
		return
	}
	c.finish()
}

// end is what both directions of a relay know of its end.
type end struct {
	// broken: what was said is not all.
	broken atomic.Bool
	// said: a direction has come to its end, or is about to hand it on.
	said atomic.Bool
}

// carry copies one direction and hands on its end.
func (p *pump) carry(c *conn, e *end) {
	p.readErr, p.writeErr = p.run()
	switch {
	case p.writeErr != nil:
		// Its other direction may hold a last answer; both are cut when that is through.
		e.broken.Store(true)
	case p.readErr != nil:
		e.broken.Store(true)
		c.cut()
	case p.from.over() && !e.said.Load():
		// The kernel tells of a reset only once: the other direction's write was told, and has not said so
		// yet. An end of from looks like this only after an end was sent to it.
		e.broken.Store(true)
		c.cut()
	case e.broken.Load():
		c.cut()
	default:
		if !e.said.Swap(true) { // Else both are closed at once.
			p.to.CloseWrite()
		}
	}
}

// pump copies from one connection to another. While it waits for bytes it
// holds neither buffer nor pipe.
type pump struct {
	d        *Dataplane
	from, to *sock
	active   *atomic.Int64
	// first, if there is one, is called with the first bytes; moved: they came.
	first func()
	moved bool
	// What it ended with.
	readErr, writeErr error
}

// run copies until from ends (no error) or one of them breaks.
func (p *pump) run() (readErr, writeErr error) {
	var buffer *[bufferSize]byte
	var n int
	var failed error
	read := func(fd uintptr) bool {
		buffer = p.d.buffers.Get().(*[bufferSize]byte)
		if n, failed = readNow(fd, buffer[:]); n > 0 {
			return true
		}
		p.d.buffers.Put(buffer)
		buffer = nil
		return failed != syscall.EAGAIN
	}
	var sent int
	write := func(fd uintptr) bool {
		for sent < n {
			var m int
			if m, failed = writeNow(fd, buffer[sent:n]); failed != nil {
				return failed != syscall.EAGAIN
			}
			sent += m
		}
		return true
	}
	for full := 0; ; {
		if err := p.from.raw.Read(read); err != nil {
			return err, nil
		}
		if buffer == nil {
			return failed, nil // nil at the end
		}
		p.touch()
		if !p.moved {
			p.moved = true
			if p.first != nil {
				p.first()
			}
		}
		sent = 0
		err := p.to.raw.Write(write)
		p.d.buffers.Put(buffer)
		buffer = nil
		if err == nil {
			err = failed
		}
		if err != nil {
			return nil, err
		}
		p.touch()
		if n < bufferSize {
			full = 0
			continue
		}
		if full++; full < spliceAfter {
			continue
		}
		full = 0
		if readErr, writeErr = p.splice(); readErr != nil || writeErr != nil {
			return readErr, writeErr
		}
	}
}

func isReset(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

func (p *pump) touch() {
	if p.active != nil {
		p.active.Store(moment())
	}
}
