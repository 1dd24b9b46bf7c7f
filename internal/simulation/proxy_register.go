package simulation

import (
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/proxy"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

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
	h.hears()
}

// hears notes that it has asked the present hub who that is.
func (h *host) hears() {
	if h.asked != h.w.incarnation {
		h.before, h.asked = h.asked, h.w.incarnation
	}
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
		if !h.view.Inbox.Same(a) {
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
	px.Status = v1alpha1.ProxyStatus{Boot: h.boot, Seq: h.top, HubUID: uid, Phase: v1alpha1.ProxyStarting, Epoch: h.view.Inbox.Memory().Epoch, ThawedEpoch: h.view.Inbox.Memory().Thawed}
	if h.w.has(ThroughKept) && h.told != nil {
		px.Status.Through = h.told.wanted.Versions.Through()
	}
	h.sayHubChanged(&px.Status)
	if o, err = h.link.update(px); err != nil {
		return
	}
	h.object, h.registered, h.reread, h.spoken = o.(*v1alpha1.Proxy), true, true, h.era
	h.hears()
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
