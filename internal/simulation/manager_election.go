package simulation

import (
	"fmt"
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// The managers' election is client-go's, with its defaults.
const (
	electionLease = "fairlead-manager"
	leaseDuration = 15 * time.Second
	renewDeadline = 10 * time.Second
	retryPeriod   = 2 * time.Second
)

var electionKey = types.NamespacedName{Namespace: v1alpha1.SystemNamespace, Name: electionLease}

// candidate is a manager's part in the election.
type candidate struct {
	// identity is another for each process.
	identity string
	// leads: it believes that it does.
	leads bool
	// paused: the process stands still until then, and goes on with what it believed.
	paused time.Time
	// lease as it was last read or written, and since when it looks like that.
	lease *coordinationv1.Lease
	since time.Time
	// renewed is when it last began a renewal that succeeded.
	renewed time.Time
	tryAt   time.Time
}

func (m *manager) stands() bool { return time.Now().Before(m.paused) }

// elected says that it may write: it leads, and has renewed its Lease in time to know that nobody else does.
func (m *manager) elected() bool {
	return m.leads && time.Since(m.renewed) < renewDeadline
}

// elect renews the Lease, or tries to get it, when it is time. A leader that can't renew ends.
func (m *manager) elect() {
	now := time.Now()
	switch {
	case m.stands():
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
	if !m.leads || m.lease == nil || !m.write(m.lease, now) {
		o, err := m.link.get(leases, electionKey)
		switch {
		case apierrors.IsNotFound(err):
			o, err = m.link.create(m.record(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: electionKey.Namespace, Name: electionKey.Name}}, now))
			if err == nil {
				m.see(o.(*coordinationv1.Lease), now)
			}
			return err == nil
		case err != nil:
			return false
		}
		l := o.(*coordinationv1.Lease)
		m.see(l, now)
		holder := *l.Spec.HolderIdentity
		if holder != "" && holder != m.identity && now.Before(m.since.Add(leaseDuration)) {
			return false
		}
		return m.write(l, now)
	}
	return true
}

func (m *manager) see(l *coordinationv1.Lease, now time.Time) {
	if m.lease == nil || m.lease.ResourceVersion != l.ResourceVersion {
		m.since = now
	}
	m.lease = l
}

func (m *manager) write(l *coordinationv1.Lease, now time.Time) bool {
	o, err := m.link.update(m.record(l.DeepCopy(), now))
	if err != nil {
		return false
	}
	m.see(o.(*coordinationv1.Lease), now)
	return true
}

func (m *manager) record(l *coordinationv1.Lease, now time.Time) *coordinationv1.Lease {
	at := metav1.NewMicroTime(now)
	l.Spec.HolderIdentity, l.Spec.RenewTime = &m.identity, &at
	return l
}

// giveUp lets go of the Lease, as a manager does that ends by itself.
func (m *manager) giveUp() {
	if l := m.lease; m.leads && l != nil {
		nobody := ""
		l = l.DeepCopy()
		l.Spec.HolderIdentity = &nobody
		_, _ = m.link.update(l)
	}
}

// stand makes a process stand still for a while.
func (w *World) stand(m *manager) {
	m.paused = time.Now().Add(time.Duration(w.n(30)) * time.Second)
	w.trace("%s stands still until %s", m.name, m.paused.Format("05.000"))
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

func (w *World) identity(name string) string { return fmt.Sprintf("%s-%d", name, w.n(1<<30)) }
