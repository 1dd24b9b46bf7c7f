package simulation

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/controller/lead"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// The managers' election is client-go's, with its defaults and its lock. Its loop runs on timers of its own, so that is played.
const (
	electionLease = "fairlead-manager"
	leaseDuration = 15 * time.Second
	renewDeadline = 10 * time.Second
	retryPeriod   = 2 * time.Second
)

var electionKey = types.NamespacedName{Namespace: v1alpha1.SystemNamespace, Name: electionLease}

// candidate is a manager's part in the election.
type candidate struct {
	// guard is the product's: the lock that is elected by, and what each write asks. lock is the one below.
	guard *lead.Guard
	lock  resourcelock.Interface
	// met: it has looked who the hub is. Before, its caches take nothing.
	met bool
	// ends is why its run is to end; nil: it goes on.
	ends error
	// leads: it believes that it does.
	leads bool
	// paused: the process stands still until then, and goes on with what it believed.
	paused time.Time
	// observed is the Lease as it was last read or written, and since when it looks like that.
	observed resourcelock.LeaderElectionRecord
	raw      []byte
	since    time.Time
	// renewed is when it last began a renewal that succeeded.
	renewed time.Time
	tryAt   time.Time
}

func newCandidate(w *World, name string, l *link) candidate {
	identity := fmt.Sprintf("%s-%d", name, w.n(1<<30))
	lock := func() resourcelock.Interface {
		return &resourcelock.LeaseLock{
			LeaseMeta: metav1.ObjectMeta{Namespace: electionKey.Namespace, Name: electionKey.Name},
			Client:    leaseClient{link: l}, LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
		}
	}
	g := lead.New(lead.Options{
		Lock: lock(), Read: lock(), RenewDeadline: renewDeadline, Now: time.Now,
		HubUID: func(context.Context) (string, error) { return l.uid() },
	})
	c := candidate{guard: g, lock: g}
	if w.has(OldCaches) {
		c.lock = lock()
	}
	return c
}

// leaseClient is the client of Leases that client-go's lock has.
type leaseClient struct {
	coordinationclient.LeaseInterface // what is not below is not used
	link                              *link
}

func (c leaseClient) Leases(string) coordinationclient.LeaseInterface { return c }

func (c leaseClient) Get(context.Context, string, metav1.GetOptions) (*coordinationv1.Lease, error) {
	return leaseOf(c.link.get(leases, electionKey))
}

func (c leaseClient) Create(_ context.Context, l *coordinationv1.Lease, _ metav1.CreateOptions) (*coordinationv1.Lease, error) {
	return leaseOf(c.link.create(l))
}

func (c leaseClient) Update(_ context.Context, l *coordinationv1.Lease, _ metav1.UpdateOptions) (*coordinationv1.Lease, error) {
	return leaseOf(c.link.update(l))
}

func leaseOf(o any, err error) (*coordinationv1.Lease, error) {
	if err != nil {
		return nil, err
	}
	return o.(*coordinationv1.Lease).DeepCopy(), nil
}

func (m *manager) stands() bool { return time.Now().Before(m.paused) }

// meets looks who the hub is, at a moment: what happens to the hub before the caches are filled happens after that.
func (m *manager) meets() bool {
	if !m.met {
		calm := m.w.calm
		m.w.calm = true
		m.met = m.guard.Meet(context.Background()) == nil
		m.w.calm = calm
	}
	return m.met
}

// mayWrite says why nothing may be written now.
func (m *manager) mayWrite(ctx context.Context) error {
	switch {
	case m.w.has(OldLeaderWrites):
		return nil
	case m.w.has(OldCaches):
		if !m.leads || time.Since(m.renewed) >= renewDeadline {
			return lead.ErrNotLeading
		}
		return nil
	}
	return m.guard.Check(ctx)
}

// elect renews the Lease, or tries to get it, when it is time. A leader that can't renew ends, and so does a manager whose hub is
// another one.
func (m *manager) elect() {
	now := time.Now()
	switch {
	case m.stands():
		return
	case m.ends != nil:
		m.w.trace("%s ends: %v", m.name, m.ends)
		m.w.restart(m, false)
		return
	case m.leads && now.Sub(m.renewed) >= renewDeadline:
		m.w.trace("%s has lost its Lease, and ends", m.name)
		m.w.restart(m, false)
		return
	case now.Before(m.tryAt):
		return
	}
	m.tryAt = now.Add(retryPeriod)
	if !m.acquire(now) {
		return
	}
	m.renewed = now
	if !m.leads {
		m.leads = true
		m.w.trace("%s leads", m.name)
	}
}

// acquire makes the Lease name it, if nobody else holds it.
func (m *manager) acquire(now time.Time) bool {
	ctx := context.Background()
	at := metav1.NewTime(now)
	next := resourcelock.LeaderElectionRecord{
		HolderIdentity: m.lock.Identity(), LeaseDurationSeconds: int(leaseDuration / time.Second), RenewTime: at, AcquireTime: at,
	}
	mine := func() bool { return m.observed.HolderIdentity == m.lock.Identity() }
	valid := func() bool { return now.Before(m.since.Add(leaseDuration)) }
	if mine() && valid() {
		next.AcquireTime, next.LeaderTransitions = m.observed.AcquireTime, m.observed.LeaderTransitions
		if m.lock.Update(ctx, next) == nil {
			m.see(next, now)
			return true
		}
	}
	have, raw, err := m.lock.Get(ctx)
	switch {
	case apierrors.IsNotFound(err):
		next.AcquireTime, next.LeaderTransitions = at, 0
		if m.lock.Create(ctx, next) != nil {
			return false
		}
		m.see(next, now)
		return true
	case err != nil:
		return false
	}
	if !bytes.Equal(m.raw, raw) {
		m.see(*have, now)
		m.raw = raw
	}
	if have.HolderIdentity != "" && valid() && !mine() {
		return false
	}
	next.AcquireTime, next.LeaderTransitions = at, have.LeaderTransitions+1
	if mine() {
		next.AcquireTime, next.LeaderTransitions = have.AcquireTime, have.LeaderTransitions
	}
	if m.lock.Update(ctx, next) != nil {
		return false
	}
	m.see(next, now)
	return true
}

func (m *manager) see(r resourcelock.LeaderElectionRecord, now time.Time) {
	m.observed, m.since = r, now
}

// giveUp lets go of the Lease, as a manager does that ends by itself.
func (m *manager) giveUp() {
	ctx := context.Background()
	have, _, err := m.lock.Get(ctx)
	if err != nil || !m.leads || have.HolderIdentity != m.lock.Identity() {
		return
	}
	at := metav1.NewTime(time.Now())
	if err := m.lock.Update(ctx, resourcelock.LeaderElectionRecord{
		LeaderTransitions: have.LeaderTransitions, LeaseDurationSeconds: 1, RenewTime: at, AcquireTime: at,
	}); err != nil {
		m.w.trace("%s can't give its Lease up: %v", m.name, err)
	}
}

// canNotTell says that a manager must take an older copy of its hub for the hub itself: it has read no leaders' Lease yet, or reads it
// as it did last, for nobody has led since the copy was made.
func (m *manager) canNotTell(hub *server) bool {
	l, _ := hub.objects[leases][electionKey].(*coordinationv1.Lease)
	return l != nil && (m.raw == nil && !m.leads || m.observed.RenewTime.Equal(&metav1.Time{Time: l.Spec.RenewTime.Time}))
}

// stand makes a process stand still for a while.
func (w *World) stand(m *manager) {
	m.paused = time.Now().Add(time.Duration(w.n(30)) * time.Second)
	w.trace("%s stands still until %s", m.name, m.paused.Format("05.000"))
}

// hang makes a process stand still between its look whether it may write and the write, at times for so long that another leads
// when the write arrives.
func (w *World) hang(m *manager) {
	if w.inside || w.calm || w.n(w.standstills()) > 0 {
		return
	}
	w.inside = true
	w.stand(m)
	for m.stands() && w.result.Broken == "" {
		for range 1 + w.n(20) {
			w.act()
			w.judgeServed()
		}
		w.sleep(time.Second)
	}
	w.trace("%s goes on", m.name)
	w.inside = false
}

// restart ends a manager's process, and begins another.
func (w *World) restart(m *manager, inOrder bool) {
	if inOrder {
		m.giveUp()
	}
	for i := range w.mgrs {
		if w.mgrs[i] == m {
			w.mgrs[i] = newManager(w, m.name)
			w.trace("%s restarts", m.name)
		}
	}
}
