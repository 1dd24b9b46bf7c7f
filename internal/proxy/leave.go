package proxy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/dataplane"
	"fairlead.dev/fairlead/internal/lb"
	"fairlead.dev/fairlead/internal/proxy/wire"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A goodbye, which a restart is not. Whoever asks for it connects to the socket of the hand-over; leaver.go is that side.
//
//	asks                               running process
//	leave, timeout, force ───────────▶ asks the hub, and says no if that is away
//	                                   serves nothing new, removes its file, tells the hub that it leaves
//	   ◀──── open, again and again     until its last connection has ended, or they are cut
//	                                   empties the data plane
//	left ◀──────────────────────────── phase Left; its process ends
//
// Once it has begun, nobody can undo it, and who asked need not wait. If it dies in between it has not left: the manager waits for
// it, and its next process serves what the hub says.

const (
	// sayLeftWithin is how long a hub that was there a moment ago may take to hear that the proxy has left.
	sayLeftWithin = 30 * time.Second
	// elderWithin is how long an older process of this proxy may take to cut what it has open.
	elderWithin = 10 * time.Second
	// leftEvery is the time between two tries to say so.
	leftEvery = 500 * time.Millisecond
	// drainLeast is the shortest drain: 0 means that nothing is ever cut.
	drainLeast = time.Millisecond
)

// errHubAway: the hub can't be told.
var errHubAway = errors.New("the hub can't be told that this proxy leaves")

// purger is a data plane of which something outlives its process.
type purger interface{ Purge() error }

// goodbye is one in progress.
type goodbye struct {
	conn   *wire.Conn
	asked  message
	unlock func()
	// open is why it can't be said that nothing is open any more.
	open error
}

// may says why the hub can't be told now.
func (w word) may(ctx context.Context) error {
	if _, err := w.own(ctx); err != nil {
		return fmt.Errorf("%w, and nothing was changed: %w; bring the hub back, or leave with --force and fence or delete Proxy %s there later", errHubAway, err, w.name)
	}
	return nil
}

// own is the Proxy; nil: the hub has none, so that nobody waits for it.
func (w word) own(ctx context.Context) (*v1alpha1.Proxy, error) {
	a, err := ask(ctx, w.hub, w.name)
	if err == nil && w.hubUID != "" && a.HubUID != w.hubUID {
		err = fmt.Errorf("another hub answers: the UID of its namespace kube-system is %s, not %s", a.HubUID, w.hubUID)
	}
	return a.Proxy, err
}

// refusesLeave says why this process doesn't leave; empty: it does.
func (p *Proxy) refusesLeave(ctx context.Context, m message) string {
	if m.Proxy != p.o.Name {
		return fmt.Sprintf("it is proxy %s, not %s", p.o.Name, m.Proxy)
	}
	if m.Force {
		return ""
	}
	if err := p.last().may(ctx); err != nil {
		return err.Error()
	}
	return ""
}

// leaves serves nothing any more, and returns when nothing is open, or all that is left is to be cut. ctx ends early what it waits for.
func (p *Proxy) leaves(ctx context.Context, g *goodbye, l *loop, w *writers, next *successors) {
	log := p.o.Logger
	log.Info("proxy leaves", "proxy", p.o.Name, "timeout", g.asked.Timeout)
	if release, ok := l.hold(ctx); ok {
		l.boundDrains(ctx, g.asked.Timeout)
		release()
	}
	p.own.leave()
	waiting, cancel := context.WithTimeout(ctx, g.asked.Timeout)
	defer cancel()
	tick := time.NewTicker(openEvery)
	defer tick.Stop()
	for over := false; !over; {
		open, began := int64(0), false
		ran := l.do(waiting, func() {
			open, began = closing(p.o.Dataplane.Observe()), l.state != nil && l.state.Leaving
		})
		if over = !ran || began && open == 0; over {
			break
		}
		g.progress(open)
		select {
		case <-waiting.Done():
			over = true
		case c := <-next.channel():
			go turnAway(c)
		case <-tick.C:
		}
	}
	next.close()
	p.cutElder(ctx, g)
	w.stop()
}

// turnAway tells one who wants to take over that it can't.
func turnAway(c *wire.Conn) {
	defer c.Close()
	c.SetDeadline(time.Now().Add(stepWithin))
	if _, _, err := receive(c); err == nil {
		c.Send(message{Step: stepRefused, Because: "this process leaves; start the next one when it has ended"})
	}
}

// progress tells who asked what is open; whether that hears it matters to nobody.
func (g *goodbye) progress(open int64) {
	g.conn.SetDeadline(time.Now().Add(stepWithin))
	g.conn.Send(message{Step: stepOpen, Count: open})
}

// cutElder has the process before this one cut what it has open still.
func (p *Proxy) cutElder(ctx context.Context, g *goodbye) {
	if p.before == nil {
		return
	}
	select {
	case <-p.before.gone:
		return
	default:
	}
	if err := p.before.conn.Send(message{Step: stepLeave}); err != nil {
		p.o.Logger.Warn("the process before this one can't be told that the proxy leaves", "err", err)
	}
	select {
	case <-p.before.gone:
	case <-time.After(elderWithin):
		g.open = errors.New("an older process of this proxy still has open connections: end it, and run this again")
	case <-ctx.Done():
		g.open = errors.New("the process was told to end while an older one of this proxy still had open connections: end that, and run this again")
	}
}

// hearLeave is cutElder's other end.
func (p *Proxy) hearLeave(ctx context.Context, c *wire.Conn, cut func()) {
	for ctx.Err() == nil {
		m, files, err := receive(c)
		closeAll(files)
		switch {
		case err == nil && m.Step == stepLeave:
			p.cut.Store(true)
			cut()
			return
		case err != nil && !errors.Is(err, os.ErrDeadlineExceeded):
			return
		}
		select { // A deadline of what was sent passed.
		case <-ctx.Done():
		case <-time.After(openEvery):
		}
	}
}

// finish empties the data plane, says that the proxy has left, and tells who asked. The loop and the writers have ended.
func (p *Proxy) finish(ctx context.Context, g *goodbye) error {
	defer g.conn.Close()
	defer g.unlock()
	ctx = context.WithoutCancel(ctx)
	errs := []error{g.open}
	errs = append(errs, purge(p.o.Dataplane), p.close(ctx))
	if p.o.StateDir != "" {
		errs = append(errs, newFile(p.o.StateDir, FileHeader{Proxy: p.o.Name}).remove())
	}
	err := errors.Join(errs...)
	if err == nil {
		err = p.last().say(ctx, g.asked.Force)
	}
	last := message{Step: stepLeft, Force: g.asked.Force}
	if err != nil {
		last.Because = err.Error()
	}
	g.conn.SetDeadline(time.Now().Add(stepWithin))
	if failed := g.conn.Send(last); failed != nil {
		p.o.Logger.Debug("who asked this proxy to leave did not wait", "err", failed)
	}
	return err
}

// purge takes away what outlives the process of a data plane. One that lives in its process has let go of its own.
func purge(dp dataplane.Dataplane) error {
	_, inside := dp.(dataplane.Heritable)
	if d, ok := dp.(purger); ok && !inside {
		return d.Purge()
	}
	return nil
}

// word is the last that a proxy says.
type word struct {
	hub  Hub
	name string
	// hubUID is that of the hub that waits for it; empty: that isn't known.
	hubUID string
	log    *slog.Logger
}

func (p *Proxy) last() word { return word{p.o.Hub, p.o.Name, p.inbox.hubUID(), p.o.Logger} }

// say writes phase Left, and deletes what this proxy reported. forced: if the hub isn't there, so be it.
func (w word) say(ctx context.Context, forced bool) error {
	within := sayLeftWithin
	if forced {
		within = 0
	}
	for until := time.Now().Add(within); ; {
		err := w.try(ctx)
		if err == nil {
			w.log.Info("proxy has left", "proxy", w.name)
			return nil
		}
		if again := apierrors.IsConflict(err) || unreachable(err); !again || time.Now().After(until) {
			err = fmt.Errorf("%w, though it serves nothing any more: %w; run this again when the hub is there, or fence or delete Proxy %s there", errHubAway, err, w.name)
			if forced {
				w.log.Warn("proxy has left unheard", "err", err)
				return nil
			}
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(leftEvery):
		}
	}
}

func (w word) try(ctx context.Context) error {
	px, err := w.own(ctx)
	if err != nil || px == nil {
		return err
	}
	if px.Status.Phase != v1alpha1.ProxyLeft {
		px.ManagedFields = nil
		st := &px.Status
		st.Seq++
		st.Phase, st.Through, st.Reports, st.Held, st.Frontends = v1alpha1.ProxyLeft, v1alpha1.Through{}, "", nil, 0
		setReady(st, metav1.ConditionFalse, ReasonLeft, "it has left, and serves nothing; start it again, or delete this Proxy")
		if _, err := w.hub.UpdateProxyStatus(ctx, px); err != nil {
			return fmt.Errorf("writing the status of Proxy %s: %w", w.name, err)
		}
	}
	reports, err := w.hub.ListReports(ctx, w.name)
	if err != nil {
		w.log.Warn("reports of a proxy that has left stay", "proxy", w.name, "err", err)
	}
	for _, r := range reports {
		if err := w.hub.DeleteReport(ctx, r.Namespace, r.Name); err != nil && !apierrors.IsNotFound(err) {
			w.log.Warn("report of a proxy that has left stays", "proxy", w.name, "namespace", r.Namespace, "err", err)
		}
	}
	return nil
}

// closing counts what is open of what is no longer served.
func closing(o dataplane.Observation) (n int64) {
	for _, open := range o.Closing {
		n += open
	}
	return n
}

// boundDrains lets nothing that is removed from now on run longer than timeout. The loop is held.
func (l *loop) boundDrains(ctx context.Context, timeout time.Duration) {
	if l.applied == nil {
		return
	}
	next := boundDrains(l.applied, timeout)
	if _, err := l.o.Dataplane.Apply(ctx, next, lb.Diff(l.applied, next)); err != nil {
		l.log.Warn("what is open is cut at the very end", "err", err)
		return
	}
	l.applied = next
}

// boundDrains is p with no drain longer than timeout.
func boundDrains(p *lb.Program, timeout time.Duration) *lb.Program {
	timeout = max(timeout, drainLeast)
	out := *p
	out.Tenants = make(map[lb.TenantID]*lb.Snapshot, len(p.Tenants))
	for id, t := range p.Tenants {
		bounded := *t
		bounded.Pools = maps.Clone(t.Pools)
		for id, pool := range t.Pools {
			if pool.DrainTimeout == 0 || pool.DrainTimeout > timeout {
				short := *pool
				short.DrainTimeout = timeout
				bounded.Pools[id] = &short
			}
		}
		out.Tenants[id] = &bounded
	}
	return &out
}
