package capi_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	_ "embed"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"testing"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/internal/testkit/kubetest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"
	kcpv1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	capiv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// clusterName is the Cluster's of testdata/cluster.yaml, and of all that belongs to it.
	clusterName = "prod"
	// next is the version that a control plane is rolled out to. No byte of it runs.
	next = "v1.34.1"
	// patience is how long Cluster API may take for a Machine or for all: about 20 s each while nothing else runs.
	patience = 6 * time.Minute
)

//go:embed testdata/cluster.yaml
var clusterYAML []byte

// cluster is a Cluster of Cluster API whose control plane is behind a load balancer of ours.
type cluster struct {
	t         testing.TB
	hub       *hub
	cloud     *cloud
	namespace string
	endpoint  netip.AddrPort
	// loadBalancer is that of its control plane.
	loadBalancer *clusterv1.LoadBalancer
	members
	// published is how long after its load balancer was served its endpoint was there, where that publishes it.
	published time.Duration
}

// startCluster makes a Cluster with one control plane Machine, behind a load balancer, and waits until Cluster API reaches it there.
func (h *hub) startCluster(machines netip.Prefix, l *clusterv1.LoadBalancer, m members, observe func(context.Context, []capiv1.Machine) error) *cluster {
	h.t.Helper()
	began := time.Now()
	c := &cluster{t: h.t, hub: h, namespace: l.Namespace, loadBalancer: l, members: m}
	c.cloud = h.startCloud(l.Namespace, machines, observe)
	seen := h.watch(l.Namespace)
	h.create(l)
	c.endpoint = h.served(l)
	objects, err := parse(clusterYAML)
	if err != nil {
		h.t.Fatal(err)
	}
	for _, o := range objects {
		u := &unstructured.Unstructured{Object: o}
		u.SetNamespace(c.namespace)
		h.create(u)
	}
	c.publish()
	if m != written {
		kubetest.Eventually(h.t, soon, "the endpoint of "+l.Namespace+" to be seen", func(context.Context) error { return seen.has(1) })
		c.published = seen.delays()[0]
		h.t.Logf("%s: endpoint published %s after its load balancer was served", c.namespace, c.published.Round(time.Millisecond))
		if *all && c.published > promptly {
			h.t.Errorf("its endpoint was published %s after its load balancer was served", c.published)
		}
	}
	c.settle(1)
	h.t.Logf("%s: one member after %s", c.namespace, time.Since(began).Round(time.Second))
	return c
}

// in is the same cluster in a test of its own.
func (c *cluster) in(t testing.TB) *cluster {
	same := *c
	same.t, same.hub = t, c.hub.in(t)
	return &same
}

// publish says where the Cluster's control plane is, unless its load balancer does, waits until the Cluster says so too, and lets the
// infrastructure go on.
func (c *cluster) publish() {
	c.t.Helper()
	if c.members == written {
		c.hub.create(&clusterv1.ClusterEndpoint{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: clusterName}, Spec: clusterv1.ClusterEndpointSpec{
			Cluster: clusterName, Host: c.endpoint.Addr().String(), Port: int32(c.endpoint.Port()), Type: clusterv1.ClusterEndpointExternalControlPlane,
		}})
	}
	wait(c.t, c.hub.api, c.object(), soon, "endpoint "+c.endpoint.String(), func(o *capiv1.Cluster) error {
		e := o.Spec.ControlPlaneEndpoint
		if got := net.JoinHostPort(e.Host, strconv.Itoa(int(e.Port))); got != c.endpoint.String() {
			return fmt.Errorf("it has %s", got)
		}
		return nil
	})
	patch := []byte(`{"metadata":{"annotations":{"` + capiv1.PausedAnnotation + `":null}}}`)
	if err := c.hub.api.Patch(c.t.Context(), infra("DevCluster", c.namespace, clusterName), client.RawPatch(types.MergePatchType, patch)); err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) object() *capiv1.Cluster {
	return &capiv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: clusterName}}
}

func (c *cluster) controlPlane() *kcpv1.KubeadmControlPlane {
	return &kcpv1.KubeadmControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: clusterName}}
}

// settle waits until the control plane is as it is wanted, with that many members, all available, and none besides.
func (c *cluster) settle(replicas int32) {
	c.t.Helper()
	wait(c.t, c.hub.api, c.controlPlane(), patience, fmt.Sprintf("%d members", replicas), func(p *kcpv1.KubeadmControlPlane) error {
		if p.Status.ObservedGeneration != p.Generation {
			return fmt.Errorf("its controller has seen generation %d, not %d", p.Status.ObservedGeneration, p.Generation)
		}
		s := p.Status
		all, current, available := ptr.Deref(s.Replicas, 0), ptr.Deref(s.UpToDateReplicas, 0), ptr.Deref(s.AvailableReplicas, 0)
		if all != replicas || current != replicas || available != replicas {
			return fmt.Errorf("of %d members %d are up to date, and %d available: %v", all, current, available, whatIsWrong(s.Conditions))
		}
		if has := len(c.machines()); has != int(replicas) { // the control plane may not count one that is about to be gone
			return fmt.Errorf("there are %d Machines", has)
		}
		return nil
	})
}

// whatIsWrong are the messages of conditions.
func whatIsWrong(conditions []metav1.Condition) (all []string) {
	for _, c := range conditions {
		if c.Message != "" {
			all = append(all, fmt.Sprintf("%s=%s %s", c.Type, c.Status, c.Message))
		}
	}
	return all
}

// scale has the control plane have that many members, and waits until it has.
func (c *cluster) scale(replicas int32) {
	c.t.Helper()
	c.change(fmt.Sprintf(`{"spec":{"replicas":%d}}`, replicas), replicas)
}

// rollOut has each member replaced by one of another version, and waits until they are.
func (c *cluster) rollOut(version string, replicas int32) {
	c.t.Helper()
	c.change(fmt.Sprintf(`{"spec":{"version":%q}}`, version), replicas)
}

func (c *cluster) change(patch string, replicas int32) {
	c.t.Helper()
	began := time.Now()
	if err := c.hub.api.Patch(c.t.Context(), c.controlPlane(), client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		c.t.Fatal(err)
	}
	c.settle(replicas)
	c.t.Logf("%s: %s after %s", c.namespace, patch, time.Since(began).Round(time.Second))
}

// machines are the Machines that there are.
func (c *cluster) machines() []capiv1.Machine {
	c.t.Helper()
	list := &capiv1.MachineList{}
	kubetest.Eventually(c.t, soon, "the Machines of "+c.namespace, func(ctx context.Context) error {
		return c.hub.api.List(ctx, list, client.InNamespace(c.namespace))
	})
	return list.Items
}

func (c *cluster) machine(name string) *capiv1.Machine {
	c.t.Helper()
	m := &capiv1.Machine{}
	if err := c.hub.api.Get(c.t.Context(), client.ObjectKey{Namespace: c.namespace, Name: name}, m); err != nil {
		c.t.Fatal(err)
	}
	return m
}

// front is the API server of a Machine.
func (c *cluster) front(machine string) *front {
	c.t.Helper()
	f, err := c.cloud.front(machine)
	if err != nil {
		c.t.Fatal(err)
	}
	return f
}

// healthCheck has Cluster API replace control plane Machines that somebody marks.
func (c *cluster) healthCheck() *capiv1.MachineHealthCheck {
	return &capiv1.MachineHealthCheck{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: clusterName},
		Spec: capiv1.MachineHealthCheckSpec{ClusterName: clusterName, Selector: metav1.LabelSelector{
			MatchLabels: map[string]string{capiv1.MachineControlPlaneLabel: ""},
		}},
	}
}

// replaced waits until a Machine is gone, and the control plane has that many members again.
func (c *cluster) replaced(m *capiv1.Machine, replicas int32) {
	c.t.Helper()
	c.gone(m)
	c.settle(replicas)
}

// gone waits until a Machine is.
func (c *cluster) gone(m *capiv1.Machine) {
	c.t.Helper()
	kubetest.Eventually(c.t, patience, nameOf(m)+" to be gone", func(ctx context.Context) error {
		has := &capiv1.Machine{}
		err := c.hub.api.Get(ctx, client.ObjectKeyFromObject(m), has)
		if err == nil && has.UID == m.UID {
			return fmt.Errorf("it is there: %v", whatIsWrong(has.Status.Conditions))
		}
		return client.IgnoreNotFound(err)
	})
}

// patch changes a Machine.
func (c *cluster) patch(m *capiv1.Machine, patch string) {
	c.t.Helper()
	if err := c.hub.api.Patch(c.t.Context(), m, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		c.t.Fatal(err)
	}
}

// visited begins to visit the control plane, as its kubeconfig says how.
func (c *cluster) visited() *visitor {
	c.t.Helper()
	secret := &corev1.Secret{}
	if err := c.hub.api.Get(c.t.Context(), client.ObjectKey{Namespace: c.namespace, Name: clusterName + "-kubeconfig"}, secret); err != nil {
		c.t.Fatal(err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(secret.Data["value"])
	if err != nil {
		c.t.Fatal(err)
	}
	if want := "https://" + c.endpoint.String(); config.Host != want {
		c.t.Fatalf("the kubeconfig leads to %s, not by the load balancer at %s", config.Host, want)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(config.CAData) {
		c.t.Fatal("the kubeconfig has no certificate authority")
	}
	return startVisitor(c.t, config.Host, &tls.Config{RootCAs: roots})
}

// delete deletes the Cluster, and waits until nothing of it is left.
func (c *cluster) delete() {
	c.t.Helper()
	began := time.Now()
	if err := c.hub.api.Delete(c.t.Context(), c.object()); err != nil {
		c.t.Fatal(err)
	}
	kubetest.Eventually(c.t, patience, "Cluster "+c.namespace+"/"+clusterName+" to be gone", func(ctx context.Context) error {
		err := c.hub.api.Get(ctx, client.ObjectKeyFromObject(c.object()), c.object())
		if err == nil {
			return fmt.Errorf("it is there, with %d Machines", len(c.machines()))
		}
		return client.IgnoreNotFound(err)
	})
	c.t.Logf("%s: deleted after %s", c.namespace, time.Since(began).Round(time.Second))
}
