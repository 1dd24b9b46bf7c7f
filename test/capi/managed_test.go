package capi_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strconv"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/examples/fks-provider/api/controlplane"
	"fairlead.dev/fairlead/examples/fks-provider/api/infrastructure"
	fksconfig "fairlead.dev/fairlead/examples/fks-provider/config"
	"fairlead.dev/fairlead/internal/testkit"
	"fairlead.dev/fairlead/internal/testkit/kubetest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	capiv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// managedControlPlanes has Cluster API make Clusters whose control planes fks-provider's cloud runs: the proposal's three scenarios, and a
// Cluster of the examples' ClusterClass, which has no infrastructure.
func managedControlPlanes(h *hub) {
	const namespace = "managed"
	if err := testkit.Create(h.t.Context(), h.RESTConfig(), fksconfig.Manifests); err != nil {
		h.t.Fatal(err)
	}
	kubetest.StartProcess(h.t, testkit.Command{Name: "fks-provider", Path: build(h.t, "examples/fks-provider"), Args: []string{
		"--kubeconfig=" + h.account("fks-provider-system", "fks-provider"), "--addresses=127.81.0.0/24", "--file=" + filepath.Join(h.t.TempDir(), "fks.json"),
	}})
	h.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	names := []string{"entire", "subset", "endpoint", "of-a-class"}
	h.create(fks("FKSControlPlane", namespace, "entire", map[string]any{"version": next}), managedCluster(namespace, "entire", ""))
	h.create(
		fks("FKSControlPlane", namespace, "subset", map[string]any{"version": next}),
		fks("FKSCluster", namespace, "subset", map[string]any{"bastion": map[string]any{}}),
		managedCluster(namespace, "subset", "FKSCluster"),
	)
	h.create(
		fks("FKSControlPlane", namespace, "endpoint", map[string]any{"version": next, "endpointFrom": "Cluster"}),
		fks("FKSCluster", namespace, "endpoint", map[string]any{"endpoint": map[string]any{}}),
		managedCluster(namespace, "endpoint", "FKSCluster"),
	)
	for _, o := range documents(h, filepath.Join(root(h.t), "examples", "cluster-api", "unmanaged.yaml")) {
		u := &unstructured.Unstructured{Object: o}
		u.SetNamespace(namespace)
		h.create(u)
	}
	for _, name := range names {
		c := &capiv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		wait(h.t, h.api, c, patience, "available at its endpoint", func(c *capiv1.Cluster) error { return h.available(c) })
	}
	for _, name := range names {
		h.deleteCluster(&capiv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}})
	}
	kubetest.Eventually(h.t, soon, "nothing to be left", func(ctx context.Context) error {
		left := &clusterv1.ClusterEndpointList{}
		if err := h.api.List(ctx, left, client.InNamespace(namespace)); err != nil {
			return err
		}
		if n := len(left.Items); n > 0 {
			return fmt.Errorf("there are %d ClusterEndpoints", n)
		}
		return nil
	})
}

// available is an error unless Cluster API has found a Cluster's control plane, at the endpoint that its one ClusterEndpoint says, and
// reaches it.
func (h *hub) available(c *capiv1.Cluster) error {
	if i := c.Status.Initialization; !ptr.Deref(i.InfrastructureProvisioned, false) || !ptr.Deref(i.ControlPlaneInitialized, false) {
		return fmt.Errorf("its initialization is %+v: %v", i, whatIsWrong(c.Status.Conditions))
	}
	all := &clusterv1.ClusterEndpointList{}
	if err := h.api.List(h.t.Context(), all, client.InNamespace(c.Namespace), client.MatchingLabels{capiv1.ClusterNameLabel: c.Name}); err != nil {
		return err
	}
	e := c.Spec.ControlPlaneEndpoint
	if len(all.Items) != 1 || all.Items[0].Spec.Host != e.Host || all.Items[0].Spec.Port != e.Port {
		return fmt.Errorf("it has %s, and its ClusterEndpoints are %+v", net.JoinHostPort(e.Host, strconv.Itoa(int(e.Port))), all.Items)
	}
	return errors.Join(isTrue(c.Status.Conditions, capiv1.ClusterControlPlaneAvailableCondition), isTrue(c.Status.Conditions, capiv1.ClusterRemoteConnectionProbeCondition))
}

// managedCluster is a Cluster with an FKSControlPlane of its name, and with infrastructure of a kind, if any.
func managedCluster(namespace, name, infra string) *capiv1.Cluster {
	c := &capiv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: capiv1.ClusterSpec{
		ControlPlaneRef: capiv1.ContractVersionedObjectReference{APIGroup: controlplane.GroupVersion.Group, Kind: "FKSControlPlane", Name: name},
	}}
	if infra != "" {
		c.Spec.InfrastructureRef = capiv1.ContractVersionedObjectReference{APIGroup: infrastructure.GroupVersion.Group, Kind: infra, Name: name}
	}
	return c
}

// fks is an object of fks-provider's.
func fks(kind, namespace, name string, spec map[string]any) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	group := map[string]schema.GroupVersion{"FKSControlPlane": controlplane.GroupVersion, "FKSCluster": infrastructure.GroupVersion}[kind]
	o.SetGroupVersionKind(group.WithKind(kind))
	o.SetNamespace(namespace)
	o.SetName(name)
	return o
}
