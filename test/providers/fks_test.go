package providers_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/examples/fks-provider/api/controlplane"
	"fairlead.dev/fairlead/examples/fks-provider/api/infrastructure"
	"fairlead.dev/fairlead/internal/testkit"
	"fairlead.dev/fairlead/internal/testkit/kubetest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// world is a namespace with a Cluster and what it refers to. Its test plays Cluster API's part.
type world struct {
	*hub
	t       *testing.T
	cluster *unstructured.Unstructured
	infra   *infrastructure.FKSCluster
	plane   *controlplane.FKSControlPlane
}

// newWorld makes a Cluster with a control plane, and infrastructure if infra isn't nil, and nobody's yet.
func (h *hub) newWorld(t *testing.T, name string, infra *infrastructure.FKSClusterSpec, plane controlplane.FKSControlPlaneSpec) *world {
	t.Helper()
	h.namespace(t, name)
	in := metav1.ObjectMeta{Namespace: name, Name: "my-cluster"}
	plane.Version = "v1.36.1"
	w := &world{hub: h, t: t, plane: &controlplane.FKSControlPlane{ObjectMeta: in, Spec: plane}}
	spec := map[string]any{"controlPlaneRef": map[string]any{"apiGroup": controlplane.GroupVersion.Group, "kind": "FKSControlPlane", "name": in.Name}}
	if infra != nil {
		w.infra = &infrastructure.FKSCluster{ObjectMeta: in, Spec: *infra}
		spec["infrastructureRef"] = map[string]any{"apiGroup": infrastructure.GroupVersion.Group, "kind": "FKSCluster", "name": in.Name}
		h.create(t, w.infra)
	}
	w.cluster = &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	w.cluster.SetAPIVersion("cluster.x-k8s.io/v1beta2")
	w.cluster.SetKind("Cluster")
	w.cluster.SetNamespace(name)
	w.cluster.SetName(in.Name)
	h.create(t, w.cluster, w.plane)
	return w
}

// owns makes the Cluster the owner of an object, as Cluster API does with what it refers to.
func (w *world) owns(o client.Object) {
	w.t.Helper()
	change(w.t, w.hub, o, func(o client.Object) {
		o.SetLabels(map[string]string{clusterv1.ClusterNameLabel: w.cluster.GetName()})
		o.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "cluster.x-k8s.io/v1beta2", Kind: "Cluster", Name: w.cluster.GetName(), UID: w.cluster.GetUID()}})
	})
}

// provisioned says on the Cluster that its infrastructure is, as Cluster API does.
func (w *world) provisioned() {
	w.t.Helper()
	kubetest.Eventually(w.t, patience, "the Cluster's status", func(ctx context.Context) error {
		if err := w.api.Get(ctx, client.ObjectKeyFromObject(w.cluster), w.cluster); err != nil {
			return err
		}
		if err := unstructured.SetNestedField(w.cluster.Object, true, "status", "initialization", "infrastructureProvisioned"); err != nil {
			return err
		}
		return w.api.Status().Update(ctx, w.cluster)
	})
}

func (w *world) waits(reason string) {
	w.t.Helper()
	wait(w.t, w.hub, w.plane, "to be "+reason, func(o *controlplane.FKSControlPlane) error {
		return is(o.Status.Conditions, controlplane.ConditionAvailable, metav1.ConditionFalse, reason)
	})
	if w.plane.Spec.ID != "" || w.plane.Status.Ready || w.plane.Status.Initialization != nil {
		w.t.Fatalf("it is %s, and was made: %+v", reason, w.plane)
	}
}

// available waits until provisioning is complete, as both contracts say it.
func (w *world) available() {
	w.t.Helper()
	wait(w.t, w.hub, w.plane, "to be available", func(o *controlplane.FKSControlPlane) error {
		if s := o.Status; !s.Ready || s.Initialization == nil || !s.Initialization.ControlPlaneInitialized || !s.ExternalManagedControlPlane || s.Version != o.Spec.Version {
			return fmt.Errorf("its status is %+v", s)
		}
		return is(o.Status.Conditions, controlplane.ConditionAvailable, metav1.ConditionTrue, controlplane.ReasonAvailable)
	})
}

// endpoints are the ClusterEndpoints of the Cluster.
func (w *world) endpoints() []clusterv1.ClusterEndpoint {
	w.t.Helper()
	all := &clusterv1.ClusterEndpointList{}
	if err := w.api.List(w.t.Context(), all, client.InNamespace(w.cluster.GetNamespace())); err != nil {
		w.t.Fatal(err)
	}
	return all.Items
}

// published: there is one ClusterEndpoint, with the Cluster's label and that owner, and it surfaces on the Cluster.
func (w *world) published(kind string, owner client.Object) {
	w.t.Helper()
	all := w.endpoints()
	if len(all) != 1 {
		w.t.Fatalf("there are %d ClusterEndpoints: %+v", len(all), all)
	}
	e := &all[0]
	o := e.OwnerReferences
	if e.Labels[clusterv1.ClusterNameLabel] != w.cluster.GetName() || len(o) != 1 || o[0].Kind != kind || o[0].UID != owner.GetUID() || e.Spec.Cluster != w.cluster.GetName() {
		w.t.Errorf("the ClusterEndpoint is %+v", e)
	}
	wait(w.t, w.hub, w.cluster, "to have the endpoint", func(c *unstructured.Unstructured) error {
		host, _, err := unstructured.NestedString(c.Object, "spec", "controlPlaneEndpoint", "host")
		port, _, err2 := unstructured.NestedInt64(c.Object, "spec", "controlPlaneEndpoint", "port")
		if host != e.Spec.Host || port != int64(e.Spec.Port) {
			return errors.Join(err, err2, fmt.Errorf("it has %s:%d, and the ClusterEndpoint %s:%d", host, port, e.Spec.Host, e.Spec.Port))
		}
		return nil
	})
}

// answers: what Cluster API finds in the Secret leads to the control plane.
func (w *world) answers(version string) (kubeconfig string) {
	w.t.Helper()
	kubetest.Eventually(w.t, patience, "the control plane to answer with "+version, func(ctx context.Context) error {
		s := &corev1.Secret{}
		if err := w.api.Get(ctx, client.ObjectKey{Namespace: w.cluster.GetNamespace(), Name: w.cluster.GetName() + "-kubeconfig"}, s); err != nil {
			return err
		}
		if s.Type != "cluster.x-k8s.io/secret" || s.Labels[clusterv1.ClusterNameLabel] != w.cluster.GetName() {
			return fmt.Errorf("the Secret is of type %s, with labels %v", s.Type, s.Labels)
		}
		kubeconfig = string(s.Data["value"])
		cfg, err := clientcmd.RESTConfigFromKubeConfig(s.Data["value"])
		if err != nil {
			return err
		}
		c, err := kubernetes.NewForConfig(cfg)
		if err != nil {
			return err
		}
		v, err := c.Discovery().ServerVersion()
		if err != nil {
			return err
		}
		ns, err := c.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
		if err != nil {
			return err
		}
		nodes, err := c.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		if v.GitVersion != version || string(ns.UID) != w.plane.Spec.ID || len(nodes.Items) != 0 {
			return fmt.Errorf("it is %s of version %s, with %d Nodes", ns.UID, v.GitVersion, len(nodes.Items))
		}
		return nil
	})
	return kubeconfig
}

// entire: no FKSCluster, and the control plane waits for no endpoint. It outlasts the provider's process, a change of version and a pause.
func entire(t *testing.T, h *hub, service *testkit.Process) {
	w := h.newWorld(t, "scenario-1", nil, controlplane.FKSControlPlaneSpec{})
	w.waits(controlplane.ReasonWaitingForCluster)
	w.owns(w.plane)
	w.available()
	w.published("FKSControlPlane", w.plane)
	before := w.answers("v1.36.1")
	if err := errors.Join(service.Kill(), service.Start()); err != nil {
		t.Fatal(err)
	}
	if after := w.answers("v1.36.1"); after != before {
		t.Errorf("the kubeconfig was\n%s\nand is\n%s", before, after)
	}
	change(t, h, w.plane, func(o *controlplane.FKSControlPlane) { o.Spec.Version = "v1.37.0" })
	w.available()
	w.answers("v1.37.0")
	change(t, h, w.cluster, func(c *unstructured.Unstructured) {
		if err := unstructured.SetNestedField(c.Object, true, "spec", "paused"); err != nil {
			t.Error(err)
		}
	})
	wait(t, h, w.plane, "to be paused", func(o *controlplane.FKSControlPlane) error {
		return is(o.Status.Conditions, controlplane.ConditionPaused, metav1.ConditionTrue, controlplane.ReasonPaused)
	})
	if err := h.api.Delete(t.Context(), w.plane); err != nil {
		t.Fatal(err)
	}
	w.answers("v1.37.0")
	change(t, h, w.cluster, func(c *unstructured.Unstructured) { unstructured.RemoveNestedField(c.Object, "spec", "paused") })
	h.gone(t, w.plane)
}

// subset: the control plane waits for the infrastructure and not for an endpoint, which is its own to make.
func subset(t *testing.T, h *hub, _ *testkit.Process) {
	w := h.newWorld(t, "scenario-2", &infrastructure.FKSClusterSpec{Bastion: &infrastructure.Piece{}}, controlplane.FKSControlPlaneSpec{})
	w.owns(w.plane)
	w.waits(controlplane.ReasonWaitingForInfrastructure)
	w.owns(w.infra)
	w.isProvisioned()
	if w.infra.Status.Bastion == "" || w.infra.Spec.Bastion.ID == "" {
		t.Errorf("it has no bastion: %+v", w.infra)
	}
	if all := w.endpoints(); len(all) != 0 {
		t.Errorf("the FKSCluster made a ClusterEndpoint: %+v", all)
	}
	w.waits(controlplane.ReasonWaitingForInfrastructure) // as Cluster API hasn't said it yet
	w.provisioned()
	w.available()
	w.published("FKSControlPlane", w.plane)
	w.answers("v1.36.1")
	w.end()
}

func (w *world) isProvisioned() {
	w.t.Helper()
	wait(w.t, w.hub, w.infra, "to be provisioned", func(o *infrastructure.FKSCluster) error {
		if s := o.Status; !s.Ready || s.Initialization == nil || !s.Initialization.Provisioned {
			return fmt.Errorf("its status is %+v", s)
		}
		return is(o.Status.Conditions, infrastructure.ConditionReady, metav1.ConditionTrue, infrastructure.ReasonReady)
	})
}

// end deletes in Cluster API's order.
func (w *world) end() {
	w.t.Helper()
	for _, o := range []client.Object{w.plane, w.infra, w.cluster} {
		if err := w.api.Delete(w.t.Context(), o); err != nil {
			w.t.Fatal(err)
		}
		w.gone(w.t, o)
	}
}

// noEndpoint: the control plane waits for the infrastructure, then for the endpoint that the InfraCluster makes, and listens there.
func noEndpoint(t *testing.T, h *hub, _ *testkit.Process) {
	w := h.newWorld(t, "scenario-3", &infrastructure.FKSClusterSpec{Endpoint: &infrastructure.Piece{}}, controlplane.FKSControlPlaneSpec{EndpointFrom: controlplane.FromCluster})
	w.owns(w.plane)
	w.waits(controlplane.ReasonWaitingForInfrastructure)
	w.provisioned() // by somebody's word, while there is no endpoint
	w.waits(controlplane.ReasonWaitingForEndpoint)
	w.owns(w.infra)
	w.isProvisioned()
	w.available()
	w.published("FKSCluster", w.infra)
	if e := w.endpoints()[0].Spec; *w.plane.Status.Endpoint != (clusterv1.Endpoint{Host: e.Host, Port: e.Port}) {
		t.Errorf("the control plane is at %v, and the endpoint %s:%d", w.plane.Status.Endpoint, e.Host, e.Port)
	}
	w.answers("v1.36.1")
	w.end()
}
