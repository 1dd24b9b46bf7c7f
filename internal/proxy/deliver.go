package proxy

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// answerWithin is how long everything else waits for a report's write; then its namespace is held until the answer is there.
	answerWithin = 2 * time.Second
	// missedUpTo is how many writes in a row may fail as if the hub were away, though it is not, before the namespace is held.
	missedUpTo = 2
)

// task is one report that is to be written.
type task struct {
	namespace string
	want      *content
	have      *report
	news      difference
	era       int
	// Results.
	object *v1alpha1.ProxyReport
	absent bool
	err    error
}

// landing collects tasks whose results are there.
type landing struct {
	mu    sync.Mutex
	tasks []*task
	wake  chan struct{}
}

func newLanding() *landing { return &landing{wake: make(chan struct{}, 1)} }

func (l *landing) put(t *task) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tasks = append(l.tasks, t)
	wake(l.wake)
}

func (l *landing) take() []*task {
	l.mu.Lock()
	defer l.mu.Unlock()
	tasks := l.tasks
	l.tasks = nil
	return tasks
}

// deliver writes reports and waits for the answers, but for those of held
// namespaces and of those that take too long, which are held then: these come
// in later rounds. reached: the hub answered in this round. An error means that
// it can't be reached.
func (r *reporter) deliver(ctx context.Context, tasks []*task, reached bool) error {
	s := &r.reports
	waiting := map[*task]struct{}{}
	for _, t := range tasks {
		s.flying[t.namespace], t.era = t, r.era
		gate := s.gates[0]
		if h := s.held[t.namespace]; h != nil {
			gate, h.next = s.gates[1], time.Time{}
		} else {
			waiting[t] = struct{}{}
		}
		r.writers.Go(func() {
			gate <- struct{}{}
			t.object, t.absent, t.err = r.writeReport(ctx, t)
			<-gate
			s.landed.put(t)
		})
	}
	late := time.NewTimer(answerWithin)
	defer late.Stop()
	var failed []*task
	for len(waiting) > 0 {
		select {
		case <-s.landed.wake:
			for _, t := range s.landed.take() {
				delete(waiting, t)
				if t.err != nil && s.held[t.namespace] == nil && unreachable(t.err) {
					failed = append(failed, t)
					continue
				}
				reached = reached || t.err == nil || !unreachable(t.err)
				r.settle([]*task{t}, time.Now())
			}
		case <-late.C:
			for t := range waiting {
				r.hold(t.namespace, fmt.Errorf("no answer within %s", answerWithin))
			}
			clear(waiting)
		}
	}
	return r.judge(failed, reached)
}

// judge settles writes that failed as if the hub were away. If it isn't, that
// is the trouble of their namespaces. An error means that it can't be reached.
func (r *reporter) judge(failed []*task, reached bool) (err error) {
	s := &r.reports
	for _, t := range failed {
		if reached && s.missed[t.namespace] >= missedUpTo {
			r.settle([]*task{t}, time.Now())
			continue
		}
		if reached {
			s.missed[t.namespace]++
		}
		delete(s.flying, t.namespace)
		r.o.Metrics.write("failed", "report")
		err = fmt.Errorf("writing report of %s: %w", t.namespace, t.err)
	}
	return err
}

// writeReport makes one report say what is wanted. absent: the namespace is terminating or gone.
func (r *reporter) writeReport(ctx context.Context, t *task) (out *v1alpha1.ProxyReport, absent bool, err error) {
	old := t.have.object
	for range 3 {
		switch {
		case old == nil && t.want.empty():
			return nil, false, nil
		case old == nil:
			out, err = r.o.Hub.CreateReport(ctx, r.reports.make(t, nil))
		case t.want.empty() && (!t.have.content.provesGone() || old.Boot != r.boot):
			out, err = nil, r.o.Hub.DeleteReport(ctx, t.namespace, r.o.Name)
		default:
			out, err = r.o.Hub.UpdateReport(ctx, r.reports.make(t, old))
		}
		switch {
		case err == nil:
			return out, false, nil
		case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
			return nil, true, nil
		case apierrors.IsNotFound(err):
			if old == nil {
				return nil, true, nil
			}
			old = nil
		case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
			old, err = r.o.Hub.GetReport(ctx, t.namespace, r.o.Name)
			if apierrors.IsNotFound(err) {
				old, err = nil, nil
			}
			if err != nil {
				return nil, false, err
			}
		default:
			return nil, false, err
		}
	}
	return nil, false, err
}

func (s *reports) make(t *task, old *v1alpha1.ProxyReport) *v1alpha1.ProxyReport {
	out := &v1alpha1.ProxyReport{ObjectMeta: metav1.ObjectMeta{Namespace: t.namespace, Name: s.name}}
	if old != nil {
		out.ObjectMeta = *old.ObjectMeta.DeepCopy()
		out.ManagedFields = nil
	}
	out.Boot = s.boot
	out.ServedWithout = t.want.Without
	out.Serves, out.ServesMissing = t.want.Serves, t.want.Missing
	out.Refused, out.Members, out.Addresses, out.Truncated = t.want.Refused, t.want.Members, t.want.Addresses, t.want.Truncated
	return out
}

// settle takes results in.
func (r *reporter) settle(tasks []*task, now time.Time) {
	s := &r.reports
	for _, t := range tasks {
		delete(s.flying, t.namespace)
		if t.era != r.era { // Of another hub; what it made of this one is read again.
			s.reread = true
			continue
		}
		if t.err != nil {
			r.o.Metrics.write("failed", "report")
			h := r.hold(t.namespace, t.err)
			h.next = now.Add(h.pause/2 + rand.N(h.pause/2))
			h.pause = min(h.pause*2, heldUpTo)
			continue
		}
		s.forget(t.namespace)
		if t.object == nil && !t.absent && t.want.empty() {
			r.o.Metrics.write("deleted", "report")
			delete(s.have, t.namespace)
			continue
		}
		rep := &report{object: t.object, content: *t.want, written: now}
		if t.absent {
			rep.absent = now.Add(absentFor)
		}
		s.have[t.namespace] = rep
		if t.object != nil {
			r.o.Metrics.write("written", "report")
			s.unsaid = true
			s.proved = s.proved || t.news == proof
			if newer(t.object.ResourceVersion, s.version) {
				s.version = t.object.ResourceVersion
			}
		}
	}
}

// hold makes a namespace prove nothing until its report is written.
func (r *reporter) hold(ns string, why error) *hold {
	h := r.reports.held[ns]
	if h == nil {
		h = &hold{pause: heldFrom}
		r.reports.held[ns] = h
		r.log.Error("report can't be written; nothing is proven in that namespace", "namespace", ns, "err", why)
	}
	return h
}
