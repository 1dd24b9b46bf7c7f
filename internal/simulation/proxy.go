package simulation

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/build"
	"fairlead.dev/fairlead/internal/dataplane"
	"fairlead.dev/fairlead/internal/lb"
	"fairlead.dev/fairlead/internal/proxy"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	leaseEvery = 10 * time.Second
	// patience until the file is served.
	patience = 500 * time.Millisecond
	// emptyFor is how long a report that had proof in it stays, empty.
	emptyFor = 10 * time.Second
	// absentFor is how long a namespace that takes nothing is left alone, heldFor how long one whose report can't be written.
	absentFor = 30 * time.Second
	heldFor   = 500 * time.Millisecond
)

// file is the last-good file: what a new process serves while the hub is away.
type file struct {
	there   bool
	program *lb.Program
	served  map[types.NamespacedName]generation
}

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
}

// host is a machine with a proxy on it.
type host struct {
	w    *World
	name string
	// kernel: the plane outlives the process.
	kernel bool
	// on: the machine runs; up: the process does; fenced: a person said that it never will again.
	on, up, made, fenced bool
	plane                *plane
	disk, synced         file
	// refuse are ports that the host has in use.
	refuse map[uint16]bool

	// Memory of one process.
	link       *link
	view       *proxy.View
	boot       string
	started    time.Time
	registered bool
	fromHub    bool
	fromFile   bool
	object     *v1alpha1.Proxy
	wanted     proxy.Wanted
	applied    *lb.Program
	// generations are those that wanted was built from.
	generations map[types.NamespacedName]generation
	// posted is newer than what is being told; nil: nothing is.
	posted    *stated
	told      *stated
	now       stage
	removal   bool
	firstFile bool
	dirty     bool // the plane has something new to say
	changed   bool // inputs changed since the last status
	unapplied *lb.Program
	since     int64 // the server's version when the process started
	// known are its reports, as last read or written.
	known     map[string]*v1alpha1.ProxyReport
	writtenAt map[string]time.Time
	// absent are namespaces that take nothing any more, and held those whose report can't be written, until when that is left so.
	absent, held map[string]time.Time
	reread       bool
	version      int64 // of its newest report
	published    string
	seq          int64 // of the status that published belongs to
	lease        *coordinationv1.Lease
	renewAt      time.Time
}

func newHost(w *World, i int) *host {
	return &host{w: w, name: fmt.Sprintf("edge-%d", i), kernel: w.n(2) == 0, plane: emptyPlane(), refuse: map[uint16]bool{}}
}

func (h *host) start() {
	h.on, h.up, h.made = true, true, true
	h.link = newLink(h.w, h, loadBalancers, targetGroups, addresses, classes, tenants, reports)
	h.view = proxy.NewView(proxyPool, build.New(build.Options{ProxyPool: proxyPool}))
	if !h.w.has(SameBoot) || h.boot == "" {
		h.boot = fmt.Sprintf("%s-%d", h.name, h.w.n(1<<30))
	}
	h.started = time.Now()
	h.registered, h.fromHub, h.fromFile, h.dirty, h.removal, h.firstFile = false, false, false, false, false, true
	h.object, h.wanted, h.applied, h.posted, h.told, h.now = nil, proxy.Wanted{}, nil, nil, nil, resting
	h.known, h.writtenAt, h.reread, h.version, h.published, h.lease = nil, map[string]time.Time{}, true, 0, "{}", nil
	h.seq = 0
	h.absent, h.held = map[string]time.Time{}, map[string]time.Time{}
	h.renewAt = time.Now()
	h.generations = map[types.NamespacedName]generation{}
	h.changed, h.unapplied, h.since = false, nil, h.w.server.version
}

// die ends the process; with the machine all that wasn't on disk is lost.
func (h *host) die(machine bool) {
	h.up = false
	if machine {
		h.on = false
		h.disk = h.synced
	}
	if machine || !h.kernel {
		h.plane = emptyPlane()
	}
	// Connections end with whom they were to, sooner or later; those of a kernel run on.
}

var fromKind = map[kind]proxy.Resource{
	loadBalancers: proxy.LoadBalancers, targetGroups: proxy.TargetGroups, addresses: proxy.Addresses, classes: proxy.Classes, tenants: proxy.Tenants,
}

func (h *host) listed(k kind, all []client.Object, version string) {
	if k == reports {
		h.reread = true
		return
	}
	objects := make([]proxy.Object, 0, len(all))
	for _, o := range all {
		objects = append(objects, deepCopy(o))
	}
	h.view.Inbox.Replace(fromKind[k], objects, version)
}

func (h *host) happened(k kind, e event) {
	if k == reports {
		// What others made of its reports.
		if have := h.known[e.object.GetNamespace()]; e.object.GetName() == h.name && have != nil && e.version > versionOf(have) {
			h.reread = true
		}
		return
	}
	if h.w.has(VersionsRunAhead) {
		h.view.Inbox.Bookmark(fromKind[k], strconv.FormatInt(h.w.server.version, 10))
	}
	if e.gone {
		h.view.Inbox.Delete(fromKind[k], proxy.Key{Namespace: e.object.GetNamespace(), Name: e.object.GetName()}, e.object.GetResourceVersion())
		return
	}
	h.view.Inbox.Set(fromKind[k], deepCopy(e.object))
}

func (h *host) bookmark(k kind, version string) {
	if k != reports {
		h.view.Inbox.Bookmark(fromKind[k], version)
	}
}

// turn is one of the loop: take in, build, apply, post.
func (h *host) turn() bool {
	if !h.up || h.fenced {
		return false
	}
	if h.unapplied != nil {
		h.apply(h.unapplied)
		h.unapplied, h.dirty = nil, true
		return true
	}
	before := h.wanted
	next := h.view.Take()
	h.wanted = next
	h.note(next.Changes)
	if !h.fromHub && (next.Complete || h.w.has(IncompleteView)) && h.registered {
		h.fromHub = true
	}
	if !h.fromHub {
		if !h.fromFile && h.disk.there && time.Since(h.started) >= patience {
			h.fromFile = true
			h.plane.served = h.disk.served
			h.plane.apply(h.disk.program, h.refuse)
			h.applied = h.disk.program
			return true
		}
		return false
	}
	first := h.told == nil && h.posted == nil
	if !first && before.Versions == next.Versions && len(next.Changes) == 0 && !h.dirty {
		return false
	}
	s := &stated{wanted: next, served: maps.Clone(h.generations)}
	h.changed = h.changed || len(next.Changes) > 0
	if h.applied == nil || first || next.Program != h.applied || h.dirty {
		changes := lb.Diff(h.applied, next.Program)
		h.removal = h.removal || first || proxy.Removes(changes)
		if h.w.has(SpeaksBeforeApply) && !first {
			s.outcome, s.seen = dataplane.Outcome{}, h.observe()
			h.post(s)
			h.applied, h.dirty, h.unapplied = next.Program, false, next.Program
			return true
		}
		h.apply(next.Program)
	}
	h.plane.served = s.served
	s.outcome = dataplane.Outcome{Refused: slices.Clone(h.plane.refused)}
	s.seen = h.observe()
	h.dirty = false
	h.post(s)
	return true
}

// apply makes the plane follow.
func (h *host) apply(next *lb.Program) {
	h.w.judgeDrops(h, h.plane.program, next)
	h.plane.apply(next, h.refuse)
	h.applied = next
}

// note keeps the generations of the LoadBalancers that the view knows.
func (h *host) note(changes []proxy.Change) {
	for _, c := range changes {
		if c.Resource != proxy.LoadBalancers {
			continue
		}
		key := types.NamespacedName{Namespace: c.Key.Namespace, Name: c.Key.Name}
		if c.Object == nil {
			delete(h.generations, key)
		} else {
			h.generations[key] = generation{c.Object.GetUID(), c.Object.GetGeneration()}
		}
	}
}

func (h *host) observe() dataplane.Observation {
	if h.w.has(OpenConnectionsForgotten) {
		return dataplane.Observation{}
	}
	return h.plane.observe()
}

// post gives the reporter something newer to speak of.
func (h *host) post(s *stated) { h.posted = s }

// report is the reporter's next thing to do.
func (h *host) report() bool {
	if !h.up || h.fenced || h.link.cut {
		return false
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
	h.disk = file{true, h.told.wanted.Program, h.told.served}
	if (h.removal || h.firstFile) && !h.w.has(FileNotSynced) {
		h.synced = h.disk
	}
	if h.posted == nil {
		h.removal = false
	}
	h.firstFile = false
}

func (h *host) register() {
	key := types.NamespacedName{Name: h.name}
	o, err := h.link.get(proxies, key)
	if apierrors.IsNotFound(err) {
		o, err = h.link.create(&v1alpha1.Proxy{ObjectMeta: metav1.ObjectMeta{Name: h.name}, Spec: v1alpha1.ProxySpec{Pool: proxyPool}})
	}
	if err != nil {
		return
	}
	px := o.(*v1alpha1.Proxy).DeepCopy()
	px.Status = v1alpha1.ProxyStatus{Boot: h.boot, Seq: px.Status.Seq + 1, Phase: v1alpha1.ProxyStarting}
	if o, err = h.link.update(px); err != nil {
		return
	}
	h.object, h.registered, h.reread = o.(*v1alpha1.Proxy), true, true
	h.renewAt = time.Now()
}

// want are the reports that are to stand.
func (h *host) want() map[string]*v1alpha1.ProxyReport {
	return h.view.Reports(h.name, h.boot, h.told.wanted, h.told.outcome, h.told.seen, time.Now())
}

// differs says what is to be done about one namespace's report: nothing, or write next (nil: delete).
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
		!equality.Semantic.DeepEqual(have.Members, want.Members)
}

func emptyReport(r *v1alpha1.ProxyReport) bool {
	return len(r.Refused)+len(r.Addresses)+len(r.Members)+len(r.ServedWithout) == 0
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

func (h *host) writeReports() bool {
	if h.reread {
		if h.link.cut {
			return false
		}
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
				continue
			}
		default:
			update := have.DeepCopy()
			update.Boot, update.Refused, update.Addresses, update.Members = h.boot, nil, nil, nil
			if next != nil {
				update.Refused, update.Addresses, update.Members = next.Refused, next.Addresses, next.Members
			}
			o, err = h.link.update(update)
		}
		switch {
		case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause), have == nil && apierrors.IsNotFound(err):
			h.absent[ns] = time.Now().Add(absentFor)
			delete(h.held, ns)
			continue
		case apierrors.IsForbidden(err):
			if !h.w.has(HeldNotSaid) {
				h.held[ns] = time.Now().Add(heldFor)
			}
			continue
		case err != nil:
			if h.w.has(LostIsWritten) && !apierrors.IsConflict(err) {
				if next != nil {
					h.known[ns] = next
				}
				continue
			}
			h.reread = true
			return false
		}
		delete(h.held, ns)
		h.known[ns], h.writtenAt[ns] = o.(*v1alpha1.ProxyReport), time.Now()
		h.version = max(h.version, versionOf(o))
	}
	return true
}

func (h *host) writeStatus() bool {
	px := h.object.DeepCopy()
	reported := ""
	if h.version > 0 {
		reported = strconv.FormatInt(h.version, 10)
	}
	next := v1alpha1.ProxyStatus{
		Boot: h.boot, Seq: px.Status.Seq, Phase: v1alpha1.ProxyServing, Through: h.told.wanted.Versions.Through(), Reports: reported, Held: sortedNames(h.held),
		Frontends: int32(len(h.told.wanted.Program.Listeners)),
	}
	// Nothing but versions moved: the Lease repeats them.
	quiet := px.Status
	quiet.Through = next.Through
	if equality.Semantic.DeepEqual(quiet, next) && !h.changed {
		h.publish(next.Through)
		return true
	}
	next.Seq++
	px.Status = next
	o, err := h.link.update(px)
	if err != nil {
		if o, err = h.link.get(proxies, keyOf(px)); err == nil {
			h.object = o.(*v1alpha1.Proxy)
			if h.object.Status.Boot != h.boot { // what came late
				h.registered = false
			}
		} else if apierrors.IsNotFound(err) {
			h.registered = false
		}
		h.reread = true
		h.now = reporting
		return false
	}
	h.object = o.(*v1alpha1.Proxy)
	h.changed = h.posted != nil && len(h.posted.wanted.Changes) > 0
	h.publish(next.Through)
	return true
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
	var o client.Object
	var err error
	for range 3 {
		if h.lease == nil {
			o, err = h.link.create(l)
		} else {
			l.ResourceVersion = h.lease.ResourceVersion
			o, err = h.link.update(l)
		}
		if !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
			break
		}
		have, failed := h.link.get(leases, keyOf(l))
		if failed != nil {
			return true
		}
		h.lease = have.(*coordinationv1.Lease)
	}
	if err != nil {
		return true
	}
	h.lease, h.renewAt = o.(*coordinationv1.Lease), time.Now().Add(leaseEvery)
	return true
}

// traffic opens or ends a connection.
func (h *host) traffic() {
	if h.on && h.plane.traffic(h.w.n) {
		h.dirty = true
	}
}

// handOver has the next process take over all that this one serves and has open.
func (h *host) handOver() {
	h.disk = file{true, h.plane.program, h.plane.served}
	h.synced = h.disk
	h.start()
	h.fromFile, h.applied = true, h.disk.program
}
