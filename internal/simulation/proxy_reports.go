package simulation

import (
	"slices"
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/dataplane"
	"fairlead.dev/fairlead/internal/proxy"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// want are the reports that are to stand.
func (h *host) want() map[string]*v1alpha1.ProxyReport {
	t := h.told
	if t.wanted.Era != h.era { // What it says is of another hub.
		return h.view.Reports(h.name, h.boot, proxy.Wanted{Program: t.wanted.Program}, dataplane.Outcome{}, dataplane.Observation{}, h.absentIn, time.Now())
	}
	all := h.view.Reports(h.name, h.boot, t.wanted, t.outcome, t.seen, h.absentIn, time.Now())
	if r := all[v1alpha1.SystemNamespace]; r != nil && h.w.has(MissingNotSaid) {
		if r.ServesMissing = nil; emptyReport(r) {
			delete(all, v1alpha1.SystemNamespace)
		}
	}
	if h.w.has(FailuresNotReported) {
		for ns, r := range all {
			if r.Members = slices.DeleteFunc(r.Members, func(m v1alpha1.ReportedMember) bool { return m.State == v1alpha1.ReportedUnhealthy }); emptyReport(r) {
				delete(all, ns)
			}
		}
	}
	if h.w.has(ServesNotSaid) {
		for ns, r := range all {
			if r.Serves, r.ServesMissing = nil, nil; emptyReport(r) {
				delete(all, ns)
			}
		}
	}
	return all
}

// absentIn says that the hub took no report of a namespace, because it hasn't that or deletes it.
func (h *host) absentIn(ns string) bool { return !h.absent[ns].IsZero() && h.known[ns] == nil }

// differs says whether one namespace's report is to be written: as want, nil: none.
func (h *host) differs(ns string, want *v1alpha1.ProxyReport) (write bool) {
	have := h.known[ns]
	switch {
	case time.Now().Before(h.held[ns]):
		return false
	case have == nil:
		return want != nil && (!time.Now().Before(h.absent[ns]) || provesOther(h.untaken[ns], want))
	case have.Boot != h.boot:
		return true
	case want == nil && emptyReport(have):
		return !time.Now().Before(h.writtenAt[ns].Add(emptyFor))
	case want == nil:
		return true
	}
	return !equality.Semantic.DeepEqual(have.Refused, want.Refused) || !equality.Semantic.DeepEqual(have.Addresses, want.Addresses) ||
		!equality.Semantic.DeepEqual(have.Members, want.Members) || !equality.Semantic.DeepEqual(have.Serves, want.Serves) ||
		!equality.Semantic.DeepEqual(have.ServesMissing, want.ServesMissing)
}

func emptyReport(r *v1alpha1.ProxyReport) bool {
	return len(r.Refused)+len(r.Addresses)+len(r.Members)+len(r.ServedWithout)+len(r.Serves)+len(r.ServesMissing) == 0
}

// provesGone says that a report has a word in it that somebody may act on by letting go.
func provesGone(r *v1alpha1.ProxyReport) bool {
	return slices.ContainsFunc(r.Members, func(m v1alpha1.ReportedMember) bool { return m.State == v1alpha1.ReportedGone }) ||
		slices.ContainsFunc(r.Addresses, func(a v1alpha1.ReportedAddress) bool { return a.State == v1alpha1.ReportedGone })
}

// provesOther says that a report has another word in it that somebody may act on, however many connections are open.
func provesOther(a, b *v1alpha1.ProxyReport) bool {
	if a == nil {
		return true
	}
	a, b = a.DeepCopy(), b.DeepCopy()
	for _, r := range []*v1alpha1.ProxyReport{a, b} {
		for i := range r.Addresses {
			r.Addresses[i].OpenConnections = 0
		}
		for i := range r.Members {
			r.Members[i].OpenConnections = 0
		}
	}
	return !equality.Semantic.DeepEqual(a.Refused, b.Refused) || !equality.Semantic.DeepEqual(a.Addresses, b.Addresses) ||
		!equality.Semantic.DeepEqual(a.Members, b.Members) || !equality.Semantic.DeepEqual(a.Serves, b.Serves)
}

// heldNames are the namespaces in which nothing is proven by reports: those that took none of what is refused, too.
func (h *host) heldNames() []string {
	out := sortedNames(h.held)
	for ns := range h.absent {
		if r := h.untaken[ns]; h.known[ns] == nil && r != nil && len(r.Refused) > 0 {
			out = append(out, ns)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// owes says that a report is due by the time alone.
func (h *host) owes() bool {
	if h.told == nil {
		return false
	}
	for _, until := range []map[string]time.Time{h.absent, h.held} {
		for _, at := range until {
			if !time.Now().Before(at) {
				return true
			}
		}
	}
	for ns, r := range h.known {
		if emptyReport(r) && h.differs(ns, nil) && r.Boot == h.boot {
			return true
		}
	}
	return false
}

// readReports learns what stands under its name.
func (h *host) readReports() {
	h.known = map[string]*v1alpha1.ProxyReport{}
	for _, o := range h.w.server.list(reports) {
		if o.GetName() == h.name {
			r := o.(*v1alpha1.ProxyReport)
			h.known[r.Namespace] = r
			if r.Boot == h.boot {
				h.version = max(h.version, versionOf(r))
			}
		}
	}
	h.reread = false
}

// writeReports is done when it returns true.
func (h *host) writeReports() bool {
	if h.reread {
		if h.link.cut {
			return false
		}
		h.readReports()
	}
	want := h.want()
	for _, ns := range append(slices.Clone(namespaces), v1alpha1.SystemNamespace) {
		next := want[ns]
		if next == nil {
			delete(h.absent, ns)
		}
		if !h.differs(ns, next) {
			if !time.Now().Before(h.held[ns]) {
				delete(h.held, ns)
			}
			continue
		}
		if !h.writeReport(ns, next) {
			return false
		}
	}
	return true
}

// writeReport says false where all is to be looked at again.
func (h *host) writeReport(ns string, next *v1alpha1.ProxyReport) bool {
	have := h.known[ns]
	var o client.Object
	var err error
	switch {
	case have == nil:
		o, err = h.link.create(next)
	case next == nil && (emptyReport(have) || have.Boot != h.boot || !provesGone(have)):
		uid := have.UID
		_, err = h.link.request(func() (client.Object, error) {
			return nil, h.w.server.remove(reports, keyOf(have), &metav1.Preconditions{UID: &uid})
		})
		if err == nil || apierrors.IsNotFound(err) {
			delete(h.known, ns)
			delete(h.held, ns)
			return true
		}
	default:
		update := have.DeepCopy()
		update.Boot, update.Refused, update.Addresses, update.Members, update.Serves, update.ServesMissing = h.boot, nil, nil, nil, nil, nil
		if next != nil {
			update.Refused, update.Addresses, update.Members = next.Refused, next.Addresses, next.Members
			update.Serves, update.ServesMissing = next.Serves, next.ServesMissing
		}
		o, err = h.link.update(update)
	}
	switch {
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause), have == nil && apierrors.IsNotFound(err):
		h.absent[ns], h.untaken[ns] = time.Now().Add(absentFor), next
		delete(h.held, ns)
		return true
	case apierrors.IsForbidden(err):
		if !h.w.has(HeldNotSaid) {
			h.held[ns] = time.Now().Add(heldFor)
		}
		return true
	case err != nil && h.w.has(LostIsWritten) && !apierrors.IsConflict(err):
		if next != nil {
			h.known[ns] = next
		}
		return true
	case err != nil:
		h.reread = true
		return false
	}
	delete(h.held, ns)
	delete(h.absent, ns)
	h.known[ns], h.writtenAt[ns] = o.(*v1alpha1.ProxyReport), time.Now()
	h.version = max(h.version, versionOf(o))
	return true
}
