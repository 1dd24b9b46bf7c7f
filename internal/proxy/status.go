package proxy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Reasons of a Proxy's condition Ready.
const (
	// ReasonStarting: wait; nothing was applied yet.
	ReasonStarting = "Starting"
	// ReasonServing asks nothing of anybody.
	ReasonServing = "Serving"
	// ReasonFenced: spec.fenced is set, so it serves nothing; take that out once the proxy may serve again.
	ReasonFenced = "Fenced"
	// ReasonLeaving: it was asked to leave, serves nothing new, and waits for what is open; wait.
	ReasonLeaving = "Leaving"
	// ReasonLeft: it has left; start it again, or delete this Proxy.
	ReasonLeft = "Left"
	// ReasonApplyFailed: the data plane takes no new Program, and what it had runs on; the message and the proxy's log say why.
	ReasonApplyFailed = "ApplyFailed"
	// ReasonFileFailed: the last-good file can't be written, so nothing new is reported, and nothing is given up; free space on its disk, or mend what the message names.
	ReasonFileFailed = "FileFailed"
	// ReasonDuplicateName: another process reports under the same name; give each its own.
	ReasonDuplicateName = "DuplicateName"
)

const (
	// Between two processes of one name, each writes only after these pauses, until the other was not seen for othersFor.
	claimFrom = 10 * time.Second
	claimUpTo = time.Minute
	othersFor = 2 * time.Minute
	// registerEvery is the least time between two registrations, whoever undoes them.
	registerEvery = time.Second
)

// status is the Proxy object as far as this process knows, and when it is to be written.
type status struct {
	// object is the newest that was read or written.
	object *v1alpha1.Proxy
	// urgent and lazySince are reasons to write; written is when that was last done, pause how long it is left so at least.
	urgent    bool
	lazySince time.Time
	written   time.Time
	pause     time.Duration
	// seq is the highest that was read or written; registered is when this boot was written last.
	seq        int64
	registered time.Time

	// other is the boot of another process that was seen writing under this name, at otherAt.
	other      string
	otherAt    time.Time
	claimAt    time.Time
	claimPause time.Duration
}

func (s *status) want(p *post, now time.Time) {
	s.urgent = s.urgent || p.urgent
	if p.lazy {
		s.lazy(now)
	}
}

func (s *status) lazy(now time.Time) {
	if s.lazySince.IsZero() {
		s.lazySince = now
	}
}

// wrote notes a write, and how long the next one waits: every, but longer while one follows the other.
func (s *status) wrote(now time.Time, every time.Duration) {
	if now.Sub(s.written) < 2*s.pause {
		s.pause = max(every, min(2*s.pause, statusMost))
	} else {
		s.pause = every
	}
	s.written = now
}

// register makes this boot stand in the Proxy object, creating it if need be.
func (r *reporter) register(ctx context.Context) error {
	uid, err := r.o.Hub.UID(ctx)
	if err != nil {
		return fmt.Errorf("reading the hub's UID: %w", err)
	}
	px, err := r.o.Hub.GetProxy(ctx, r.o.Name)
	// The hub was confirmed, and may have become another since. What others do to a Proxy that was written, its watch says.
	if written := r.status.object != nil; (err == nil || apierrors.IsNotFound(err)) && !r.inbox.same(r.era, answerOf(uid, px, err), written) {
		return fmt.Errorf("registering proxy %s: %w", r.o.Name, errUnsure)
	}
	switch {
	case apierrors.IsNotFound(err):
		px, err = r.o.Hub.CreateProxy(ctx, &v1alpha1.Proxy{
			ObjectMeta: metav1.ObjectMeta{Name: r.o.Name},
			Spec:       v1alpha1.ProxySpec{Pool: r.o.Pool, Zone: r.o.Zone, Addresses: r.o.ownAddresses()},
		})
	case err == nil && !r.o.speaks(px):
		px.Spec.Pool, px.Spec.Zone, px.Spec.Addresses = r.o.Pool, r.o.Zone, r.o.ownAddresses()
		px, err = r.o.Hub.UpdateProxy(ctx, px)
	}
	if err != nil {
		return fmt.Errorf("registering proxy %s: %w", r.o.Name, err)
	}
	r.status.seq = max(r.status.seq, px.Status.Seq) + 1
	px.Status = v1alpha1.ProxyStatus{
		Boot: r.boot, Seq: r.status.seq, HubUID: uid, Version: cut(r.o.Version, 63), Dataplane: r.o.Dataplane.Name(), Phase: v1alpha1.ProxyStarting,
	}
	px.Status.Epoch, px.Status.ThawedEpoch = r.epoch(), r.inbox.Memory().Thawed
	setReady(&px.Status, metav1.ConditionFalse, ReasonStarting, "it lists the hub's objects and applies them")
	r.setHubChanged(&px.Status)
	px, err = r.o.Hub.UpdateProxyStatus(ctx, px)
	if err != nil {
		return fmt.Errorf("registering boot of proxy %s: %w", r.o.Name, err)
	}
	if !r.inbox.Wrote(r.era, uid, px.UID, px.Status.Seq) {
		return fmt.Errorf("registering proxy %s: %w", r.o.Name, errUnsure)
	}
	r.hubUID, r.status.object, r.status.registered = uid, px, time.Now()
	r.publish(v1alpha1.Through{})
	r.spoken.Store(int64(r.era))
	r.status.urgent = r.state != nil && r.state.FromHub
	r.reports.reread = true
	r.own.setRegistered(r.era, px)
	r.log.Info("registered", "proxy", r.o.Name, "hub", uid, "seq", px.Status.Seq)
	r.once.Do(func() { close(r.registered) })
	return nil
}

// speaks says that a Proxy's spec is this process's.
func (o *Options) speaks(px *v1alpha1.Proxy) bool {
	return px.Spec.Pool == o.Pool && px.Spec.Zone == o.Zone && slices.Equal(px.Spec.Addresses, o.ownAddresses())
}

// ownAddresses are as the Proxy's spec has them.
func (o *Options) ownAddresses() []string {
	var out []string
	for _, a := range o.Addresses {
		out = append(out, a.String())
	}
	return out
}

// lookForOthers takes in what the watch says of the own object: another boot in
// it means that another process reports under the same name.
func (r *reporter) lookForOthers(now time.Time) {
	if px, _ := r.own.latest(); px != nil && r.status.object != nil && newer(px.ResourceVersion, r.status.object.ResourceVersion) {
		r.seen(px, now)
	}
	if s := &r.status; s.other != "" && now.Sub(s.otherAt) > othersFor {
		r.log.Info("other process of the same name is gone", "boot", s.other)
		s.other, s.claimPause = "", 0
		s.urgent = true
	}
}

// seen takes in a newer form of the own object.
func (r *reporter) seen(px *v1alpha1.Proxy, now time.Time) {
	s := &r.status
	before := s.object
	s.object, s.seq = px, max(s.seq, px.Status.Seq)
	r.inbox.Read(r.era, px.UID, px.Status.Seq)
	switch {
	case px.UID != before.UID || px.Status.Boot == "" || !r.o.speaks(px):
		// Made anew, emptied, or made another's by hand.
		r.hubUID = ""
		return
	case px.Status.Boot == r.boot:
		if !equality.Semantic.DeepEqual(px.Status, before.Status) {
			s.lazy(now) // it says what this process did not
		}
		return
	}
	if s.other == "" {
		r.log.Error("another process reports under the same name; give each its own --name", "proxy", r.o.Name, "boot", px.Status.Boot)
	}
	s.other, s.otherAt = px.Status.Boot, now
	s.claimPause = min(max(s.claimPause*2, claimFrom), claimUpTo)
	s.claimAt = now.Add(s.claimPause)
	s.lazy(now)
	r.reports.reread = true
}

// yields says that another process of the same name wrote lately, and that it is not yet time to contradict.
func (s *status) yields(now time.Time) bool { return s.other != "" && now.Before(s.claimAt) }

// writeStatus writes the Proxy's status if it is due, and returns when it will be.
func (r *reporter) writeStatus(ctx context.Context, now time.Time) (again time.Time, err error) {
	s := &r.status
	if r.state == nil || !r.state.FromHub {
		return time.Time{}, nil
	}
	next := r.statusNow()
	if old := &s.object.Status; old.Frontends != next.Frontends || old.Phase != next.Phase || r.reports.unsaid || !sameConditions(old.Conditions, next.Conditions) {
		s.lazy(now)
	}
	if r.reports.proved || !slices.Equal(s.object.Status.Held, next.Held) {
		s.urgent = true
	}
	due := time.Time{}
	if s.urgent {
		due = s.written.Add(s.pause)
	} else if !s.lazySince.IsZero() {
		due = s.lazySince.Add(lazyStatus)
	}
	switch {
	case !s.urgent && s.lazySince.IsZero():
		// Nothing but versions moved: the Lease repeats them.
		r.publish(next.Through)
		return r.otherAgain(), nil
	case due.After(now):
		return earlier(due, r.otherAgain()), nil
	}
	for range 3 {
		px := s.object.DeepCopy()
		px.ManagedFields = nil
		s.seq++
		next.Seq = s.seq
		px.Status = next
		px, err = r.o.Hub.UpdateProxyStatus(ctx, px)
		switch {
		case err == nil:
			if !r.inbox.Wrote(r.era, r.hubUID, px.UID, px.Status.Seq) {
				return now, nil // The hub has become another since.
			}
			s.object, s.urgent, s.lazySince = px, false, time.Time{}
			s.wrote(time.Now(), time.Duration(r.interval.Load()))
			if s.other != "" {
				s.claimAt = now.Add(s.claimPause)
			}
			r.reports.unsaid, r.reports.proved = false, false
			r.publish(next.Through)
			r.own.during(r.era, func() { r.own.set(px, px.ResourceVersion) })
			r.o.Metrics.write("written", "status")
			r.o.Metrics.through(r.state.Versions)
			if r.failures > 0 && r.fileFails == nil {
				r.log.Info("hub is told again")
			}
			return r.otherAgain(), nil
		case !apierrors.IsConflict(err):
			return again, r.statusFailed(err)
		}
		r.o.Metrics.write("conflict", "status")
		if px, err = r.o.Hub.GetProxy(ctx, r.o.Name); err != nil {
			return again, r.statusFailed(err)
		}
		if px.UID != s.object.UID || px.Status.Seq < s.object.Status.Seq {
			r.inbox.Doubt() // It was made anew, which the watch says, or this is another hub, or it has lost what was written.
			return again, nil
		}
		r.seen(px, now)
		if r.hubUID == "" {
			return now, nil
		}
		if s.yields(now) {
			return s.claimAt, nil
		}
	}
	return again, errors.New("writing status: conflicts do not end")
}

func (r *reporter) statusFailed(err error) error {
	if apierrors.IsNotFound(err) {
		r.inbox.Doubt() // It was deleted, which the watch says, or the hub has lost it.
	}
	return fmt.Errorf("writing status: %w", err)
}

func (r *reporter) otherAgain() time.Time {
	if r.status.other == "" {
		return time.Time{}
	}
	return r.status.otherAt.Add(othersFor + time.Second)
}

func (r *reporter) publish(t v1alpha1.Through) {
	r.published.Store(&published{t, r.status.object.Status.Seq})
}

// statusNow is what status is to say.
func (r *reporter) statusNow() v1alpha1.ProxyStatus {
	st := v1alpha1.ProxyStatus{
		Boot:        r.boot,
		HubUID:      r.hubUID,
		Version:     cut(r.o.Version, 63),
		Dataplane:   r.o.Dataplane.Name(),
		Phase:       v1alpha1.ProxyServing,
		Epoch:       r.epoch(),
		ThawedEpoch: r.inbox.Memory().Thawed,
		Through:     r.state.Versions.Through(),
		Reports:     r.reports.version,
		Held:        r.reports.heldNames(r.frozen()),
		Frontends:   int32(r.state.frontends()),
		Conditions:  slices.Clone(r.status.object.Status.Conditions),
	}
	if r.state.Era != r.era {
		st.Through = v1alpha1.Through{} // It is of another hub.
	}
	if len(st.Held) > maxHeld {
		// More than can be named: this proxy proves nothing at all.
		st.Held, st.Through = st.Held[:maxHeld], v1alpha1.Through{}
	}
	switch {
	case r.state.Leaving:
		// Nobody is to wait for it before he publishes, and nobody may take it for gone.
		st.Phase, st.Through = v1alpha1.ProxyStarting, v1alpha1.Through{}
		setReady(&st, metav1.ConditionFalse, ReasonLeaving, "it leaves: it serves nothing new, and what is open ends, or is cut")
	case r.state.Fence != nil:
		// What it is through says that it serves, which it does not.
		st.Through = v1alpha1.Through{}
		setReady(&st, metav1.ConditionFalse, ReasonFenced, fmt.Sprintf("fenced by %s (%s): it serves nothing until spec.fenced is taken out", r.state.Fence.By, r.state.Fence.Reason))
	case r.fileFails != nil:
		r.setFileFailed(&st)
	case r.status.other != "":
		setReady(&st, metav1.ConditionFalse, ReasonDuplicateName, fmt.Sprintf("another process (boot %s) reports under this name: give each proxy its own --name", r.status.other))
	case r.state.ApplyError != nil:
		setReady(&st, metav1.ConditionFalse, ReasonApplyFailed, fmt.Sprintf("the data plane takes no new configuration, and what it had runs on: %v", r.state.ApplyError))
	default:
		setReady(&st, metav1.ConditionTrue, ReasonServing, r.does())
	}
	r.setHubChanged(&st)
	return st
}

// does is what this process serves, in words.
func (r *reporter) does() string {
	switch {
	case r.state == nil:
		return "it has applied nothing yet"
	case r.state.Fence != nil:
		return "it is fenced, and serves nothing"
	case r.inbox.Frozen() != nil:
		return "it serves what it had: condition HubChanged says why"
	case !r.state.FromHub:
		return "it serves what its file says"
	}
	return "it serves what the hub says"
}

// epoch is the one to speak of.
func (r *reporter) epoch() int64 {
	if r.state != nil && r.state.Era == r.era {
		return r.state.Epoch // It belongs to what is said of a hub that changed: a manager takes both together.
	}
	return r.inbox.Memory().Epoch
}

// frozen are the namespaces of which something else is served than the hub says.
func (r *reporter) frozen() []string {
	if r.state.Frozen == nil {
		return nil
	}
	return append(r.missing(r.state.Frozen), r.state.Frozen.Namespaces...)
}

// missing are the namespaces, sorted, in which something is served against the ledger and the hub takes no report: it has them no more.
func (r *reporter) missing(f *Frozen) (out []string) {
	for ns := range f.Serves {
		if r.reports.absentIn(ns) {
			out = append(out, ns)
		}
	}
	slices.Sort(out)
	return out
}

// setHubChanged says whether the hub is the one that is served. A proxy whose hub never changed says nothing of it.
func (r *reporter) setHubChanged(st *v1alpha1.ProxyStatus) {
	c := metav1.Condition{Type: v1alpha1.ConditionHubChanged, Status: metav1.ConditionFalse, Reason: clusterv1.ReasonAsExpected, Message: "what is served is the hub's again"}
	switch now := r.inbox.Frozen(); {
	case now != nil && (r.state == nil || r.state.Frozen == nil || r.state.Era != r.era):
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, now.Reason, (&Frozen{HubChange: *now}).message(nil)
	case r.state != nil && r.state.Frozen != nil && r.state.Era == r.era:
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, r.state.Frozen.Reason, r.state.Frozen.message(r.missing(r.state.Frozen))
	case !meta.IsStatusConditionTrue(st.Conditions, v1alpha1.ConditionHubChanged):
		return
	}
	c.Message = cut(c.Message, 1024)
	meta.SetStatusCondition(&st.Conditions, c)
}

// maxHeld is what status.held can name.
const maxHeld = 1000

func setReady(st *v1alpha1.ProxyStatus, value metav1.ConditionStatus, reason, message string) {
	meta.SetStatusCondition(&st.Conditions, metav1.Condition{Type: v1alpha1.ConditionReady, Status: value, Reason: reason, Message: cut(message, 1024)})
}

func sameConditions(a, b []metav1.Condition) bool {
	return slices.EqualFunc(a, b, func(x, y metav1.Condition) bool {
		return x.Type == y.Type && x.Status == y.Status && x.Reason == y.Reason && x.Message == y.Message
	})
}

// setFileFailed says why nothing new is in a status, or nothing but how the hub has changed.
func (r *reporter) setFileFailed(st *v1alpha1.ProxyStatus) {
	does := "reports and gives up nothing new"
	if r.inbox.Frozen() != nil {
		does = "gives up nothing"
	}
	setReady(st, metav1.ConditionFalse, ReasonFileFailed, fmt.Sprintf(
		"%s; it %s, since a restart would bring back what its file has: %v; free space there, or mend what that names", r.does(), does, r.fileFails))
}

// sayFileFailed has the status say so: all but that stays as it was said.
func (r *reporter) sayFileFailed(ctx context.Context, era int) error {
	s := &r.status
	if r.hubUID == "" || era != r.era || !r.inbox.Sure() {
		return nil // Who isn't registered here has said nothing that could be taken for all.
	}
	r.lookForOthers(time.Now())
	if r.hubUID == "" || r.gone() || s.yields(time.Now()) {
		return nil
	}
	px := s.object.DeepCopy()
	px.ManagedFields = nil
	r.setFileFailed(&px.Status)
	if sameConditions(px.Status.Conditions, s.object.Status.Conditions) {
		return nil
	}
	s.seq++
	px.Status.Seq = s.seq
	px, err := r.o.Hub.UpdateProxyStatus(ctx, px)
	if err != nil {
		return r.statusFailed(err)
	}
	if !r.inbox.Wrote(era, r.hubUID, px.UID, px.Status.Seq) {
		return nil // The hub has become another since.
	}
	s.object = px
	through := px.Status.Through
	if p := r.published.Load(); p != nil {
		through = p.through // The Lease repeats it still.
	}
	r.publish(through)
	r.own.during(era, func() { r.own.set(px, px.ResourceVersion) })
	r.o.Metrics.write("written", "status")
	return nil
}
