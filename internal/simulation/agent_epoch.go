package simulation

import (
	"strconv"
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// tenantName is that of the only Tenant, and of its namespace; the other namespace is the hub operator's own.
const tenantName = "blue"

// stepEpoch notes the hub's epoch once a live look finds all as it should be. False: nothing was to be done.
func (a *agent) stepEpoch() bool {
	if a.tenant == nil || a.tenant.Status.HubEpoch <= a.noted {
		return false
	}
	epoch := a.tenant.Status.HubEpoch
	if !a.allThere() {
		return false
	}
	key := types.NamespacedName{Namespace: a.namespace, Name: v1alpha1.AgentLease}
	l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	o, err := a.link.get(leases, key)
	switch {
	case err == nil:
		l = o.(*coordinationv1.Lease).DeepCopy()
	case !apierrors.IsNotFound(err):
		return true
	}
	missing := err != nil
	now := metav1.NowMicro()
	l.Spec.RenewTime = &now
	l.Annotations = map[string]string{v1alpha1.AnnotationEpoch: strconv.FormatInt(epoch, 10)}
	if missing {
		_, err = a.link.create(l)
	} else {
		_, err = a.link.update(l)
	}
	if err == nil {
		a.noted = epoch
		a.w.trace("the agent of %s notes epoch %d", a.namespace, epoch)
	}
	return true
}

// lookEvery is how often an agent looks live who the hub is, and at its Tenant.
const lookEvery = 10 * time.Second

// look does so when it is time. What its watches say may be another history's.
func (a *agent) look() {
	if time.Now().Before(a.lookAt) || a.namespace != tenantName {
		return
	}
	uid, err := a.link.uid()
	if err != nil {
		return
	}
	o, err := a.link.get(tenants, types.NamespacedName{Name: a.namespace})
	if err != nil {
		return
	}
	a.tenant, a.lookAt = o.(*v1alpha1.Tenant), time.Now().Add(lookEvery)
	switch {
	case a.hub != uid:
		a.hub, a.noted, a.relisted = uid, 0, 0
		a.link.anew()
	case a.lived != a.w.incarnation: // Its Lease isn't as it wrote it: it goes by what is there, as one that starts.
		a.noted = a.said()
		a.link.anew()
	}
	a.lived = a.w.incarnation
}

// said is the epoch that its Lease says in the present hub; 0: none.
func (a *agent) said() int64 {
	l, ok := a.w.server.objects[leases][types.NamespacedName{Namespace: a.namespace, Name: v1alpha1.AgentLease}].(*coordinationv1.Lease)
	if !ok {
		return 0
	}
	n, err := strconv.ParseInt(l.Annotations[v1alpha1.AnnotationEpoch], 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// relists begins anew, with all lists, when the hub begins an epoch.
func (a *agent) relists() bool {
	if a.tenant == nil || a.tenant.Status.HubEpoch <= max(a.noted, a.relisted) {
		return false
	}
	a.relisted = a.tenant.Status.HubEpoch
	a.link.anew()
	return true
}

// allThere looks live.
func (a *agent) allThere() bool {
	for _, name := range sortedNames(a.services) {
		key := types.NamespacedName{Namespace: a.namespace, Name: name}
		o, err := a.link.get(loadBalancers, key)
		if err != nil || o.GetDeletionTimestamp() == nil && !a.alike(lbOf(o), a.services[name]) {
			return false
		}
	}
	o, err := a.link.get(targetGroups, types.NamespacedName{Namespace: a.namespace, Name: groupName})
	return err == nil && equality.Semantic.DeepEqual(o.(*v1alpha1.TargetGroup).Spec, a.group().Spec)
}
