package proxy

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"fairlead.dev/fairlead/internal/dataplane"
	"fairlead.dev/fairlead/internal/proxy/wire"
)

// writers are those that tell the hub, and keep the file. They can be stopped and started again.
type writers struct {
	r     *reporter
	lease func() *lease
	stops func()
	all   sync.WaitGroup
}

func (p *Proxy) newWriters() *writers {
	r := newReporter(p.o, p.boot, p.own, p.box)
	return &writers{r: r, lease: func() *lease { return newLease(p.o, p.boot, r) }}
}

func (w *writers) start(ctx context.Context) {
	ctx, w.stops = context.WithCancel(ctx)
	w.all.Go(func() { w.r.run(ctx) })
	w.all.Go(func() { w.lease().run(ctx) })
}

// stop returns when nothing is being written, and what was applied is filed.
func (w *writers) stop() {
	if w.stops != nil {
		w.stops()
		w.all.Wait()
		w.stops = nil
	}
}

// filed says, after stop, whether the file has all that was applied. What was applied from the file it has.
func (w *writers) filed() bool {
	s := w.r.state
	return s == nil || !s.FromHub && s.Fence == nil || len(w.r.unfiled) == 0 && !w.r.removal && !w.r.file.turned
}

// Run serves until ctx ends, then closes the listeners and lets open
// connections end for up to ShutdownTimeout. That is a restart, not a goodbye:
// nothing is said to the hub. Where StateDir is set and the data plane can, it
// takes over from the process that runs under the same name, and hands over to the next; then it returns
// when the last connection has ended, or HandoverTimeout is over.
func (p *Proxy) Run(ctx context.Context) error {
	log := p.o.Logger
	log.Info("proxy starts", "proxy", p.o.Name, "pool", p.o.Pool, "boot", p.boot, "dataplane", p.o.Dataplane.Name())
	before, held, err := p.enter(ctx)
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(ctx)
	defer stop()
	g := p.readLastGood()
	l := newLoop(p.o, p.inbox, p.own, p.box, g, &p.ready)
	w := p.newWriters()
	if g != nil {
		p.inbox.remember(g.memory(), before != nil)
		w.r.file.resume(g)
	}
	if before != nil {
		defer before.conn.Close()
		p.before = before
		l.late, l.heir = true, true // The hub is not waited for: what is served is in the file.
		l.before, l.beforeUntil = findings(before.handed.Unhealthy), time.Now().Add(beliefFor)
	} else if found := p.readFindings(); len(found) > 0 {
		l.before, l.beforeUntil = findings(found), time.Now().Add(beliefFor)
	}
	// The watches are not waited for at the end: they may be in a pause between two attempts.
	go p.o.Source.Watch(running, p.inbox, p.own)
	go p.confirm(running)
	looped := make(chan error, 1)
	go func() {
		err := l.run(running)
		stop()
		looped <- err
	}()

	if before == nil {
		p.alone()
	} else {
		held, err = p.succeed(running, before, l)
	}
	if err == nil {
		err = p.reign(running, l, w, held, looped)
	} else {
		stop()
		if before != nil {
			before.conn.Close() // The process before this one goes on, and need not wait until this one has closed.
		}
		select {
		case e := <-looped:
			err = errors.Join(err, e)
		case <-time.After(max(p.o.ShutdownTimeout, time.Second)):
			return fmt.Errorf("%w; the data plane hangs", err) // Nor can it be closed.
		}
	}
	stop()
	if p.goodbye != nil {
		return errors.Join(err, <-looped, p.finish(ctx, p.goodbye))
	}
	err = errors.Join(err, p.close(ctx))
	if p.heir != nil {
		p.heir.Close()
	}
	return err
}

func (p *Proxy) alone() {
	if p.o.Alone != nil {
		p.o.Alone()
	}
}

// succeed takes over what runs from before, and the right to write.
func (p *Proxy) succeed(ctx context.Context, before *predecessor, l *loop) (*os.File, error) {
	open := before.over
	var held *os.File
	var broken error
	if open == nil {
		if before.handed.Serves {
			if l.filed == nil {
				return nil, errors.New("taking over: there is no last-good file that this process can serve")
			}
			select {
			case <-l.first:
			case <-time.After(handWithin):
				return nil, fmt.Errorf("taking over: what the file has is not applied within %v", handWithin)
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}
		open, held, broken = before.finish(func(f func()) bool { return l.do(ctx, f) })
	}
	if open == nil {
		open = &dataplane.Open{}
	}
	before.dp.Remain(*open)
	if held == nil { // If it was cut short the lock says who serves: the predecessor, or nobody else.
		var err error
		if held, err = p.lock(ctx, lockWithin); err != nil {
			return nil, errors.Join(err, broken)
		}
	}
	if broken != nil {
		p.o.Logger.Error("the process before this one has died while it handed over", "err", broken)
		open = nil
		l.do(ctx, func() { before.dp.Adopt(nil) }) // What waited for its flows waits no longer.
	}
	p.o.Logger.Info("taken over")
	go before.follow(open)
	p.alone()
	return held, nil
}

// reign writes, and waits for the end or for a successor.
func (p *Proxy) reign(ctx context.Context, l *loop, w *writers, held *os.File, looped <-chan error) error {
	unlock := func() {
		if held != nil {
			held.Close()
		}
	}
	w.start(ctx)
	next := p.awaitSuccessors()
	var rested <-chan time.Time
	for {
		arrived := next.channel()
		if rested != nil {
			arrived = nil
		}
		select {
		case err := <-looped:
			w.stop()
			unlock()
			p.leave = next
			return err
		case <-rested:
			rested = nil
		case c := <-arrived:
			came, err := p.greet(ctx, c)
			if err != nil {
				p.o.Logger.Warn("nobody takes over", "err", err)
				c.Close()
				continue
			}
			if came.Step == stepLeave {
				p.goodbye = &goodbye{conn: c, asked: came, unlock: unlock}
				p.leaves(ctx, p.goodbye, l, w, next)
				return nil
			}
			dp := p.o.Dataplane.(dataplane.Heritable)
			release, ok := l.hold(ctx)
			if !ok {
				c.Close()
				continue
			}
			w.stop()
			if err := p.handOver(c, dp, l, w); err != nil {
				p.o.Logger.Error("the successor has not taken over; this process goes on", "err", err)
				c.Close()
				w.start(ctx)
				release()
				rested = time.After(restFor)
				continue
			}
			next.close()
			l.follow()
			release()
			if p.o.HandedOver != nil {
				p.o.HandedOver()
			}
			p.yours(c, dp, held)
			unlock()
			p.remain(ctx, c, dp)
			p.heir = c
			if !p.cut.Load() { // Else it hears of the end once nothing is open here.
				c.Close()
			}
			return nil
		}
	}
}

// yours tells the successor that it serves alone, and hands it the lock: between this process and it there is no
// moment at which a third one could have that.
func (p *Proxy) yours(c *wire.Conn, dp dataplane.Heritable, held *os.File) {
	open := dp.Open()
	m, files := message{Step: stepYours, Open: &open}, []int(nil)
	if held != nil {
		m.Parts, files = []string{"lock"}, []int{int(held.Fd())}
	}
	c.SetDeadline(time.Now().Add(stepWithin))
	if err := c.Send(m, files...); err != nil {
		p.o.Logger.Error("the successor has died", "err", err)
	}
}

// remain lets what is open run on after the successor has taken over.
func (p *Proxy) remain(ctx context.Context, c *wire.Conn, dp dataplane.Heritable) {
	if p.o.HandoverTimeout > 0 {
		var cancel func()
		ctx, cancel = context.WithTimeout(ctx, p.o.HandoverTimeout)
		defer cancel()
	}
	ctx, cut := context.WithCancel(ctx)
	defer cut()
	go p.hearLeave(ctx, c, cut)
	if !tellOpen(ctx, c, dp) {
		p.o.Logger.Info("connections are cut soon: the time after the hand-over is up, or this process is to end")
	}
}

// close lets go of the data plane. Who comes meanwhile hears what is still open.
func (p *Proxy) close(ctx context.Context) error {
	log := p.o.Logger
	log.Info("proxy stops", "proxy", p.o.Name)
	timeout := p.o.ShutdownTimeout
	if p.goodbye != nil || p.cut.Load() {
		timeout = 0
	}
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	defer cancel()
	closed := make(chan error, 1)
	go func() { closed <- p.o.Dataplane.Close(closing) }()
	defer p.leave.close()
	for {
		select {
		case err := <-closed:
			if errors.Is(err, context.DeadlineExceeded) {
				log.Warn("connections were cut at the end of the time that they had", "timeout", timeout)
				err = nil
			}
			return err
		case c := <-p.leave.channel():
			go func() {
				defer c.Close()
				dp := p.o.Dataplane.(dataplane.Heritable)
				if m, err := p.greet(closing, c); err != nil || m.Step != stepHello {
					return
				}
				open := dp.Open()
				if c.Send(message{Step: stepYours, Open: &open}) == nil {
					tellOpen(closing, c, dp)
				}
			}()
		}
	}
}
