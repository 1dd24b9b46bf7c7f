package proxy

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"fairlead.dev/fairlead/internal/dataplane"
	"fairlead.dev/fairlead/internal/proxy/wire"
)

// successors are those that want to take over.
type successors struct {
	listener *wire.Listener
	arrived  chan *wire.Conn
	done     chan struct{}
}

// awaitSuccessors listens for them, and for who wants this proxy to leave; nil where there is no state directory, or
// nothing to hand over or to take away.
func (p *Proxy) awaitSuccessors() *successors {
	_, inside := p.o.Dataplane.(dataplane.Heritable)
	if _, outlives := p.o.Dataplane.(purger); p.o.StateDir == "" || !inside && !outlives {
		return nil
	}
	l, err := wire.Listen(p.o.StateDir, socketName(p.o.Name))
	if err != nil {
		p.o.Logger.Error("the next process can't take over: it will have to wait until this one has stopped", "err", err)
		return nil
	}
	s := &successors{listener: l, arrived: make(chan *wire.Conn), done: make(chan struct{})}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			select {
			case s.arrived <- c:
			case <-s.done:
				c.Close()
				return
			}
		}
	}()
	return s
}

// close lets nobody come any more.
func (s *successors) close() {
	if s != nil {
		close(s.done)
		s.listener.Close()
	}
}

// chan is nil, on which nobody ever arrives, where s is.
func (s *successors) channel() chan *wire.Conn {
	if s == nil {
		return nil
	}
	return s.arrived
}

// greet hears who has come: a successor, or somebody who wants this proxy to leave. It answers a wrong one, and returns why it is.
func (p *Proxy) greet(ctx context.Context, c *wire.Conn) (message, error) {
	c.SetDeadline(time.Now().Add(stepWithin))
	hello, files, err := receive(c)
	closeAll(files)
	if err != nil {
		return hello, err
	}
	because := ""
	switch _, inside := p.o.Dataplane.(dataplane.Heritable); {
	case hello.Step == stepLeave:
		if because = p.refusesLeave(ctx, hello); because == "" {
			return hello, nil
		}
	case hello.Step != stepHello:
		return hello, fmt.Errorf("got %q, wanted %q", hello.Step, stepHello)
	case !inside:
		because = "its data plane hands nothing over: stop it, then start the next one"
	case hello.Version != handoverVersion:
		because = fmt.Sprintf("it hands over in version %d, not %d", handoverVersion, hello.Version)
	case hello.Proxy != p.o.Name || hello.Pool != p.o.Pool:
		because = fmt.Sprintf("it is proxy %s of pool %s, not %s of %s", p.o.Name, p.o.Pool, hello.Proxy, hello.Pool)
	case hello.Dataplane != p.o.Dataplane.Name():
		because = fmt.Sprintf("its data plane is %s, not %s", p.o.Dataplane.Name(), hello.Dataplane)
	default:
		p.o.Logger.Info("a successor has come", "boot", hello.Boot, "version", hello.Version)
		return hello, nil
	}
	c.SetDeadline(time.Now().Add(stepWithin))
	c.Send(message{Step: stepRefused, Because: because})
	return hello, fmt.Errorf("%s is refused: %s", hello.Step, because)
}

// handOver gives a successor everything, while loop and writers stand still: for handWithin at most. After an error they
// may go on as before.
func (p *Proxy) handOver(c *wire.Conn, dp dataplane.Heritable, l *loop, w *writers) error {
	if !w.filed() {
		c.Send(message{Step: stepRefused, Because: "its last-good file can't be written"})
		return fmt.Errorf("handing over: what is served can't be filed")
	}
	listeners := dp.Listeners()
	c.SetDeadline(time.Now().Add(handWithin))
	if err := sendParts(c, stepListeners, listeners); err != nil {
		return fmt.Errorf("handing over listeners: %w", err)
	}
	serves := l.state != nil && l.state.Fence == nil
	if err := c.Send(message{Step: stepHanded, Serves: serves, Unhealthy: unhealthy(l.verdicts())}); err != nil {
		return fmt.Errorf("handing over listeners: %w", err)
	}
	if _, err := expect(c, stepReady); err != nil {
		return fmt.Errorf("waiting for the successor: %w", err)
	}
	flows := dp.Suspend()
	err := sendParts(c, stepFlows, flows)
	if err == nil {
		err = c.Send(message{Step: stepFlowed})
	}
	if err == nil {
		_, err = expect(c, stepServing)
	}
	if err != nil {
		dp.Resume()
		return fmt.Errorf("handing over flows: %w", err)
	}
	dp.Yield()
	p.o.Logger.Info("handed over", "sockets", len(listeners), "flows", len(flows))
	return nil
}

// tellOpen says what is open until nothing is, ctx ends, or the successor has. It returns true if nothing is.
func tellOpen(ctx context.Context, c *wire.Conn, dp dataplane.Heritable) bool {
	var told dataplane.Open
	heard := true
	tick := time.NewTicker(openEvery)
	defer tick.Stop()
	for {
		open := dp.Open()
		if heard && !reflect.DeepEqual(open, told) {
			c.SetDeadline(time.Now().Add(stepWithin))
			heard = c.Send(message{Step: stepOpen, Open: &open}) == nil
			c.SetDeadline(time.Time{})
			told = open
		}
		if open.Empty() {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
	}
}
