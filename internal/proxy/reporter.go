package proxy

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

const (
	// additionsWithin is how long plain additions may wait for the last-good file.
	additionsWithin = time.Second
	// statusEvery is the least time between two writes of status for what somebody waits for. It is doubled after each
	// that was waited for, up to statusMost: while everything changes, more writes hold up more than they tell.
	statusEvery = 50 * time.Millisecond
	statusMost  = 500 * time.Millisecond
	// statusPerProxy makes that longer in large fleets: about 100 such writes a second for a hub.
	statusPerProxy = 10 * time.Millisecond
	// lazyStatus is how long a write of status may wait that nobody waits for.
	lazyStatus = 500 * time.Millisecond
)

// reporter says what was applied: file, ProxyReports, Proxy.status, in this
// order. One goroutine runs it.
type reporter struct {
	o    Options
	boot string
	log  *slog.Logger
	own  *Own
	box  *mailbox
	// inbox knows the hub again.
	inbox *Inbox

	// file is nil where none is kept.
	file *file
	// unfiled waits for the file since unfiledSince; removal makes it wait no longer.
	unfiled      []Change
	unfiledSince time.Time
	removal      bool
	// fileFails is why the file can't be written now. unheard is the era of which it was logged that its hub hears nothing therefore; -1: of none.
	fileFails error
	unheard   int

	// state is the newest that was posted.
	state       *served
	healthDirty bool

	// hubUID is "" while this boot is not registered. era is the hub's in which it is, spoken its copy for the Lease.
	hubUID   string
	era      int
	spoken   atomic.Int64
	failures int

	reports reports
	status  status
	// writers of reports.
	writers sync.WaitGroup

	// published is what the Lease may repeat: its exceptions are written, and status says so.
	published atomic.Pointer[published]
	// interval is the least time between two writes of status, in nanoseconds; the lease sets it.
	interval atomic.Int64
	// registered is closed when this boot stands in the Proxy's status for the first time.
	registered chan struct{}
	once       sync.Once
}

// published is how far the proxy is through, and the seq of the status that belongs to it.
type published struct {
	through v1alpha1.Through
	seq     int64
}

func newReporter(o Options, boot string, own *Own, box *mailbox) *reporter {
	r := &reporter{o: o, boot: boot, log: o.Logger, own: own, box: box, inbox: own.inbox, unheard: -1, registered: make(chan struct{})}
	if o.StateDir != "" {
		r.file = newFile(o.StateDir, FileHeader{Proxy: o.Name, Pool: o.Pool, Boot: boot})
	}
	r.reports = newReports(o, boot)
	r.interval.Store(int64(statusEvery))
	return r
}

func (r *reporter) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	defer r.writers.Wait()
	for {
		select {
		case <-ctx.Done():
			if p := r.box.take(); p != nil {
				r.take(p, time.Now())
			}
			r.keepFile(time.Now().Add(additionsWithin))
			if r.file != nil {
				r.file.close()
			}
			return
		case <-r.box.wake:
		case <-r.own.reporter:
		case <-r.reports.landed.wake:
		case <-timer.C:
		}
		if ctx.Err() != nil {
			continue
		}
		next := r.step(ctx)
		if next.IsZero() {
			timer.Stop()
		} else {
			timer.Reset(time.Until(next))
		}
	}
}

// step does what is due, and returns when something will be; zero: not by itself.
func (r *reporter) step(ctx context.Context) time.Time {
	now := time.Now()
	if p := r.box.take(); p != nil {
		r.take(p, now)
		if r.file != nil && p.health && p.state.Program != nil && p.state.Fence == nil {
			if err := r.file.keepFindings(p.state.Program.Health); err != nil {
				r.log.Warn("a restart will ask of no check what it found", "err", err)
			}
		}
	}
	again, err := r.tell(ctx, now)
	switch {
	case err == nil:
		r.failures = 0
	case ctx.Err() != nil:
		return time.Time{}
	default:
		r.failures++
		// Hub away is a normal state; it is said once, and when it is over.
		if r.failures == 1 {
			r.log.Warn("hub can't be told", "err", err)
		}
		r.log.Debug("hub still can't be told", "err", err, "failures", r.failures)
		r.o.Metrics.write("failed", "any")
		pause := min(50*time.Millisecond<<min(r.failures, 6), 2*time.Second)
		again = earlier(again, now.Add(pause/2+rand.N(pause/2)))
	}
	return again
}

func (r *reporter) take(p *post, now time.Time) {
	r.state = p.state
	r.healthDirty = r.healthDirty || p.health
	if r.file != nil {
		if len(p.changes) > 0 && len(r.unfiled) == 0 {
			r.unfiledSince = now
		}
		r.unfiled = append(r.unfiled, p.changes...)
		r.removal = r.removal || p.removal
	}
	if p.state.FromHub {
		r.status.want(p, now)
	}
}

// tell does what is due. An error means that the hub can't be reached, or that
// the file can't be kept and so little may be said.
func (r *reporter) tell(ctx context.Context, now time.Time) (again time.Time, err error) {
	era, _ := r.inbox.Era()
	again, r.fileFails = r.keepFile(now)
	if may, unmarked := r.maySpeak(era); may {
		var due time.Time
		due, err = r.say(ctx, now, era)
		again = earlier(again, due)
	} else {
		err = unmarked
	}
	if r.fileFails != nil {
		err = errors.Join(err, r.sayFileFailed(ctx, era))
	}
	if err != nil {
		r.reports.reread = true
	}
	return again, errors.Join(r.fileFails, err)
}

// maySpeak says that this hub may be told something. Where the file can't be written, that is only a hub that took the first
// one's place, or the first one again after that; and the former not before the file's mark says so, which is tried here.
func (r *reporter) maySpeak(era int) (may bool, unmarked error) {
	switch {
	case r.fileFails == nil:
		return true, nil
	case r.state != nil && r.state.Fence != nil:
		return false, nil // The file is to be gone first.
	case r.file.memory.Frozen == "":
		return era != r.era, nil
	}
	err := r.file.mark()
	if err != nil && r.unheard != era {
		r.unheard = era
		r.log.Error("hub has changed, and hears nothing from this proxy: neither the last-good file nor its mark can be written; free space there", "err", err)
	}
	return err == nil, err
}

// provesNothing says that what is said now would have nobody give away anything.
func (r *reporter) provesNothing() bool {
	return r.state == nil || r.state.Era != r.era || r.state.Frozen.silent()
}

// say tells the hub what is due, once the file says what it must of that era.
func (r *reporter) say(ctx context.Context, now time.Time, era int) (again time.Time, err error) {
	if !r.inbox.Sure() {
		return again, nil // Another hub must not take this for its own; the answer wakes.
	}
	if next, _ := r.inbox.Era(); next != era {
		return now, nil // The hub has become another meanwhile: the file says so first.
	}
	r.lookForOthers(now)
	if era != r.era {
		r.startAnew(era)
	}
	if r.hubUID == "" || r.gone() {
		if due := r.status.registered.Add(registerEvery); due.After(now) {
			return earlier(again, due), nil
		}
		if err := r.register(ctx); err != nil {
			return again, err
		}
	}
	if r.status.yields(now) {
		return earlier(again, r.status.claimAt), nil
	}
	if r.fileFails != nil && !r.provesNothing() {
		return again, nil
	}
	if r.state != nil && r.state.FromHub {
		due, err := r.writeReports(ctx, now)
		again = earlier(again, due)
		if err != nil {
			return again, err
		}
	}
	due, err := r.writeStatus(ctx, now)
	return earlier(again, due), err
}

// keepFile brings the last-good file up to date: at once and synced if
// something was removed, since that will be reported.
func (r *reporter) keepFile(now time.Time) (again time.Time, err error) {
	if r.file == nil {
		return time.Time{}, nil
	}
	r.file.identify(r.inbox.Memory())
	if r.state == nil || !r.state.FromHub && r.state.Fence == nil {
		if r.file.resumed {
			return time.Time{}, r.filed(r.file.remember())
		}
		return time.Time{}, nil
	}
	if r.state.Fence != nil {
		r.file.note(r.unfiled)
		r.unfiled, r.removal = nil, false
		if err := r.file.remove(); err != nil {
			r.log.Error("last-good file can't be removed; nothing is reported meanwhile", "err", err)
			return time.Time{}, err
		}
		return time.Time{}, nil
	}
	if !r.removal {
		due := time.Time{}
		if len(r.unfiled) > 0 {
			due = r.unfiledSince.Add(additionsWithin)
		}
		if due.IsZero() || now.Before(due) {
			return due, r.filed(r.file.remember())
		}
	}
	durable := buffered
	if r.removal {
		durable = synced
	}
	began := time.Now()
	if err := r.file.write(r.unfiled, r.state.Versions, durable); err != nil {
		// Its changes are in memory, and the next write is of the whole file.
		r.unfiled = nil
		r.removal = true
		if r.o.Metrics.filed(err, time.Since(began)); r.failures == 0 {
			r.log.Error("last-good file can't be written; nothing is reported meanwhile", "err", err)
		}
		return time.Time{}, err
	}
	r.o.Metrics.filed(nil, time.Since(began))
	r.unfiled, r.removal = nil, false
	return time.Time{}, nil
}

// filed logs why what nobody waits for can't be filed.
func (r *reporter) filed(err error) error {
	if err != nil && r.failures == 0 {
		r.log.Error("last-good file can't be written; nothing is reported meanwhile", "err", err)
	}
	return err
}

// startAnew forgets what the hub before this one knew of this proxy.
func (r *reporter) startAnew(era int) {
	r.era, r.hubUID, r.status.object = era, "", nil
	r.status.other, r.status.registered = "", time.Time{}
	r.reports.reset()
	if f := r.inbox.Frozen(); f != nil {
		r.log.Error("hub has changed; what was served is served on", "reason", f.Reason, "because", f.Because)
	}
}

// gone says that the Proxy object that this boot registered was deleted.
func (r *reporter) gone() bool {
	px, listed := r.own.latest()
	return listed && px == nil
}

func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// unreachable says that an error is not the hub's answer about one object, but no answer, or that it answers nobody now.
func unreachable(err error) bool {
	var answer apierrors.APIStatus
	return !errors.As(err, &answer) || apierrors.IsTooManyRequests(err) || apierrors.IsServiceUnavailable(err) ||
		apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) || apierrors.IsUnauthorized(err)
}
