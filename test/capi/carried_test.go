package capi_test

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/examples/foo-provider/api"
	"fairlead.dev/fairlead/internal/member"
	"fairlead.dev/fairlead/internal/testkit/kubetest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	capiv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// carried are load balancers over the Machines of a Cluster, which serve clients while clusterctl moves it to another hub: one by a proxy,
// and one by foo-provider.
type carried struct {
	t         testing.TB
	machines  []*capiv1.Machine
	balancers []*balancer
}

// balancer is one of them, as it was before the move.
type balancer struct {
	*clusterv1.LoadBalancer
	at      netip.AddrPort
	outside string // what foo-provider has for it in its cloud; "": nothing
	visitor *visitor
}

// carry makes Machines of a Cluster and load balancers over them, and waits until each Machine answers by each. Both hubs get what their
// operators provide: a pool, classes, foo-provider.
func (h *hub) carry(cluster *capiv1.Cluster, to *hub) *carried {
	h.t.Helper()
	c := &carried{t: h.t}
	h.uid(cluster)
	startFooCloud(h.t)
	for _, x := range []*hub{h, to} {
		x.operators(cluster.Namespace, "127.79.50.0/24", dataPlanes[0])
		x.startFooProvider()
		x.create(&v1alpha1.LoadBalancerClass{ObjectMeta: metav1.ObjectMeta{Name: foo.name}, Spec: foo.serve(x, foo.name)})
	}
	kubetest.StartProcess(h.t, h.proxy(dataPlanes[0]))
	machines := []netip.Addr{netip.MustParseAddr("127.77.50.10"), netip.MustParseAddr("127.77.50.11")}
	names := []string{machines[0].String(), machines[1].String()}
	for _, class := range []string{cluster.Namespace, foo.name} {
		b := &balancer{LoadBalancer: overWorkers(cluster, class)}
		h.create(b.LoadBalancer)
		b.at = h.served(b.LoadBalancer)
		c.balancers, names = append(c.balancers, b), append(names, b.at.Addr().String())
	}
	cert, key, err := serving(nil, names...)
	if err != nil {
		h.t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		h.t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(cert)
	behind := startAnswering(h.t)
	for i, address := range machines {
		c.machines = append(c.machines, h.worker(cluster, fmt.Sprintf("worker-%d", i), address))
		f, err := startFront(c.machines[i].Name, netip.AddrPortFrom(address, apiServerPort), behind, pair)
		if err != nil {
			h.t.Fatal(err)
		}
		h.t.Cleanup(f.crash)
	}
	for _, b := range c.balancers {
		c.has(h, b)
		b.outside = h.outside(b.LoadBalancer)
		b.visitor = startVisitor(h.t, "https://"+b.at.String(), &tls.Config{RootCAs: roots})
		b.visitor.watchedMember()
	}
	if c.balancers[1].outside == "" {
		h.t.Fatal("foo-provider has made nothing")
	}
	c.visited()
	return c
}

// overWorkers is a load balancer over all Machines of a Cluster, of a class.
func overWorkers(cluster *capiv1.Cluster, class string) *clusterv1.LoadBalancer {
	l := overHeldMembers(cluster.Namespace)
	l.Name, l.Spec.ClassName, l.Spec.ClusterName, l.Spec.Role = "workers-"+class, class, cluster.Name, clusterv1.RoleWorkload
	l.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{capiv1.ClusterNameLabel: cluster.Name}}
	return l
}

// worker makes a Machine of a Cluster, and says of it what Cluster API's controllers would.
func (h *hub) worker(cluster *capiv1.Cluster, name string, at netip.Addr) *capiv1.Machine {
	h.t.Helper()
	m := &capiv1.Machine{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: cluster.Namespace, Name: name, Labels: map[string]string{capiv1.ClusterNameLabel: cluster.Name},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: capiv1.GroupVersion.String(), Kind: "Cluster", Name: cluster.Name, UID: cluster.UID}},
		},
		Spec: capiv1.MachineSpec{
			ClusterName: cluster.Name, Bootstrap: capiv1.Bootstrap{DataSecretName: ptr.To("none")},
			InfrastructureRef: capiv1.ContractVersionedObjectReference{APIGroup: "infrastructure.cluster.x-k8s.io", Kind: "DevMachine", Name: name},
		},
	}
	h.create(m)
	h.runs(m, capiv1.MachineStatus{
		NodeRef:   capiv1.MachineNodeReference{Name: name},
		Addresses: capiv1.MachineAddresses{{Type: capiv1.MachineInternalIP, Address: at.String()}},
	})
	return m
}

// runs gives a Machine its status.
func (h *hub) runs(m *capiv1.Machine, s capiv1.MachineStatus) {
	h.t.Helper()
	change(h, m, h.api.Status().Patch, func() { m.Status = s })
}

// startAnswering starts what an API server of each Machine answers with, as far as visitors ask.
func startAnswering(t testing.TB) netip.AddrPort {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("/api", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "{}") })
	ends := make(chan struct{})
	mux.HandleFunc("/api/v1/nodes", func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush() // a watch begins, in which nothing happens
		select {
		case <-r.Context().Done():
		case <-ends:
		}
	})
	s := httptest.NewTLSServer(mux)
	t.Cleanup(func() {
		close(ends)
		s.Close()
	})
	return netip.MustParseAddrPort(s.Listener.Addr().String())
}

// has waits until a load balancer serves where it did, and sends to all Machines, which it holds.
func (c *carried) has(h *hub, b *balancer) {
	c.t.Helper()
	l := &clusterv1.LoadBalancer{ObjectMeta: metav1.ObjectMeta{Namespace: b.Namespace, Name: b.Name}}
	wait(c.t, h.api, l, soon, "to send to all Machines, as before", func(l *clusterv1.LoadBalancer) error {
		if s := l.Status; len(s.Addresses) != 1 || s.Addresses[0].Value != b.at.Addr().String() || len(s.ActiveTargets) != len(c.machines) {
			return fmt.Errorf("its status is %+v", s)
		}
		for _, m := range c.machines {
			has := &capiv1.Machine{}
			if err := h.api.Get(c.t.Context(), client.ObjectKeyFromObject(m), has); err != nil {
				return err
			}
			if !member.Hooked(has.Annotations, l.Name) {
				return fmt.Errorf("Machine %s isn't held: %v", m.Name, has.Annotations)
			}
		}
		return nil
	})
}

// outside is the ID of what foo-provider has in its cloud for a load balancer; "": it has no object.
func (h *hub) outside(l *clusterv1.LoadBalancer) string {
	h.t.Helper()
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(api.GroupVersion.WithKind("FooLoadBalancer"))
	err := h.api.Get(h.t.Context(), client.ObjectKeyFromObject(l), o)
	if client.IgnoreNotFound(err) != nil {
		h.t.Fatal(err)
	}
	id, _, err := unstructured.NestedString(o.Object, "spec", "id")
	if err != nil {
		h.t.Fatal(err)
	}
	return id
}

// visited has all load balancers be visited some more.
func (c *carried) visited() {
	c.t.Helper()
	for _, b := range c.balancers {
		b.visitor.more(quiet)
	}
}

// are holds the other hub to the move: once Machines are known there, and the proxy follows, all is as it was, and no client has lost
// anything. What the first hub had is gone, and nothing outside with it.
func (c *carried) are(from, to *hub) {
	c.t.Helper()
	c.visited()
	for _, m := range c.machines {
		there := &capiv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: m.Namespace, Name: m.Name}}
		wait(c.t, to.api, there, soon, "to have moved", func(*capiv1.Machine) error { return nil })
		to.runs(there, m.Status)
	}
	kubetest.StartProcess(c.t, to.proxy(dataPlanes[0]))
	for _, b := range c.balancers {
		c.has(to, b)
		if id := to.outside(b.LoadBalancer); id != b.outside {
			c.t.Errorf("outside it has %q, and had %q", id, b.outside)
		}
		if id := from.outside(b.LoadBalancer); id != "" {
			c.t.Errorf("the first hub still has %s", id)
		}
	}
	c.visited()
	for _, b := range c.balancers {
		b.visitor.leave()
		c.t.Logf("%s, moved by clusterctl: %s", b.Name, b.visitor)
		if n := b.visitor.failed(); n > 0 {
			c.t.Errorf("%d requests to %s were lost", n, b.Name)
		}
		if n := b.visitor.ended("cut") + b.visitor.ended("ended"); n > 0 {
			c.t.Errorf("%d watches by %s ended", n, b.Name)
		}
	}
}
