package capi_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/netip"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	kcpv1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	capiv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// apiServerPort is that of each Machine's API server, and of load balancers of them.
	apiServerPort = 6443
	// firstMachine is the last number of the first Machine's address.
	firstMachine = 10
	// again is when the cloud tries again what failed.
	again = 100 * time.Millisecond
)

// cloud does for the control plane Machines of a namespace what the in-memory infrastructure leaves out: each gets an address, and a front
// there while its API server lives. That dies as a real one does: it falls silent as soon as its member of etcd is removed, or its
// infrastructure goes, and refuses when that is gone.
type cloud struct {
	hub       *hub
	namespace string
	machines  netip.Prefix
	reader    client.Reader
	wake      chan struct{}
	// leave has it look after nothing any more. API servers run on.
	leave context.CancelFunc
	// observe is called after each look at the Machines.
	observe func(context.Context, []capiv1.Machine) error

	mu        sync.Mutex
	addresses map[string]netip.Addr // by Machine; none is given twice
	fronts    map[string]*front     // of Machines that are there
}

// startCloud begins to look after the Machines of a namespace, for as long as the hub is there. observe may be nil.
func (h *hub) startCloud(namespace string, machines netip.Prefix, observe func(context.Context, []capiv1.Machine) error) *cloud {
	h.t.Helper()
	t := h.life
	c := &cloud{
		hub: h.in(t), namespace: namespace, machines: machines, wake: make(chan struct{}, 1), observe: observe,
		addresses: map[string]netip.Addr{}, fronts: map[string]*front{},
	}
	objects, err := cache.New(h.RESTConfig(), cache.Options{Scheme: h.scheme, DefaultNamespaces: map[string]cache.Config{namespace: {}}})
	if err != nil {
		h.t.Fatal(err)
	}
	c.reader = objects
	ctx, cancel := context.WithCancel(t.Context())
	c.leave = cancel
	all := sync.WaitGroup{}
	all.Go(func() {
		if err := objects.Start(ctx); err != nil {
			t.Errorf("reading the Machines of %s: %v", namespace, err)
		}
	})
	t.Cleanup(func() {
		cancel()
		all.Wait()
		for _, f := range c.fronts {
			f.crash()
		}
	})
	for _, o := range []client.Object{&capiv1.Machine{}, infra("DevMachine", "", ""), infra("DevCluster", "", "")} {
		informer, err := objects.GetInformer(ctx, o)
		if err == nil {
			_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
				AddFunc: func(any) { c.look() }, UpdateFunc: func(_, _ any) { c.look() }, DeleteFunc: func(any) { c.look() },
			})
		}
		if err != nil {
			h.t.Fatal(err)
		}
	}
	all.Go(func() { c.run(ctx) })
	return c
}

// front is that of a Machine.
func (c *cloud) front(machine string) (*front, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f := c.fronts[machine]; f != nil {
		return f, nil
	}
	return nil, fmt.Errorf("Machine %s has no API server", machine)
}

// start has a Machine's API server start anew, with all its connections lost.
func (c *cloud) start(machine string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f := c.fronts[machine]; f != nil {
		f.crash()
		delete(c.fronts, machine)
	}
	c.look()
}

// infra is an object of the infrastructure provider's.
func infra(kind, namespace, name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetAPIVersion("infrastructure.cluster.x-k8s.io/v1beta2")
	u.SetKind(kind)
	u.SetNamespace(namespace)
	u.SetName(name)
	return u
}

// look has run look at all Machines.
func (c *cloud) look() {
	select {
	case c.wake <- struct{}{}:
	default: // it will
	}
}

func (c *cloud) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.wake:
		}
		if err := c.lookAfter(ctx); err != nil && ctx.Err() == nil {
			time.AfterFunc(again, c.look)
		}
	}
}

func (c *cloud) lookAfter(ctx context.Context) error {
	list := &capiv1.MachineList{}
	if err := c.reader.List(ctx, list, client.InNamespace(c.namespace), client.HasLabels{capiv1.MachineControlPlaneLabel}); err != nil {
		return err
	}
	there := map[string]bool{}
	var failed error
	for i := range list.Items {
		m := &list.Items[i]
		there[m.Name] = true
		if err := c.machine(ctx, m); err != nil {
			failed = fmt.Errorf("Machine %s: %w", m.Name, err)
		}
	}
	c.mu.Lock()
	for name, f := range c.fronts {
		if !there[name] {
			f.crash()
			delete(c.fronts, name)
		}
	}
	c.mu.Unlock()
	if failed == nil && c.observe != nil {
		failed = c.observe(ctx, list.Items)
	}
	return failed
}

func (c *cloud) machine(ctx context.Context, m *capiv1.Machine) error {
	dev := infra("DevMachine", m.Namespace, m.Spec.InfrastructureRef.Name)
	if err := c.reader.Get(ctx, client.ObjectKeyFromObject(dev), dev); client.IgnoreNotFound(err) != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.fronts[m.Name]
	switch {
	case m.DeletionTimestamp != nil && dev.GetUID() == "":
		if f != nil {
			f.crash()
		}
		return nil
	case dies(m, dev):
		if f != nil {
			f.hang()
		}
		return nil
	case dev.GetUID() == "":
		return nil // it comes
	}
	address, given := c.addresses[m.Name]
	if !given {
		address = c.machines.Addr()
		for range firstMachine + len(c.addresses) {
			address = address.Next()
		}
		c.addresses[m.Name] = address
	}
	if has, _, _ := unstructured.NestedSlice(dev.Object, "status", "addresses"); len(has) == 0 {
		if err := c.giveAddress(ctx, dev, address); err != nil {
			return err
		}
	}
	if f != nil || !is(dev, "APIServerProvisioned") && (len(c.fronts) == 0 || !is(dev, "NodeProvisioned")) {
		return nil
	}
	f, err := c.startFront(ctx, m, netip.AddrPortFrom(address, apiServerPort))
	if err == nil {
		c.fronts[m.Name] = f
	}
	return err
}

// dies says that a Machine's API server does: its member of etcd is removed, when the control plane's own hook has gone, or its
// infrastructure is.
func dies(m *capiv1.Machine, dev *unstructured.Unstructured) bool {
	_, inEtcd := m.Annotations[kcpv1.PreTerminateHookCleanupAnnotation]
	return m.DeletionTimestamp != nil && (!inEtcd || dev.GetDeletionTimestamp() != nil)
}

func (c *cloud) giveAddress(ctx context.Context, dev *unstructured.Unstructured, address netip.Addr) error {
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"addresses": []capiv1.MachineAddress{
		{Type: capiv1.MachineInternalIP, Address: address.String()},
	}}})
	if err != nil {
		return err
	}
	return c.hub.api.Status().Patch(ctx, infra(dev.GetKind(), dev.GetNamespace(), dev.GetName()), client.RawPatch(types.MergePatchType, patch))
}

// is says whether a condition is true. A Machine's API server runs from APIServerProvisioned on, but the in-memory infrastructure says before
// that its Pod is ready. So a Machine that isn't the first gets its front a second sooner, with its Node: what answers behind it runs then.
func is(dev *unstructured.Unstructured, condition string) bool {
	conditions, _, _ := unstructured.NestedSlice(dev.Object, "status", "conditions")
	for _, c := range conditions {
		if c, ok := c.(map[string]any); ok && c["type"] == condition {
			return c["status"] == "True"
		}
	}
	return false
}

// startFront starts the front of a Machine, with a certificate of its cluster's authority for its own address and the endpoint's.
func (c *cloud) startFront(ctx context.Context, m *capiv1.Machine, at netip.AddrPort) (*front, error) {
	cluster, ca, dev := &capiv1.Cluster{}, &corev1.Secret{}, infra("DevCluster", m.Namespace, m.Spec.ClusterName)
	if err := c.hub.api.Get(ctx, client.ObjectKey{Namespace: m.Namespace, Name: m.Spec.ClusterName}, cluster); err != nil {
		return nil, err
	}
	if err := c.hub.api.Get(ctx, client.ObjectKey{Namespace: m.Namespace, Name: m.Spec.ClusterName + "-ca"}, ca); err != nil {
		return nil, err
	}
	if err := c.hub.api.Get(ctx, client.ObjectKeyFromObject(dev), dev); err != nil {
		return nil, err
	}
	port, found, err := unstructured.NestedInt64(dev.Object, "spec", "controlPlaneEndpoint", "port")
	if err != nil || !found {
		return nil, fmt.Errorf("DevCluster %s doesn't say where its API servers are (%w)", dev.GetName(), err)
	}
	authority, err := tls.X509KeyPair(ca.Data["tls.crt"], ca.Data["tls.key"])
	if err != nil {
		return nil, err
	}
	cert, key, err := serving(&authority, at.Addr().String(), cluster.Spec.ControlPlaneEndpoint.Host)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, err
	}
	return startFront(m.Name, at, netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), uint16(port)), pair)
}
