package proxy

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"

	"fairlead.dev/fairlead/internal/dataplane"
	"fairlead.dev/fairlead/internal/proxy/wire"
)

// predecessor is the running process, as its successor sees it.
type predecessor struct {
	conn *wire.Conn
	dp   dataplane.Heritable
	// handed is what it said it hands over; nil Serves: it is ending by itself, or serves nothing.
	handed message
	// over: nothing is handed over but what is still open.
	over *dataplane.Open
	// gone is closed when it has nothing open any more.
	gone chan struct{}
}

// errNobody: there is no process to take over from.
var errNobody = errors.New("nobody hands over")

// meet asks the running process for all it has; errNobody: there is none.
func (p *Proxy) meet(ctx context.Context, dp dataplane.Heritable) (*predecessor, error) {
	dialling, cancel := context.WithTimeout(ctx, stepWithin)
	defer cancel()
	c, err := wire.Dial(dialling, p.o.StateDir, socketName(p.o.Name))
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ENOTDIR):
		return nil, errNobody
	case err != nil:
		return nil, err
	}
	before := &predecessor{conn: c, dp: dp, gone: make(chan struct{})}
	if err := before.inherit(p); err != nil {
		c.Close()
		return nil, fmt.Errorf("taking over: %w", err)
	}
	return before, nil
}

func (b *predecessor) inherit(p *Proxy) error {
	b.conn.SetDeadline(time.Now().Add(stepWithin + 2*handWithin)) // it may be in an Apply, or hand over to another
	if err := b.conn.Send(message{
		Step: stepHello, Version: handoverVersion, Proxy: p.o.Name, Pool: p.o.Pool, Dataplane: p.o.Dataplane.Name(), Boot: p.boot,
	}); err != nil {
		return err
	}
	parts, last, err := receiveParts(b.conn, stepListeners)
	if err != nil {
		return err
	}
	switch last.Step {
	case stepHanded:
		b.handed = last
		b.dp.Inherit(parts)
		return nil
	case stepYours:
		closeParts(parts)
		b.over = last.Open
		return nil
	}
	closeParts(parts)
	return fmt.Errorf("the running process refuses: %s", last.Because)
}

// finish takes the rest over once the first Program is applied. do runs a function between two Applies; false: it can't
// any more. held is the lock, nil if the predecessor had none.
func (b *predecessor) finish(do func(func()) bool) (open *dataplane.Open, held *os.File, err error) {
	b.conn.SetDeadline(time.Now().Add(stepWithin))
	if err := b.conn.Send(message{Step: stepReady}); err != nil {
		return nil, nil, err
	}
	flows, last, err := receiveParts(b.conn, stepFlows)
	if err != nil {
		return nil, nil, err
	}
	if last.Step != stepFlowed {
		closeParts(flows)
		return nil, nil, fmt.Errorf("got %q (%s), wanted %q", last.Step, last.Because, stepFlowed)
	}
	if !do(func() { b.dp.Adopt(flows) }) {
		closeParts(flows)
		return nil, nil, errors.New("stopped")
	}
	if err := b.conn.Send(message{Step: stepServing}); err != nil {
		return nil, nil, err
	}
	yours, files, err := expectFiles(b.conn, stepYours)
	if len(files) == 1 {
		held = os.NewFile(uintptr(files[0]), "lock")
	} else {
		closeAll(files)
	}
	return yours.Open, held, err
}

// follow tells the data plane what the predecessor has open, until it has ended. While it is silent its last word counts.
func (b *predecessor) follow(open *dataplane.Open) {
	defer close(b.gone)
	defer b.conn.Close()
	defer b.dp.Remain(dataplane.Open{})
	b.conn.SetDeadline(time.Time{})
	for open != nil {
		b.dp.Remain(*open)
		m, err := expect(b.conn, stepOpen)
		if err != nil {
			return
		}
		open = m.Open
	}
}

// lock is lock, but for a directory that can't be used at all: that must keep nobody from serving.
func (p *Proxy) lock(ctx context.Context, within time.Duration) (*os.File, error) {
	held, err := lock(ctx, p.o.StateDir, p.o.Name, within)
	if err == nil || errors.Is(err, errTaken) || ctx.Err() != nil {
		return held, err
	}
	p.o.Logger.Error("state directory can't be locked; nobody may run beside this process under the same name", "err", err)
	return nil, nil
}

// enter makes this process the one that serves, alone or after a predecessor. A process that
// takes over gets the lock later, from the predecessor: nobody can come between.
func (p *Proxy) enter(ctx context.Context) (before *predecessor, held *os.File, err error) {
	if p.o.StateDir == "" {
		return nil, nil, nil
	}
	dp, heritable := p.o.Dataplane.(dataplane.Heritable)
	if !heritable {
		held, err = p.lock(ctx, lockWithin)
		return nil, held, err
	}
	for until := time.Now().Add(lockWithin); ; {
		before, err = p.meet(ctx, dp)
		if err == nil {
			return before, nil, nil
		}
		refused := err
		if held, err = p.lock(ctx, 0); err == nil {
			if !errors.Is(refused, errNobody) {
				p.o.Logger.Warn("the process before this one hands nothing over, and is gone", "err", refused)
			}
			return nil, held, nil
		}
		if !errors.Is(err, errTaken) || !errors.Is(refused, errNobody) || time.Now().After(until) {
			return nil, nil, fmt.Errorf("%w: stop it, or give this one its own --name (%w)", err, refused)
		}
		select { // It starts, or ends, just now.
		case <-ctx.Done():
			return nil, nil, context.Cause(ctx)
		case <-time.After(50 * time.Millisecond):
		}
	}
}
