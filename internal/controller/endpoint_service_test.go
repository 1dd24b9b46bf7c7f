package controller_test

import (
	"slices"
	"strings"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// hosted is a Cluster whose control plane runs as Pods behind a Service, which its ClusterEndpoint refers to.
type hosted struct {
	*hub
	cluster  *unstructured.Unstructured
	endpoint *clusterv1.ClusterEndpoint
	service  *corev1.Service
}

// newHosted makes one, whose Service has two ports and a type.
func (h *hub) newHosted(name string, kind corev1.ServiceType) *hosted {
	h.t.Helper()
	port := intstr.FromString("api")
	out := &hosted{hub: h, cluster: h.newCluster(name, nil), endpoint: h.newEndpoint(name, name, "", 0)}
	out.endpoint.Spec.ServiceRef = &clusterv1.ServiceReference{Name: name + "-api", Port: &port}
	out.service = &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: h.name, Name: name + "-api"}, Spec: corev1.ServiceSpec{
		Type: kind, Ports: []corev1.ServicePort{{Name: "konnectivity", Port: 8132}, {Name: "api", Port: 6443}},
	}}
	h.create(out.cluster, out.endpoint, out.service)
	return out
}

// moves has whoever implements load balancers give the Service another address.
func (o *hosted) moves(address string) {
	o.t.Helper()
	o.eventually("Service "+o.service.Name+" to be at "+address, func(ctx ctx) error {
		if err := o.api.Get(ctx, client.ObjectKeyFromObject(o.service), o.service); err != nil {
			return err
		}
		o.service.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: address}}
		return o.api.Status().Update(ctx, o.service)
	})
}

// inUse has a kubeconfig made of the Cluster's endpoint.
func (o *hosted) inUse() {
	o.t.Helper()
	o.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: o.name, Name: o.cluster.GetName() + "-kubeconfig"}})
}

// touch has the Cluster looked at: a hub's Services aren't watched, and one that is reached is looked at every two minutes.
func (o *hosted) touch() {
	o.t.Helper()
	o.change(o.cluster, func(c client.Object) {
		c.SetLabels(map[string]string{"service": string(o.service.UID) + o.service.ResourceVersion})
	})
}

// says waits for the condition Surfaced, whose message has texts.
func (o *hosted) says(want string, texts ...string) {
	o.t.Helper()
	message := o.surfaced(o.endpoint, want)
	for _, text := range texts {
		if !strings.Contains(message, text) {
			o.t.Errorf("%s: %q doesn't say %q", want, message, text)
		}
	}
}

// servicesUnread makes one in a hub whose manager may not read its Service.
func (h *hub) servicesUnread() *hosted {
	h.t.Helper()
	h.change(&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "fairlead-manager"}}, func(o client.Object) {
		for i, rule := range o.(*rbacv1.ClusterRole).Rules {
			if slices.Contains(rule.Resources, "services") {
				o.(*rbacv1.ClusterRole).Rules[i].Verbs = slices.DeleteFunc(slices.Clone(rule.Verbs), func(v string) bool { return v == "get" })
			}
		}
	})
	out := h.newHosted("hosted", corev1.ServiceTypeLoadBalancer)
	out.says("False/"+clusterv1.ReasonForbidden, "Service hosted-api", "config/rbac/cluster-api")
	return out
}

// follows tells the rest, once the manager may read it: what the Service says reaches the Cluster as what somebody writes into a
// ClusterEndpoint does, and what the Cluster has stays. It returns how often each Cluster was to be written.
func (o *hosted) follows() map[string]int {
	o.t.Helper()
	o.says("False/"+clusterv1.ReasonServicePending, "Service hosted-api")
	o.shows(o.cluster, ":0")
	o.moves("192.0.2.200")
	o.says("True/"+clusterv1.ReasonSurfaced, "192.0.2.200:6443", "Service hosted-api")
	o.shows(o.cluster, "192.0.2.200:6443")
	if s := o.endpoint.Status; s.Host != "192.0.2.200" || s.Port != 6443 {
		o.t.Errorf("its status is %+v", s)
	}

	o.inUse()
	o.moves("192.0.2.201")
	o.touch()
	o.says("False/"+clusterv1.ReasonEndpointConflict, "192.0.2.200:6443", "192.0.2.201:6443")
	o.shows(o.cluster, "192.0.2.200:6443")
	o.moves("192.0.2.200")
	o.says("True/" + clusterv1.ReasonSurfaced)

	// Where it is deleted, what the Cluster has is mirrored, and restored where an applier wipes it.
	o.delete(o.service)
	o.touch()
	o.says("False/"+clusterv1.ReasonServiceNotFound, "Service hosted-api", "keeps 192.0.2.200:6443")
	o.shows(o.cluster, "192.0.2.200:6443")
	mirror := o.newEndpoint("hosted-generated", "hosted", "", 0)
	o.surfaced(mirror, "True/"+clusterv1.ReasonSurfaced)
	o.change(o.cluster, func(c client.Object) {
		unstructured.RemoveNestedField(c.(*unstructured.Unstructured).Object, "spec", "controlPlaneEndpoint")
	})
	o.shows(o.cluster, "192.0.2.200:6443")

	inside := o.newHosted("inside", corev1.ServiceTypeClusterIP)
	inside.says("True/"+clusterv1.ReasonSurfaced, "cluster IP of Service inside-api")
	inside.shows(inside.cluster, inside.service.Spec.ClusterIP+":6443")
	nodes := o.newHosted("by-nodes", corev1.ServiceTypeNodePort)
	nodes.says("False/"+clusterv1.ReasonServiceNotSupported, "NodePort", "type LoadBalancer")
	return map[string]int{"hosted": 2, "inside": 1, "by-nodes": 0}
}

// hostedHere: where the hub is elsewhere, the agent follows Services likewise.
func (m *managed) hostedHere() {
	m.t.Helper()
	o := m.newHosted("hosted", corev1.ServiceTypeLoadBalancer)
	o.says("False/"+clusterv1.ReasonServicePending, "Service hosted-api")
	o.moves("192.0.2.200")
	o.shows(o.cluster, "192.0.2.200:6443")
	o.says("True/" + clusterv1.ReasonSurfaced)
	o.inUse()
	o.moves("192.0.2.201")
	o.says("False/"+clusterv1.ReasonEndpointConflict, "192.0.2.200:6443", "192.0.2.201:6443")
	o.delete(o.service)
	o.says("False/"+clusterv1.ReasonServiceNotFound, "keeps 192.0.2.200:6443")
	o.shows(o.cluster, "192.0.2.200:6443")
	o.delete(o.cluster)
	o.delete(o.endpoint)
}
