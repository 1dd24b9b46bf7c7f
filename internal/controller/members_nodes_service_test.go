package controller_test

import (
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/internal/member"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// nodesByService: a Service of the hub sends to its Nodes while they are ready. One that leaves is listed until its connections had their time.
func nodesByService(h *hub) {
	f := &fleetOf{hub: h, lb: h.overNodes(h.name)}
	f.lb.Spec.DrainTimeout = &metav1.Duration{Duration: time.Hour}
	h.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: h.name}}, h.newServiceClass("ClusterIP"), f.lb)
	one, two := f.node("s1"), f.node("s2")
	f.states("s1=active", "s2=active")
	f.endpoints("api", "10.0.1.1 ready serving", "10.0.1.2 ready serving")

	ready := func(status corev1.ConditionStatus) {
		f.eventually("Node s1 to be ready: "+string(status), func(ctx ctx) error {
			if err := f.api.Get(ctx, client.ObjectKeyFromObject(one), one); err != nil {
				return err
			}
			one.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status}}
			return f.api.Status().Update(ctx, one)
		})
	}
	ready(corev1.ConditionUnknown) // its kubelet is silent
	f.states("s1=unhealthy", "s2=active")
	f.endpoints("api", "10.0.1.1", "10.0.1.2 ready serving")
	ready(corev1.ConditionTrue)
	f.states("s1=active", "s2=active")

	f.changed(one, func(n *corev1.Node) { n.Annotations[clusterv1.DisabledAnnotation] = "" })
	f.states("s1=disabling", "s2=active")
	f.endpoints("api", "10.0.1.1 serving terminating", "10.0.1.2 ready serving")
	f.drainFor(time.Second)
	f.states("s1=disabled", "s2=active")
	f.changed(one, func(n *corev1.Node) { delete(n.Annotations, clusterv1.DisabledAnnotation) })
	f.states("s1=active", "s2=active")

	f.drainFor(time.Hour)
	f.delete(one)
	f.places("s1=Draining", "s2=Serving")
	f.endpoints("api", "10.0.1.1 serving terminating", "10.0.1.2 ready serving")
	f.drainFor(time.Second)
	f.places("s2=Serving")
	f.noted(two, h.name+"/api="+string(member.Active))
	h.delete(f.lb)
	h.gone(f.lb)
	f.noted(two, "")
	h.delete(two)
}
