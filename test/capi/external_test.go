package capi_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"

	controlplanev1 "fairlead.dev/fairlead/api/controlplane/v1beta1"
	"fairlead.dev/fairlead/internal/testkit/kubetest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	capiv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// externalControlPlane has Cluster API take a control plane that it didn't make, which is the hub's own, and make what a worker joins it with.
func externalControlPlane(h *hub) {
	const namespace, name = "external", "elsewhere"
	kubeconfig, err := os.ReadFile(h.Kubeconfig())
	if err != nil {
		h.t.Fatal(err)
	}
	labels := map[string]string{capiv1.ClusterNameLabel: name}
	meta := metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels}
	at := h.APIServerAddress()
	cluster := &capiv1.Cluster{ObjectMeta: meta, Spec: capiv1.ClusterSpec{ControlPlaneRef: capiv1.ContractVersionedObjectReference{
		APIGroup: controlplanev1.GroupVersion.Group, Kind: "ExternalControlPlane", Name: name,
	}}}
	cert, key, err := serving(nil, at.Addr().String())
	if err != nil {
		h.t.Fatal(err)
	}
	authority := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name + "-ca", Labels: labels},
		Type:       capiv1.ClusterSecretType, Data: map[string][]byte{"tls.crt": cert, "tls.key": key},
	}
	h.create(
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}},
		&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name + "-kubeconfig", Labels: labels},
			Type:       capiv1.ClusterSecretType, Data: map[string][]byte{"value": kubeconfig},
		},
		cluster,
		&controlplanev1.ExternalControlPlane{ObjectMeta: meta, Spec: controlplanev1.ExternalControlPlaneSpec{
			ControlPlaneEndpoint: &controlplanev1.APIEndpoint{Host: at.Addr().String(), Port: int32(at.Port())},
		}},
	)
	wait(h.t, h.api, cluster, soon, "initialized and available", func(c *capiv1.Cluster) error {
		e := c.Spec.ControlPlaneEndpoint
		if got := net.JoinHostPort(e.Host, strconv.Itoa(int(e.Port))); got != at.String() {
			return fmt.Errorf("its endpoint is %s", got)
		}
		if i := c.Status.Initialization; !ptr.Deref(i.InfrastructureProvisioned, false) || !ptr.Deref(i.ControlPlaneInitialized, false) {
			return fmt.Errorf("its initialization is %+v", i)
		}
		return isTrue(c.Status.Conditions, capiv1.ClusterControlPlaneAvailableCondition)
	})
	worker := &capiv1.Machine{ObjectMeta: meta, Spec: capiv1.MachineSpec{
		ClusterName: name, Version: "v1.34.0",
		Bootstrap: capiv1.Bootstrap{ConfigRef: capiv1.ContractVersionedObjectReference{
			APIGroup: bootstrapv1.GroupVersion.Group, Kind: "KubeadmConfig", Name: name,
		}},
		InfrastructureRef: capiv1.ContractVersionedObjectReference{APIGroup: "infrastructure.cluster.x-k8s.io", Kind: "DevMachine", Name: "not-there"},
	}}
	config := &bootstrapv1.KubeadmConfig{ObjectMeta: meta, Spec: bootstrapv1.KubeadmConfigSpec{JoinConfiguration: bootstrapv1.JoinConfiguration{
		NodeRegistration: bootstrapv1.NodeRegistrationOptions{CRISocket: "unix:///run/containerd/containerd.sock"},
	}}}
	h.create(authority, config, worker)
	wait(h.t, h.api, config, patience, "what a worker joins with", func(c *bootstrapv1.KubeadmConfig) error {
		if !ptr.Deref(c.Status.Initialization.DataSecretCreated, false) {
			return fmt.Errorf("there is none: %v", whatIsWrong(c.Status.Conditions))
		}
		return nil
	})
	h.deleteCluster(cluster)
}

// deleteCluster deletes a Cluster, and waits until Cluster API has.
func (h *hub) deleteCluster(cluster *capiv1.Cluster) {
	h.t.Helper()
	if err := h.api.Delete(h.t.Context(), cluster); err != nil {
		h.t.Fatal(err)
	}
	kubetest.Eventually(h.t, patience, nameOf(cluster)+" to be gone", func(ctx context.Context) error {
		if err := h.api.Get(ctx, client.ObjectKeyFromObject(cluster), cluster); err != nil {
			return client.IgnoreNotFound(err)
		}
		return fmt.Errorf("it is there: %v", whatIsWrong(cluster.Status.Conditions))
	})
}
