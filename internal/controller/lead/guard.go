package lead

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ErrHubChanged ends a manager's run: the hub is not the one that its caches are of.
var ErrHubChanged = errors.New("the hub is not the one that it was")

// ErrNotLeading refuses a write: another may lead by now.
var ErrNotLeading = errors.New("the leader's Lease was not renewed in time, another manager may lead by now")

// Options of a Guard.
type Options struct {
	// Lock is the leaders' Lease; nil: nobody else ever leads.
	Lock resourcelock.Interface
	// Read is another lock on the same Lease: a Lock writes over what it read last, and only whoever elects may read by it.
	Read resourcelock.Interface
	// RenewDeadline is for how long a renewal is good.
	RenewDeadline time.Duration
	// HubUID reads the UID of kube-system from the API server itself.
	HubUID func(context.Context) (string, error)
	// Now is a monotonic clock.
	Now func() time.Time
}

// Guard is a lock for leader election that remembers what it read and wrote. It is safe for concurrent use, and good for one run.
type Guard struct {
	Options

	mu      sync.Mutex
	seen    record
	renewed time.Time // when the last renewal that succeeded was sent; the zero time: never
	opened  int       // watches opened and lists answered
	changed error
	end     func(error)

	confirming sync.Mutex
	confirmed  int    // of opened
	uid        string // of the hub
}

// record is how far a leaders' Lease has come. Between two holders the transitions rise; one holder's times are of one clock.
type record struct {
	there       bool
	transitions int
	renewal     time.Time
}

func (r record) compare(o record) int {
	return cmp.Or(cmp.Compare(r.transitions, o.transitions), r.renewal.Compare(o.renewal))
}

// New returns a guard that has seen nothing.
func New(o Options) *Guard { return &Guard{Options: o, end: func(error) {}} }

// OnChange calls f once, with an error that is ErrHubChanged, when the hub is found to have changed.
func (g *Guard) OnChange(f func(error)) {
	g.mu.Lock()
	g.end = f
	changed := g.changed
	g.mu.Unlock()
	if changed != nil {
		f(changed)
	}
}

// change notes that the hub has changed.
func (g *Guard) change(how string, args ...any) error {
	g.mu.Lock()
	first, end := g.changed == nil, g.end
	if first {
		g.changed = fmt.Errorf("%w: %s", ErrHubChanged, fmt.Sprintf(how, args...))
	}
	err := g.changed
	g.mu.Unlock()
	if first {
		end(err)
	}
	return err
}

// Meet looks who the hub is, before anything is read of it that is kept: what is found to have changed later has changed since.
// A kube-system or a Lease that nobody made yet is none that could be lost.
func (g *Guard) Meet(ctx context.Context) error {
	if err := g.confirm(ctx, 0); err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	return nil
}

// Opened notes that a watch was opened, or a list answered: the hub may have been restored meanwhile.
func (g *Guard) Opened() {
	g.mu.Lock()
	g.opened++
	g.mu.Unlock()
}

// Follows takes an object as an informer has it, in place of the one that it had. A hub's versions only rise: one that goes back is of an
// older copy, whatever the leaders' Lease says. Where nobody led for a while, that may be one of two copies.
func (g *Guard) Follows(before, now client.Object) {
	if order, err := resourceversion.CompareResourceVersion(now.GetResourceVersion(), before.GetResourceVersion()); err == nil && order < 0 {
		g.WentBack(fmt.Sprintf("%T %s", now, client.ObjectKeyFromObject(now)), before.GetResourceVersion(), now.GetResourceVersion())
	}
}

// WentBack notes that something which was at one version is at an earlier one now.
func (g *Guard) WentBack(what, before, now string) {
	_ = g.change("%s was at version %s, and is at %s", what, before, now) // whoever writes next is told
}

// Check says why nothing may be written now.
func (g *Guard) Check(ctx context.Context) error {
	g.mu.Lock()
	changed, renewed, opened := g.changed, g.renewed, g.opened
	g.mu.Unlock()
	switch {
	case changed != nil:
		return changed
	case g.Lock != nil && (renewed.IsZero() || g.Now().Sub(renewed) >= g.RenewDeadline):
		return ErrNotLeading
	}
	return g.confirm(ctx, opened)
}

// confirm looks whether the hub is the one that it was, unless that was done since what was opened.
func (g *Guard) confirm(ctx context.Context, opened int) error {
	g.confirming.Lock()
	defer g.confirming.Unlock()
	if g.confirmed >= opened && g.uid != "" {
		return nil
	}
	g.mu.Lock()
	opened = g.opened
	g.mu.Unlock()
	uid, err := g.HubUID(ctx)
	switch {
	case err != nil:
		return fmt.Errorf("asking the hub who it is: %w", err)
	case g.uid != "" && uid != g.uid:
		return g.change("its kube-system was %s and is %s", g.uid, uid)
	}
	if g.Lock != nil {
		// Not found: nobody has led yet. Where a Lease was seen before, read says that the hub has changed.
		if _, _, err := g.read(ctx, g.Read); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("reading the leader's Lease: %w", err)
		}
	}
	g.uid, g.confirmed = uid, opened
	return nil
}

// note takes a record that was read or written.
func (g *Guard) note(l *resourcelock.LeaderElectionRecord) {
	r := record{true, l.LeaderTransitions, l.RenewTime.Time.Truncate(time.Microsecond)} // as it is stored
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.seen.there || r.compare(g.seen) > 0 {
		g.seen = r
	}
}

// Get reads the Lease, and looks whether it is older than it was.
func (g *Guard) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	return g.read(ctx, g.Lock)
}

func (g *Guard) read(ctx context.Context, by resourcelock.Interface) (*resourcelock.LeaderElectionRecord, []byte, error) {
	g.mu.Lock()
	before, changed := g.seen, g.changed
	g.mu.Unlock()
	if changed != nil {
		return nil, nil, changed
	}
	l, raw, err := by.Get(ctx)
	switch {
	case apierrors.IsNotFound(err) && before.there:
		return nil, nil, g.change("the leader's Lease is gone")
	case err != nil:
		return nil, nil, err
	}
	if r := (record{true, l.LeaderTransitions, l.RenewTime.Time.Truncate(time.Microsecond)}); before.there && r.compare(before) < 0 {
		return nil, nil, g.change("the leader's Lease was renewed at %s in term %d, and reads %s in term %d",
			before.renewal.UTC().Format(time.RFC3339), before.transitions, r.renewal.UTC().Format(time.RFC3339), r.transitions)
	}
	g.note(l)
	return l, raw, nil
}

// Create creates the Lease.
func (g *Guard) Create(ctx context.Context, l resourcelock.LeaderElectionRecord) error {
	return g.write(ctx, l, g.Lock.Create)
}

// Update writes the Lease.
func (g *Guard) Update(ctx context.Context, l resourcelock.LeaderElectionRecord) error {
	return g.write(ctx, l, g.Lock.Update)
}

func (g *Guard) write(ctx context.Context, l resourcelock.LeaderElectionRecord, to func(context.Context, resourcelock.LeaderElectionRecord) error) error {
	sent := g.Now()
	if err := to(ctx, l); err != nil {
		return err
	}
	g.note(&l)
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.renewed = sent; l.HolderIdentity == "" {
		g.renewed = time.Time{} // released
	}
	return nil
}

// RecordEvent is the lock's.
func (g *Guard) RecordEvent(s string) { g.Lock.RecordEvent(s) }

// Identity is the lock's.
func (g *Guard) Identity() string { return g.Lock.Identity() }

// Describe is the lock's.
func (g *Guard) Describe() string { return g.Lock.Describe() }
