package controller_test

import (
	"errors"
	"fmt"
	"maps"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	controlplanev1 "fairlead.dev/fairlead/api/controlplane/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	infrav1 "fairlead.dev/fairlead/api/infrastructure/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// published: the Cluster in the management cluster gets the address that the hub has granted, and a ClusterEndpoint that mirrors it.
func (m *managed) published() {
	m.t.Helper()
	m.says(clusterv1.ConditionEndpointPublished+"=True/Published", "Ready=True")
	m.shows(m.newCluster("prod", nil), addressOf(m.lb)+":6443")
	e := m.newEndpoint("prod", "prod", "", 0)
	m.surfaced(e, "True/Surfaced")
	if o := e.OwnerReferences; e.Spec.Host != addressOf(m.lb) || len(o) != 1 || o[0].UID != m.lb.UID || m.lb.Spec.Role != clusterv1.RoleControlPlane {
		m.t.Errorf("%+v of %+v", e, m.lb.Spec)
	}
}

// asks has a Cluster ask for a LoadBalancer by its annotation while the hub is away: it is made, and nobody is told an address.
// What a Cluster has stays, and is restored where an applier wiped it.
func (m *managed) asks() (late *unstructured.Unstructured) {
	m.t.Helper()
	late = m.newCluster("late", nil)
	late.SetAnnotations(map[string]string{clusterv1.ClassAnnotation: m.elsewhere.name})
	m.create(late)
	ofLate := metav1.ObjectMeta{Namespace: m.name, Name: "late", OwnerReferences: []metav1.OwnerReference{
		{APIVersion: late.GetAPIVersion(), Kind: "Cluster", Name: "late", UID: late.GetUID()},
	}}
	m.create(&controlplanev1.ExternalControlPlane{ObjectMeta: ofLate}, &infrav1.UnmanagedCluster{ObjectMeta: ofLate})
	wait(m.hub, &clusterv1.LoadBalancer{ObjectMeta: metav1.ObjectMeta{Namespace: m.name, Name: "late-api"}}, "that it isn't served yet", func(l *clusterv1.LoadBalancer) error {
		c := meta.FindStatusCondition(l.Status.Conditions, clusterv1.ConditionEndpointPublished)
		if c == nil || c.Reason != clusterv1.ReasonPending || addressOf(l) != "" {
			return fmt.Errorf("on %q it says %+v", addressOf(l), c)
		}
		return nil
	})
	m.shows(late, ":0")
	prod := m.newCluster("prod", nil)
	m.change(prod, func(o client.Object) {
		unstructured.RemoveNestedField(o.(*unstructured.Unstructured).Object, "spec", "controlPlaneEndpoint")
	})
	m.shows(prod, addressOf(m.lb)+":6443")
	return late
}

// answered: now that the hub is back, the Cluster has the endpoint; so its infrastructure is ready, and its control plane is looked for.
func (m *managed) answered(late *unstructured.Unstructured) {
	m.t.Helper()
	l := &clusterv1.LoadBalancer{ObjectMeta: metav1.ObjectMeta{Namespace: m.name, Name: "late-api"}}
	m.until("LoadBalancer late-api to be published", func(ctx ctx) error {
		if err := m.api.Get(ctx, client.ObjectKeyFromObject(l), l); err != nil {
			return err
		}
		return condition(l.Status.Conditions, clusterv1.ConditionEndpointPublished+"=True/Published")
	})
	m.shows(late, addressOf(l)+":6443")
	infra := &infrav1.UnmanagedCluster{ObjectMeta: metav1.ObjectMeta{Namespace: m.name, Name: "late"}}
	wait(m.hub, infra, "Ready", func(o *infrav1.UnmanagedCluster) error { return condition(o.Status.Conditions, "Ready=True") })
	plane := &controlplanev1.ExternalControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: m.name, Name: "late"}}
	wait(m.hub, plane, "to lack a kubeconfig", func(o *controlplanev1.ExternalControlPlane) error {
		return condition(o.Status.Conditions, "Available=False/"+controlplanev1.ReasonKubeconfigMissing)
	})
	m.delete(late) // which asked for it, and would have it made again
	m.delete(l)
	m.until("LoadBalancer late-api to be gone", func(ctx ctx) error {
		return gone(m.api.Get(ctx, client.ObjectKeyFromObject(l), l))
	})
}

// moved: a LoadBalancer that clusterctl takes to another management cluster, and deletes here, is served on in the hub, and its Machines
// stay held. Where it is made again, without its status, it has the same address, and so has its Cluster.
func (m *managed) moved() {
	m.t.Helper()
	address := addressOf(m.lb)
	again := &clusterv1.LoadBalancer{ObjectMeta: metav1.ObjectMeta{Namespace: m.lb.Namespace, Name: m.lb.Name}, Spec: m.lb.Spec}
	balancers, _, err := m.inHub(m.t.Context())
	if err != nil || len(balancers) != 1 {
		m.t.Fatalf("%+v, %v", balancers, err)
	}
	was := balancers[0].UID
	m.change(m.lb, func(o client.Object) {
		a := maps.Clone(o.GetAnnotations())
		a[clusterv1.MoveAnnotation] = ""
		o.SetAnnotations(a)
	})
	m.delete(m.lb)
	m.until("the hub's LoadBalancer to be held", func(ctx ctx) error {
		if err := gone(m.api.Get(ctx, client.ObjectKeyFromObject(m.lb), &clusterv1.LoadBalancer{})); err != nil {
			return err
		}
		balancers, _, err := m.inHub(ctx)
		if err != nil || len(balancers) != 1 || balancers[0].Annotations[v1alpha1.AnnotationHeldUntil] == "" || balancers[0].DeletionTimestamp != nil {
			return errors.Join(err, fmt.Errorf("it has %+v", balancers))
		}
		return nil
	})
	if has, err := m.hooked(m.t.Context(), m.newMachine("a3", "prod")); err != nil || !has {
		m.t.Errorf("Machine a3 isn't held: %v", err)
	}
	m.lb = again
	m.create(m.lb)
	m.states("a3=active")
	m.says("Programmed=True", "Mirrored=True", clusterv1.ConditionEndpointPublished+"=True/Published")
	if balancers, _, err = m.inHub(m.t.Context()); err != nil || len(balancers) != 1 || balancers[0].UID != was || addressOf(m.lb) != address {
		m.t.Errorf("it is at %s, and was at %s: %+v, %v", addressOf(m.lb), address, balancers, err)
	}
	m.shows(m.newCluster("prod", nil), address+":6443")
}

// gone says that an object that was looked for isn't there.
func gone(err error) error {
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return err
	}
	return errors.New("it is there")
}
