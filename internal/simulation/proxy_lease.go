package simulation

import (
	"strconv"
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// renew renews the Lease when it is time, or a manager asks.
func (h *host) renew() bool {
	asked := ""
	if h.own != nil {
		asked = h.own.Annotations[v1alpha1.AnnotationAsked]
	}
	now, due := time.Now(), h.renewAt
	if soon := h.renewed.Add(askedEvery); asked != h.answered && soon.Before(due) {
		due = soon
	}
	if !h.up || h.fenced || h.link.cut || !h.registered || now.Before(due) {
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
	l.Spec.RenewTime = &metav1.MicroTime{Time: now}
	l.Annotations = map[string]string{v1alpha1.AnnotationBoot: h.boot, v1alpha1.AnnotationThrough: h.published, v1alpha1.AnnotationSeq: strconv.FormatInt(h.seq, 10)}
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
			h.lease, h.renewed, h.renewAt = o.(*coordinationv1.Lease), time.Now(), time.Now().Add(leaseEvery)
			if asked != h.answered {
				h.w.trace("%s answers a manager's question", h.name)
				h.answered = asked
			}
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
