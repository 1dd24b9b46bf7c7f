package simulation

import (
	"encoding/json"
	"slices"
	"strconv"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// statusNow is what its status is to say.
func (h *host) statusNow() v1alpha1.ProxyStatus {
	t := h.told.wanted
	next := v1alpha1.ProxyStatus{
		Boot: h.boot, Seq: h.object.Status.Seq, HubUID: h.object.Status.HubUID, Phase: v1alpha1.ProxyServing, Through: t.Versions.Through(),
		Epoch: t.Epoch, ThawedEpoch: h.view.Inbox.Memory().Thawed, Held: h.heldNames(), Frontends: int32(len(t.Program.Listeners)),
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
	case h.meet(have):
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
