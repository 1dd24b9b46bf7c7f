package proxy

import (
	"context"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/lb"
)

const (
	// patience is how long the hub may take for its first view before the last-good file is served.
	patience = 500 * time.Millisecond
	// refusedFrom and refusedUpTo bound the pause before what was refused is tried again: a port may have become free.
	refusedFrom = time.Second
	refusedUpTo = 10 * time.Second
	// failedFrom and failedUpTo bound the pause after an Apply that failed; a Program that changed meanwhile waits for the former only.
	failedFrom = 100 * time.Millisecond
	failedUpTo = 5 * time.Second
)

// loop is the proxy's one goroutine that builds and applies.
type loop struct {
	o     Options
	log   *slog.Logger
	inbox *Inbox
	own   *Own
	box   *mailbox
	ready *atomic.Bool

	builder Builder
	picture *picture
	watched *watched
	probes  probes
	// filing made filed, of the last-good file; nil: there is none, or it is not needed any more.
	filing Builder
	filed  *lb.Program
	// wanted are the names that are followed.
	wanted map[lb.TenantID][]string

	// fromHub: the first view was complete once; it stays so.
	fromHub bool
	// late: patience is over. unread: the hub may say yet that this proxy is fenced.
	late, unread bool
	// built is what the hub's objects make, while nothing changed since.
	built    *lb.Program
	versions Versions
	// changes and since were taken from the Inbox and not yet applied; of each object the last change counts.
	changes map[changed]Change
	since   time.Time

	// base and applied are the Program of the last Apply without and with health.
	base    *lb.Program
	applied *lb.Program
	state   *served
	// fenced is what kept this proxy from serving in the last turn; unsure: the hub was in doubt then.
	fenced *v1alpha1.Fence
	unsure bool

	healthDirty, observeDirty bool
	hand
	// again is when Apply is called again, whatever happens; failures or same refusals in a row make it later.
	again     time.Time
	failures  int
	refusals  int
	failed    *lb.Program // without health, what the last Apply failed with
	attempted time.Time   // when that was
}

// changed names the object of a Change.
type changed struct {
	resource Resource
	key      Key
}

func newLoop(o Options, inbox *Inbox, own *Own, box *mailbox, g *LastGood, ready *atomic.Bool) *loop {
	l := &loop{o: o, log: o.Logger, inbox: inbox, own: own, box: box, ready: ready, picture: newPicture(o.Pool, g), watched: newWatched(o.Pool, o.Addresses), changes: map[changed]Change{}, hand: newHand()}
	l.builder = o.NewBuilder()
	if g != nil {
		b := o.NewBuilder()
		for r := range resources {
			for k, obj := range g.Objects[r] {
				b.Set(obj)
				l.note(Change{r, k, obj})
			}
		}
		l.filing, l.filed = b, l.program(b)
		l.late = g.Memory.Frozen != "" // The hub is not waited for, which is not the one that is served.
	}
	return l
}

// program builds, with what is known of the names that it takes.
func (l *loop) program(b Builder) *lb.Program {
	p := b.Program()
	if l.o.Names == nil {
		return p
	}
	if names := b.Names(); !maps.EqualFunc(names, l.wanted, slices.Equal[[]string]) {
		l.wanted = names
		l.o.Names.SetNames(names)
	}
	b.SetNames(l.o.Names.Addresses())
	return b.Program()
}

// renamed takes in that names stand for something else, or can't be looked up.
func (l *loop) renamed() {
	l.built, l.healthDirty = nil, true
	if !l.fromHub && l.filed != nil {
		l.filed = l.program(l.filing)
	}
}

func (l *loop) run(ctx context.Context) error {
	drift, err := l.o.Dataplane.Recover(ctx, l.filed)
	if err != nil {
		return err
	}
	l.log.Info("data plane looked at", "missing", drift.Missing, "foreign", drift.Foreign)
	late := time.NewTimer(patience)
	defer late.Stop()
	again := time.NewTimer(time.Hour)
	defer again.Stop()
	var names <-chan struct{}
	if l.o.Names != nil {
		names = l.o.Names.Changed()
	}
	var read <-chan struct{}
	if l.filed != nil && !l.heir {
		l.unread, read = true, l.askFence(ctx)
	}
	if l.late {
		l.turn(ctx)
	}
	for {
		if !l.again.IsZero() {
			again.Reset(time.Until(l.again))
		} else {
			again.Stop()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-l.inbox.changed:
		case <-l.own.loop:
		case <-l.o.Checker.Changed():
			l.healthDirty = true
		case <-l.o.Dataplane.Changed():
			l.observeDirty = true
		case <-names:
			l.renamed()
		case <-late.C:
			l.late = true
		case <-read:
			l.unread, read = false, nil
		case <-again.C:
		case f := <-l.calls:
			f()
			continue
		}
		if ctx.Err() != nil {
			return nil
		}
		l.turn(ctx)
	}
}

// turn takes what is pending, and applies it.
func (l *loop) turn(ctx context.Context) {
	own := l.own.state() // Before what was delivered: a fence that was forgotten with its hub is followed by a new era.
	l.takeIn(own)
	own.Fence = l.fence(own, l.picture.behind)
	base := l.choose(own)
	if base == nil || !l.mayApply(base) {
		return
	}
	state := &served{FromHub: l.fromHub, Fence: own.Fence, Leaving: own.Leaving, Frozen: l.picture.state, Era: l.picture.era, Epoch: l.picture.epoch}
	turned := l.state == nil || l.state.FromHub != state.FromHub || (l.state.Fence == nil) != (state.Fence == nil) || l.state.Leaving != state.Leaving ||
		(l.state.Frozen == nil) != (state.Frozen == nil) || l.state.Era != state.Era || l.state.Epoch != state.Epoch
	p := post{state: state, health: l.healthDirty, urgent: turned, removal: turned}
	if !turned && l.state.Frozen != state.Frozen {
		turned, p.urgent = true, true
	}
	if l.fromHub {
		state.Versions = l.versions
		p.changes, p.lazy = slices.Collect(maps.Values(l.changes)), len(l.changes) > 0
	}
	if l.state != nil {
		p.urgent = p.urgent || (l.state.Versions == Versions{}) != (state.Versions == Versions{})
		state.Refused, state.Observation = l.state.Refused, l.state.Observation
	}

	forced := !l.again.IsZero() && !time.Now().Before(l.again)
	if base != l.base || l.healthDirty || forced || l.failures > 0 {
		if base != l.base {
			l.carry(base)
		}
		next := *base
		next.Health = l.verdicts()
		changes := lb.Diff(l.applied, &next)
		if l.applied == nil || !changes.Empty() || forced {
			if !l.apply(ctx, &next, changes, state) {
				l.failed, l.attempted = base, time.Now()
				return
			}
			l.observeDirty = true
			if structural(&changes) {
				l.builder.SetLastGood(&next)
			}
		}
		p.urgent = p.urgent || structural(&changes) || l.touches(&next) || !slices.Equal(state.Refused, l.state.Refused)
		p.removal = p.removal || removes(&changes)
		p.health = p.health || len(changes.Health) > 0
		l.base, l.applied = base, &next
		if all, distinct, changed := l.probes.update(&next); changed {
			if !l.following {
				l.o.Checker.SetProbes(all)
			}
			l.uncarry(all)
			l.o.Metrics.probes(distinct)
		}
		l.o.Metrics.program(&next)
	} else if !turned && !p.lazy && !l.observeDirty && l.state.Versions == state.Versions {
		return
	}
	if l.observeDirty {
		state.Observation = l.o.Dataplane.Observe()
	}
	state.Program, state.Checks = l.applied, l.watched.ownChecks()
	if !state.Frozen.silent() {
		state.Draining, state.Releasing = l.watched.drainingList, l.watched.releasingList
		state.Own, state.Beside = l.o.Addresses, l.watched.grantedBeside()
	}
	l.state, l.healthDirty, l.observeDirty = state, false, false
	if l.fromHub {
		l.since = time.Time{}
		clear(l.changes)
	}
	if !l.ready.Swap(true) {
		close(l.first)
	}
	l.tell(p)
}

// fence is what keeps this proxy from serving, whether that was applied or not. A hub that is in doubt lifts no fence. When it has
// changed, that of the one before it counts until this hub's own Proxy, and all that is to be served, are known: what is shown
// meanwhile was fenced.
func (l *loop) fence(own ownState, behind bool) *v1alpha1.Fence {
	if own.Fence != nil || !behind && own.Known && !l.unsure {
		l.fenced = own.Fence
	}
	return l.fenced
}

// takeIn hands what was delivered to the builder.
func (l *loop) takeIn(own ownState) {
	d := l.inbox.take()
	l.unsure = !d.Sure
	if l.fence(own, l.picture.behind || d.Era != l.picture.era) != nil {
		l.picture.release()
		d.Frozen, d.Thawed = nil, 0
	}
	was := l.picture.state
	changes := l.picture.take(d)
	if was != nil && l.picture.state == nil {
		l.log.Info("what is served is the hub's again", "epoch", l.picture.epoch)
	}
	if !l.picture.behind {
		l.inbox.Adopt(l.picture.era, l.picture.epoch, l.picture.witnessed)
	}
	for _, c := range changes {
		l.note(c)
		l.changes[changed{c.Resource, c.Key}] = c
	}
	if len(changes) > 0 {
		l.built = nil
		if l.since.IsZero() {
			l.since = d.Since
		}
	}
	l.versions = l.picture.versions(d.Versions)
	if !l.fromHub && d.Complete && own.Known {
		l.fromHub, l.filing = true, nil
		l.log.Info("first view of the hub is complete")
	}
}

// note builds from a change.
func (l *loop) note(c Change) {
	c.handTo(l.builder)
	l.watched.note(c)
}

// choose returns the Program that should run, without health; nil: nothing is known yet.
func (l *loop) choose(own ownState) *lb.Program {
	switch {
	case own.Fence != nil: // That is known before the first view is complete, and the file must not be served.
		if l.state == nil || l.state.Fence == nil {
			if !own.Leaving {
				l.log.Error("proxy is fenced and serves nothing", "by", own.Fence.By, "reason", own.Fence.Reason)
			}
			l.filed = nil
			return &lb.Program{}
		}
		return l.base
	case !l.fromHub && l.late && !l.unread && l.filed != nil:
		switch {
		case l.base == l.filed:
		case l.heir:
			l.log.Info("serving what the process before this one serves")
		case l.inbox.Frozen() != nil:
			l.log.Warn("hub is not the one that is served; serving what the last-good file says")
		default:
			l.log.Warn("hub is away; serving what the last-good file says")
		}
		return l.filed
	case !l.fromHub:
		return nil
	}
	if l.built == nil {
		began := time.Now()
		l.built = l.program(l.builder)
		l.o.Metrics.built(time.Since(began))
	}
	return l.built
}

// mayApply says no while Apply fails: until its pause is over, which a changed Program shortens.
func (l *loop) mayApply(base *lb.Program) bool {
	if l.failures == 0 {
		return true
	}
	if base != l.failed {
		l.again = earlier(l.again, l.attempted.Add(failedFrom))
	}
	return !time.Now().Before(l.again)
}

// backoff doubles from with each time, up to a bound, and takes up to a quarter off by chance.
func backoff(from, upTo time.Duration, times int) time.Duration {
	pause := min(from<<min(times, 16), upTo)
	return pause - rand.N(pause/4)
}

// apply hands next to the data plane; false: it failed and will be tried again.
func (l *loop) apply(ctx context.Context, next *lb.Program, changes lb.Changes, state *served) bool {
	began := time.Now()
	outcome, err := l.o.Dataplane.Apply(ctx, next, changes)
	l.o.Metrics.applied(outcome, err, time.Since(began))
	if err != nil {
		if ctx.Err() != nil {
			return false
		}
		l.again = time.Now().Add(backoff(failedFrom, failedUpTo, l.failures))
		l.failures++
		l.log.Error("program can't be applied", "err", err, "failures", l.failures)
		if l.state != nil {
			failed := *l.state
			failed.ApplyError = err
			l.state = &failed
			l.tell(post{state: l.state, lazy: true})
		}
		return false
	}
	l.failures, l.failed = 0, nil
	switch now := time.Now(); {
	case len(outcome.Refused) == 0:
		l.again, l.refusals = time.Time{}, 0
	case l.state == nil || !slices.Equal(l.state.Refused, outcome.Refused):
		l.again, l.refusals = now.Add(backoff(refusedFrom, refusedUpTo, 0)), 0
	case !now.Before(l.again): // it was tried for that
		l.refusals++
		l.again = now.Add(backoff(refusedFrom, refusedUpTo, l.refusals))
	}
	if !l.since.IsZero() {
		l.o.Metrics.lag(time.Since(l.since))
	}
	if l.state == nil || !slices.Equal(l.state.Refused, outcome.Refused) {
		for _, p := range outcome.Refused {
			l.log.Warn("port is refused", "tenant", p.Object.Namespace, "loadbalancer", p.Object.Name, "port", p.Object.Port, "reason", p.Reason, "message", p.Message)
		}
	}
	state.Refused = outcome.Refused
	l.log.Debug("program applied", "how", outcome.How, "because", outcome.Because, "listeners", len(next.Listeners), "took", time.Since(began))
	return true
}
