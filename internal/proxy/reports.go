package proxy

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// healthEvery and countsEvery are the least times between two writes of one report for its less urgent news.
	healthEvery = time.Second
	countsEvery = 5 * time.Second
	// emptyFor is how long a report that had proof in it stays, empty, before it is deleted: a deletion has no version that readers could wait for.
	emptyFor = 10 * time.Second
	// absentFor is how long a namespace that is terminating or gone is left alone.
	absentFor = 30 * time.Second
	// heldFrom and heldUpTo bound the pause before a report that can't be written is tried again.
	heldFrom = 500 * time.Millisecond
	heldUpTo = time.Minute
	// writersAtOnce bounds the reports that are written at the same time, those of held namespaces apart.
	writersAtOnce = 8
)

// reports is what stands in the hub, as far as this process knows.
type reports struct {
	name, boot string
	have       map[string]*report
	held       map[string]*hold
	// heard is what others made of them, and is not yet in have.
	heard map[string]heard
	// flying are the writes without an answer.
	flying map[string]*task
	// version is the highest that a write of this boot returned.
	version string
	// unsaid: something was written that status doesn't cover yet.
	unsaid bool
	// proved: what was written is waited for.
	proved bool
	// reread: the hub may have lost something.
	reread     bool
	exceptions *exceptions
}

// report is one namespace's ProxyReport.
type report struct {
	// object is as it was read or written; nil: there is none.
	object  *v1alpha1.ProxyReport
	content content
	written time.Time
	// absent: the namespace takes nothing any more, which counts as written until this time.
	absent time.Time
	// foreign: it is so by somebody else's hand.
	foreign bool
}

func contentOf(o *v1alpha1.ProxyReport) content {
	return content{Refused: o.Refused, Members: o.Members, Addresses: o.Addresses, Truncated: o.Truncated}
}

// hold is a namespace whose report can't be written.
type hold struct {
	next  time.Time
	pause time.Duration
}

func newReports(o Options, boot string) reports {
	return reports{
		name: o.Name, boot: boot, have: map[string]*report{}, held: map[string]*hold{}, heard: map[string]heard{}, flying: map[string]*task{},
		exceptions: newExceptions(o.Explain), reread: true,
	}
}

func (s *reports) heldNames() []string { return slices.Sorted(maps.Keys(s.held)) }

// task is one report that is to be written.
type task struct {
	namespace string
	want      *content
	have      *report
	news      difference
	// Results.
	object *v1alpha1.ProxyReport
	absent bool
	err    error
}

// writeReports writes what differs and is due. It returns when more is due. An
// error means that the hub can't be reached.
func (r *reporter) writeReports(ctx context.Context, now time.Time) (again time.Time, err error) {
	s := &r.reports
	if s.reread {
		if err := r.readReports(ctx); err != nil {
			return time.Time{}, err
		}
	}
	s.hear(r.own.takeReports())
	state := r.state
	if state.Fence != nil {
		state = &served{Program: state.Program}
	}
	want, wantAgain := s.exceptions.of(state, now, r.healthDirty)
	r.healthDirty = false
	again = wantAgain
	var tasks []*task
	for _, ns := range s.namespaces(want) {
		t, due := s.due(ns, want[ns], now)
		if t != nil {
			tasks = append(tasks, t)
		}
		again = earlier(again, due)
	}
	r.writeAll(ctx, tasks)
	for _, t := range tasks {
		if e := r.settle(t, now); e != nil {
			err = e
		}
		if h := s.held[t.namespace]; h != nil {
			again = earlier(again, h.next)
		}
	}
	if len(tasks) > 0 {
		again = earlier(again, now.Add(time.Second))
	}
	return again, err
}

// namespaces are those in which something is wanted, stands, or could not be written.
func (s *reports) namespaces(want map[string]*content) []string {
	all := map[string]struct{}{}
	for ns := range want {
		all[ns] = struct{}{}
	}
	for ns := range s.have {
		all[ns] = struct{}{}
	}
	for ns := range s.held {
		all[ns] = struct{}{}
	}
	return slices.Sorted(maps.Keys(all))
}

// due says what is to be written now in a namespace, or when.
func (s *reports) due(ns string, want *content, now time.Time) (*task, time.Time) {
	if want == nil {
		want = &content{}
	}
	have := s.have[ns]
	if have == nil {
		have = &report{}
	}
	at := now
	switch {
	case have.object == nil && want.empty():
		delete(s.held, ns)
		delete(s.have, ns)
		return nil, time.Time{}
	case have.object != nil && have.object.Boot != s.boot:
	case now.Before(have.absent):
		return nil, have.absent
	case have.object != nil && want.empty() && have.content.empty():
		at = have.written.Add(emptyFor)
	default:
		switch have.content.differs(want) {
		case same:
			if have.object != nil {
				delete(s.held, ns)
				return nil, time.Time{}
			}
		case counts:
			at = have.written.Add(countsEvery)
		case health:
			at = have.written.Add(healthEvery)
		}
	}
	if due := have.written.Add(healthEvery); have.foreign && due.After(at) {
		at = due // against somebody who goes on about it
	}
	if h := s.held[ns]; h != nil && h.next.After(at) {
		at = h.next
	}
	if at.After(now) {
		return nil, at
	}
	return &task{namespace: ns, want: want, have: have, news: have.content.differs(want)}, time.Time{}
}

func (r *reporter) writeAll(ctx context.Context, tasks []*task) {
	var all sync.WaitGroup
	limit := make(chan struct{}, writersAtOnce)
	for _, t := range tasks {
		limit <- struct{}{}
		all.Go(func() {
			defer func() { <-limit }()
			t.object, t.absent, t.err = r.writeReport(ctx, t)
		})
	}
	all.Wait()
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
	out.Refused, out.Members, out.Addresses, out.Truncated = t.want.Refused, t.want.Members, t.want.Addresses, t.want.Truncated
	return out
}

// settle takes a task's result in. An error means that the hub can't be reached.
func (r *reporter) settle(t *task, now time.Time) error {
	s := &r.reports
	if t.err != nil {
		r.o.Metrics.write("failed", "report")
		if unreachable(t.err) {
			return fmt.Errorf("writing report of %s: %w", t.namespace, t.err)
		}
		h := s.held[t.namespace]
		if h == nil {
			h = &hold{pause: heldFrom}
			s.held[t.namespace] = h
			r.log.Error("report can't be written; nothing is proven in that namespace", "namespace", t.namespace, "err", t.err)
		}
		h.next = now.Add(h.pause)
		h.pause = min(h.pause*2, heldUpTo)
		return nil
	}
	delete(s.held, t.namespace)
	if t.object == nil && !t.absent && t.want.empty() {
		r.o.Metrics.write("deleted", "report")
		delete(s.have, t.namespace)
		return nil
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
	return nil
}

// readReports learns what stands in the hub under this proxy's name, by whatever boot.
func (r *reporter) readReports(ctx context.Context) error {
	list, err := r.o.Hub.ListReports(ctx, r.o.Name)
	if err != nil {
		return fmt.Errorf("listing own reports: %w", err)
	}
	have := map[string]*report{}
	for i := range list {
		o := &list[i]
		rep := &report{object: o, content: contentOf(o)}
		if old := r.reports.have[o.Namespace]; old != nil {
			rep.written = old.written
		}
		have[o.Namespace] = rep
	}
	r.reports.have, r.reports.reread = have, false
	return nil
}
