package proxy

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
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
	// flying are the writes without an answer, landed those whose answer was not yet taken in.
	flying map[string]*task
	landed *landing
	// missed counts writes in a row that failed as if the hub were away, though it was not.
	missed map[string]int
	// gates bound the writes of plain and of held namespaces.
	gates [2]chan struct{}
	// version is the highest of a write of this boot.
	version string
	// unsaid: something was written that status doesn't cover yet.
	unsaid bool
	// proved: what was written is waited for.
	proved bool
	// reread: the hub may have lost something.
	reread     bool
	exceptions *exceptions
}

// reset forgets what stands in the hub: it is another one.
func (s *reports) reset() {
	s.have, s.held, s.heard, s.missed = map[string]*report{}, map[string]*hold{}, map[string]heard{}, map[string]int{}
	s.version, s.unsaid, s.proved, s.reread = "", false, false, true
}

// report is one namespace's ProxyReport.
type report struct {
	// object is as it was read or written; nil: there is none.
	object  *v1alpha1.ProxyReport
	content content
	written time.Time
	// absent: the namespace takes nothing any more, which counts as written until this time, but for what is refused.
	absent time.Time
	// foreign: it is so by somebody else's hand.
	foreign bool
}

func contentOf(o *v1alpha1.ProxyReport) content {
	return content{Refused: o.Refused, Without: o.ServedWithout, Members: o.Members, Addresses: o.Addresses, Serves: o.Serves, Missing: o.ServesMissing, Truncated: o.Truncated}
}

// hold is a namespace whose report can't be written. It is tried again at next, zero while it is tried.
type hold struct {
	next  time.Time
	pause time.Duration
}

func newReports(o Options, boot string) reports {
	return reports{
		name: o.Name, boot: boot, have: map[string]*report{}, held: map[string]*hold{}, heard: map[string]heard{},
		flying: map[string]*task{}, landed: newLanding(), missed: map[string]int{}, gates: [2]chan struct{}{make(chan struct{}, writersAtOnce), make(chan struct{}, writersAtOnce)},
		exceptions: newExceptions(o.Explain, o.Names), reread: true,
	}
}

// heldNames are the namespaces in which nothing is proven, those beside included.
func (s *reports) heldNames(beside []string) []string {
	all := append(slices.Collect(maps.Keys(s.held)), beside...)
	for ns, r := range s.have {
		// It may be there anew, and what is refused would be taken for served.
		if r.object == nil && len(r.content.Refused)+len(r.content.Without) > 0 {
			all = append(all, ns)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// writeReports writes what differs and is due. It returns when more is due. An
// error means that the hub can't be reached.
func (r *reporter) writeReports(ctx context.Context, now time.Time) (again time.Time, err error) {
	s := &r.reports
	r.settle(s.landed.take(), now)
	reached := s.reread
	if s.reread {
		if err := r.readReports(ctx); err != nil {
			return time.Time{}, err
		}
	}
	s.hear(r.own.takeReports())
	state := r.state
	if state.Fence != nil || state.Era != r.era {
		state = &served{Program: state.Program} // What it says besides is not so, or is of another hub.
	}
	want, wantAgain := s.exceptions.of(state, now, r.healthDirty)
	r.healthDirty = false
	sayMissing(want, s.absentIn)
	again = wantAgain
	var tasks []*task
	for _, ns := range s.namespaces(want) {
		t, due := s.due(ns, want[ns], now)
		if t != nil {
			tasks = append(tasks, t)
		}
		again = earlier(again, due)
	}
	if len(tasks) > 0 {
		err = r.deliver(ctx, tasks, reached)
		again = earlier(again, now.Add(time.Second))
	}
	for _, h := range s.held {
		if !h.next.IsZero() {
			again = earlier(again, h.next)
		}
	}
	return again, err
}

// absentIn says that the hub took no report of a namespace, because it hasn't that or deletes it.
func (s *reports) absentIn(ns string) bool { return s.have[ns] != nil && s.have[ns].object == nil }

// sayMissing has the report of fairlead-system, which every hub has, say what is served against the ledger in namespaces that
// take no report: absent says of which. What doesn't fit follows, once the ledger has what does.
func sayMissing(want map[string]*content, absent func(namespace string) bool) {
	var out []v1alpha1.MissingServedAddress
	for ns, c := range want {
		if len(c.Serves) > 0 && ns != v1alpha1.SystemNamespace && absent(ns) {
			for _, a := range c.Serves {
				out = append(out, v1alpha1.MissingServedAddress{Namespace: ns, ServedAddress: a})
			}
		}
	}
	if len(out) == 0 {
		return
	}
	slices.SortFunc(out, func(a, b v1alpha1.MissingServedAddress) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), compareServed(a.ServedAddress, b.ServedAddress))
	})
	if want[v1alpha1.SystemNamespace] == nil {
		want[v1alpha1.SystemNamespace] = &content{}
	}
	want[v1alpha1.SystemNamespace].Missing = out[:min(len(out), maxEntries)]
}

func sameMissing(a, b v1alpha1.MissingServedAddress) bool {
	return a.Namespace == b.Namespace && sameServed(a.ServedAddress, b.ServedAddress)
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

// forget drops a namespace's failures.
func (s *reports) forget(ns string) {
	delete(s.held, ns)
	delete(s.missed, ns)
}

// due says what is to be written now in a namespace, or when.
func (s *reports) due(ns string, want *content, now time.Time) (*task, time.Time) {
	if s.flying[ns] != nil {
		return nil, time.Time{} // its answer comes first
	}
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
		s.forget(ns)
		delete(s.have, ns)
		return nil, time.Time{}
	case have.object != nil && have.object.Boot != s.boot:
	case now.Before(have.absent) && have.content.differs(want) != proof: // What else is to be said may be of a namespace made anew.
		return nil, have.absent
	case have.object != nil && want.empty() && have.content.empty():
		at = have.written.Add(emptyFor)
	default:
		switch have.content.differs(want) {
		case same:
			if have.object != nil {
				s.forget(ns)
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

// stands notes a report that was read. One of this boot may be of a write whose answer was lost: readers must wait for it, too.
func (s *reports) stands(o *v1alpha1.ProxyReport) {
	if o.Boot == s.boot && newer(o.ResourceVersion, s.version) {
		s.version, s.unsaid = o.ResourceVersion, true
	}
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
		r.reports.stands(o)
	}
	for ns, old := range r.reports.have {
		if have[ns] == nil && !old.absent.IsZero() {
			have[ns] = old // That nothing stands there is known, and why.
		}
	}
	r.reports.have, r.reports.reread = have, false
	return nil
}
