package simulation

import (
	"encoding/json"
	"slices"
	"strconv"
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/dataplane"
	"fairlead.dev/fairlead/internal/proxy"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
)

// stage is what a reporter does next.
type stage int

const (
	resting stage = iota
	filing
	reporting
	stating
)

// stated is what the reporter speaks of.
type stated struct {
	wanted  proxy.Wanted
	outcome dataplane.Outcome
	seen    dataplane.Observation
	served  map[types.NamespacedName]generation
	good    *proxy.LastGood
}

// report is the reporter's next thing to do.
func (h *host) report() bool {
	if !h.up || h.fenced || h.link.cut || h.own != nil && h.own.Spec.Fenced != nil {
		return false
	}
	h.remember()
	if q, doubted := h.view.Inbox.Question(); doubted {
		h.confirm(q)
		return true
	}
	if era, _ := h.view.Inbox.Era(); era != h.era {
		h.w.trace("%s: the hub has changed: %v", h.name, h.view.Inbox.Frozen())
		h.era, h.registered, h.object, h.now = era, false, nil, resting
		h.known, h.version, h.reread = nil, 0, true
		clear(h.absent)
		clear(h.held)
	}
	if !h.registered {
		h.register()
		return true
	}
	switch h.now {
	case resting:
		if h.posted == nil && !h.reread && !h.owes() {
			return false
		}
		if h.posted != nil {
			h.told, h.posted = h.posted, nil
		}
		if h.told == nil {
			return false
		}
		h.now = filing
		if h.w.has(StatusFirst) {
			h.now = stating
		}
	case filing:
		h.keepFile()
		h.now = reporting
	case reporting:
		if h.writeReports() {
			h.now = stating
			if h.w.has(StatusFirst) {
				h.now = resting
			}
		}
	case stating:
		if h.writeStatus() {
			h.now = resting
			if h.w.has(StatusFirst) {
				h.now = filing
			}
		}
	}
	return true
}

// keepFile writes the file; what was removed is on disk when it returns.
func (h *host) keepFile() {
	if h.posted != nil {
		h.told, h.posted = h.posted, nil
	}
	good := *h.told.good
	good.Memory = h.view.Inbox.Memory()
	h.disk = file{&good, h.told.served}
	if (h.removal || h.firstFile) && !h.w.has(FileNotSynced) {
		h.synced = h.disk
	}
	h.removal, h.firstFile = false, false
}

// remember has the file say by what the hub is known.
func (h *host) remember() {
	m := h.view.Inbox.Memory()
	if h.disk.good == nil || h.disk.good.Memory == m {
		return
	}
	good := *h.disk.good
	turned := good.Memory.Frozen != m.Frozen
	good.Memory = m
	h.disk.good = &good
	if turned {
		h.synced = h.disk
	}
}

// confirm asks the hub who it is.
func (h *host) confirm(q proxy.Question) {
	a := proxy.Answer{}
	var err error
	if a.HubUID, err = h.link.uid(); err != nil {
		return
	}
	o, err := h.link.get(proxies, types.NamespacedName{Name: h.name})
	switch {
	case err == nil:
		a.Proxy = o.(*v1alpha1.Proxy)
	case !apierrors.IsNotFound(err):
		return
	}
	h.view.Inbox.Answer(q, a)
	h.asked = h.w.incarnation
}

func (h *host) register() {
	key := types.NamespacedName{Name: h.name}
	uid, err := h.link.uid()
	if err != nil {
		return
	}
	o, err := h.link.get(proxies, key)
	if err == nil || apierrors.IsNotFound(err) {
		a := proxy.Answer{HubUID: uid}
		if err == nil {
			a.Proxy = o.(*v1alpha1.Proxy)
		}
		if !h.view.Inbox.Same(a) && !h.w.has(RegistersAnywhere) {
			return
		}
	}
	if apierrors.IsNotFound(err) {
		o, err = h.link.create(&v1alpha1.Proxy{ObjectMeta: metav1.ObjectMeta{Name: h.name}, Spec: v1alpha1.ProxySpec{Pool: proxyPool}})
	}
	if err != nil {
		return
	}
	px := o.(*v1alpha1.Proxy).DeepCopy()
	h.top = max(h.top, px.Status.Seq) + 1
	px.Status = v1alpha1.ProxyStatus{Boot: h.boot, Seq: h.top, HubUID: uid, Phase: v1alpha1.ProxyStarting, Epoch: h.view.Inbox.Memory().Epoch}
	h.sayHubChanged(&px.Status)
	if o, err = h.link.update(px); err != nil {
		return
	}
	h.object, h.registered, h.reread, h.spoken, h.asked = o.(*v1alpha1.Proxy), true, true, h.era, h.w.incarnation
	h.view.Inbox.Wrote(h.era, uid, h.object.UID, h.object.Status.Seq)
	h.published, h.seq = "{}", h.object.Status.Seq
	h.renewAt = time.Now()
}

// sayHubChanged says whether the hub is the one that is served.
func (h *host) sayHubChanged(st *v1alpha1.ProxyStatus) {
	if h.w.has(ChangeNotSaid) {
		return
	}
	c := metav1.Condition{Type: v1alpha1.ConditionHubChanged, Status: metav1.ConditionFalse, Reason: "AsExpected"}
	var said *proxy.Frozen
	if h.told != nil && h.told.wanted.Era == h.era {
		said = h.told.wanted.Frozen
	}
	switch now := h.view.Inbox.Frozen(); {
	case now != nil:
		c.Status, c.Reason = metav1.ConditionTrue, now.Reason
	case said != nil:
		c.Status, c.Reason = metav1.ConditionTrue, said.Reason
	case !meta.IsStatusConditionTrue(st.Conditions, v1alpha1.ConditionHubChanged):
		return
	}
	meta.SetStatusCondition(&st.Conditions, c)
}

// want are the reports that are to stand.
func (h *host) want() map[string]*v1alpha1.ProxyReport {
	t := h.told
	if t.wanted.Era != h.era { // What it says is of another hub.
		return h.view.Reports(h.name, h.boot, proxy.Wanted{Program: t.wanted.Program}, dataplane.Outcome{}, dataplane.Observation{}, time.Now())
	}
	all := h.view.Reports(h.name, h.boot, t.wanted, t.outcome, t.seen, time.Now())
	if h.w.has(ServesNotSaid) {
		for ns, r := range all {
			if r.Serves = nil; emptyReport(r) {
				delete(all, ns)
			}
		}
	}
	return all
}

// differs says whether one namespace's report is to be written: as want, nil: none.
func (h *host) differs(ns string, want *v1alpha1.ProxyReport) (write bool) {
	have := h.known[ns]
	switch {
	case time.Now().Before(h.held[ns]):
		return false
	case have == nil:
		return want != nil && !time.Now().Before(h.absent[ns])
	case have.Boot != h.boot:
		return true
	case want == nil && emptyReport(have):
		return !time.Now().Before(h.writtenAt[ns].Add(emptyFor))
	case want == nil:
		return true
	}
	return !equality.Semantic.DeepEqual(have.Refused, want.Refused) || !equality.Semantic.DeepEqual(have.Addresses, want.Addresses) ||
		!equality.Semantic.DeepEqual(have.Members, want.Members) || !equality.Semantic.DeepEqual(have.Serves, want.Serves)
}

func emptyReport(r *v1alpha1.ProxyReport) bool {
	return len(r.Refused)+len(r.Addresses)+len(r.Members)+len(r.ServedWithout)+len(r.Serves) == 0
}

// provesGone says that a report has a word in it that somebody may act on by letting go.
func provesGone(r *v1alpha1.ProxyReport) bool {
	return slices.ContainsFunc(r.Members, func(m v1alpha1.ReportedMember) bool { return m.State == v1alpha1.ReportedGone }) ||
		slices.ContainsFunc(r.Addresses, func(a v1alpha1.ReportedAddress) bool { return a.State == v1alpha1.ReportedGone })
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
			if r.Boot == h.boot && !h.w.has(LostAnswerForgotten) {
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
	for _, ns := range namespaces {
		next := want[ns]
		if !time.Now().Before(h.absent[ns]) {
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
		update.Boot, update.Refused, update.Addresses, update.Members, update.Serves = h.boot, nil, nil, nil, nil
		if next != nil {
			update.Refused, update.Addresses, update.Members, update.Serves = next.Refused, next.Addresses, next.Members, next.Serves
		}
		o, err = h.link.update(update)
	}
	switch {
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause), have == nil && apierrors.IsNotFound(err):
		h.absent[ns] = time.Now().Add(absentFor)
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
	h.known[ns], h.writtenAt[ns] = o.(*v1alpha1.ProxyReport), time.Now()
	h.version = max(h.version, versionOf(o))
	return true
}

// statusNow is what its status is to say.
func (h *host) statusNow() v1alpha1.ProxyStatus {
	t := h.told.wanted
	next := v1alpha1.ProxyStatus{
		Boot: h.boot, Seq: h.object.Status.Seq, HubUID: h.object.Status.HubUID, Phase: v1alpha1.ProxyServing, Through: t.Versions.Through(),
		Epoch: t.Epoch, Held: sortedNames(h.held), Frontends: int32(len(t.Program.Listeners)),
		Conditions: slices.Clone(h.object.Status.Conditions),
	}
	if h.version > 0 {
		next.Reports = strconv.FormatInt(h.version, 10)
	}
	if t.Frozen != nil && !h.w.has(FrozenNotHeld) {
		next.Held = append(next.Held, t.Frozen.Namespaces...)
		slices.Sort(next.Held)
		next.Held = slices.Compact(next.Held)
	}
	if t.Era != h.era {
		next.Epoch = h.view.Inbox.Memory().Epoch
	}
	switch {
	case h.w.has(ThroughKept) && next.Through == (v1alpha1.Through{}):
		next.Through = h.object.Status.Through
	case t.Era != h.era:
		next.Through = v1alpha1.Through{}
	}
	h.sayHubChanged(&next)
	return next
}

func (h *host) writeStatus() bool {
	px, next := h.object.DeepCopy(), h.statusNow()
	// Nothing but versions moved: the Lease repeats them.
	quiet := px.Status
	quiet.Through = next.Through
	if equality.Semantic.DeepEqual(quiet, next) && !h.changed {
		h.publish(next.Through)
		return true
	}
	h.top++
	next.Seq = h.top
	px.Status = next
	o, err := h.link.update(px)
	if err != nil {
		h.failed(px, err)
		return false
	}
	h.object = o.(*v1alpha1.Proxy)
	h.view.Inbox.Wrote(h.era, h.object.Status.HubUID, h.object.UID, h.object.Status.Seq)
	h.changed = h.posted != nil && len(h.posted.wanted.Changes) > 0
	h.publish(next.Through)
	return true
}

// failed looks at what came of a write of the status that failed.
func (h *host) failed(px *v1alpha1.Proxy, err error) {
	h.reread, h.now = true, reporting
	if apierrors.IsNotFound(err) {
		h.view.Inbox.Doubt() // It was deleted, which the watch says, or the hub has lost it.
		return
	}
	o, err := h.link.get(proxies, keyOf(px))
	if err != nil {
		return
	}
	have := o.(*v1alpha1.Proxy)
	switch {
	case have.UID != px.UID:
		h.registered = false
	case have.Status.Seq < h.object.Status.Seq:
		h.view.Inbox.Doubt()
	default:
		h.object, h.top = have, max(h.top, have.Status.Seq)
		h.view.Inbox.Read(h.era, have.UID, have.Status.Seq)
		h.registered = have.Status.Boot == h.boot // else it is what came late
	}
}

func (h *host) publish(t v1alpha1.Through) {
	b, err := json.Marshal(t)
	if err != nil {
		panic(err)
	}
	h.published, h.seq = string(b), h.object.Status.Seq
}

// renew renews the Lease when it is time.
func (h *host) renew() bool {
	if !h.up || h.fenced || h.link.cut || !h.registered || time.Now().Before(h.renewAt) {
		return false
	}
	h.renewAt = time.Now().Add(500 * time.Millisecond)
	if era, _ := h.view.Inbox.Era(); (!h.view.Inbox.Sure() || h.spoken != era) && !h.w.has(LeaseBeforeWord) {
		return false
	}
	l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.SystemNamespace, Name: h.name}}
	if h.lease != nil {
		l = h.lease.DeepCopy()
	}
	now := metav1.NowMicro()
	l.Spec.RenewTime = &now
	l.Annotations = map[string]string{v1alpha1.AnnotationBoot: h.boot, v1alpha1.AnnotationThrough: h.published, v1alpha1.AnnotationSeq: strconv.FormatInt(h.seq, 10)}
	if h.w.has(LeaseWithoutSeq) {
		delete(l.Annotations, v1alpha1.AnnotationSeq)
	}
	for range 3 {
		var o client.Object
		var err error
		if h.lease == nil {
			o, err = h.link.create(l)
		} else {
			l.ResourceVersion = h.lease.ResourceVersion
			o, err = h.link.update(l)
		}
		switch {
		case err == nil:
			h.lease, h.renewAt = o.(*coordinationv1.Lease), time.Now().Add(leaseEvery)
			return true
		case h.lease != nil && (apierrors.IsNotFound(err) || apierrors.IsConflict(err)):
			h.lease = nil
			h.view.Inbox.Doubt() // Somebody else has written it, or the hub has lost what was written.
			return true
		case !apierrors.IsAlreadyExists(err):
			return true
		}
		have, err := h.link.get(leases, keyOf(l))
		if err != nil {
			return true
		}
		h.lease = have.(*coordinationv1.Lease)
	}
	return true
}
