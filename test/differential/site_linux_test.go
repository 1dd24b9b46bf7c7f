package differential_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/testkit"
	"fairlead.dev/fairlead/internal/testkit/kubetest"
	"fairlead.dev/fairlead/internal/testkit/netns"
	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
)

// soon bounds waits; it is never a claim.
const soon = time.Minute

// Ports of each Pod. What node-1's Pods call `named` is another number than at node-2's.
const (
	httpPort = 8080
	dnsPort  = 8053
)

func namedPort(node int) int { return 8080 + node }

// pods are where they run; the first letter says on which node.
var pods = map[string]int{"a1": 1, "a2": 1, "b1": 2, "b2": 2}

// zones of the nodes.
var zones = []string{"east", "west"}

// site is one cluster whose Services the worlds serve.
type site struct {
	t testing.TB
	*testkit.ControlPlane
	api    client.Client
	worlds []*world
	ips    map[string][]netip.Addr // of Pods
	hollow *netns.Namespace
}

// startSite starts the cluster with its hollow nodes, which are the first world.
func startSite(t testing.TB, n *network, swapped bool) *site {
	t.Helper()
	ctrllog.SetLogger(logr.Discard()) // else controller-runtime complains, with a stack, that nobody did
	s := &site{t: t, ips: map[string][]netip.Addr{}, hollow: n.Namespace("hollow")}
	c := n.Namespace("hollow-client")
	s.hollow.Link("eth0", c, "eth0")
	s.hollow.Address("eth0", address(node(1))+"/24", address(node(2))+"/24", address6(node(1))+"/64", address6(node(2))+"/64")
	c.Address("eth0", address(clientHost)+"/24", address6(clientHost)+"/64")
	n.whole()
	s.worlds = []*world{{name: "hollow", client: c}}
	s.ControlPlane = kubetest.Start(t, testkit.Options{
		Name: "one", DualStack: true, NodesHost: s.hollow, ControllerFlags: []string{"--node-monitor-grace-period=1h"},
	})
	n.reaches(s.hollow, s.ControlPlane)
	var err error
	if s.api, err = client.New(s.RESTConfig(), client.Options{Scheme: scheme.Scheme}); err != nil {
		t.Fatal(err)
	}
	specs := []testkit.NodeSpec{}
	for i, zone := range zones {
		at := node(i + 1)
		if swapped {
			at = node(len(zones) - i)
		}
		specs = append(specs, testkit.NodeSpec{
			Name: fmt.Sprintf("node-%d", i+1), Zone: zone, Address: netip.MustParseAddr(address(at)), Address6: netip.MustParseAddr(address6(at)),
		})
	}
	if _, err := s.StartNodes(t.Context(), specs); err != nil {
		t.Fatal(err)
	}
	s.startPods()
	return s
}

func (s *site) startPods() {
	s.t.Helper()
	for _, name := range slices.Sorted(maps.Keys(pods)) {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{"app": "web"}}}
		p.Spec.NodeName = fmt.Sprintf("node-%d", pods[name])
		p.Spec.Containers = []corev1.Container{{Name: "web", Image: "any", Ports: []corev1.ContainerPort{
			{Name: "http", ContainerPort: httpPort}, {Name: "named", ContainerPort: int32(namedPort(pods[name]))},
			{Name: "dns", ContainerPort: dnsPort, Protocol: corev1.ProtocolUDP},
		}}}
		if err := s.api.Create(s.t.Context(), p); err != nil {
			s.t.Fatal(err)
		}
	}
	for name := range pods {
		kubetest.Eventually(s.t, soon, "Pod "+name, func(ctx context.Context) error {
			p := &corev1.Pod{}
			if err := s.api.Get(ctx, client.ObjectKey{Namespace: "default", Name: name}, p); err != nil {
				return err
			}
			if len(p.Status.PodIPs) != 2 {
				return errors.New("it has no addresses of two families")
			}
			s.ips[name] = nil
			for _, ip := range p.Status.PodIPs {
				s.ips[name] = append(s.ips[name], netip.MustParseAddr(ip.IP))
			}
			return nil
		})
	}
}

// serveForReal adds the second world: each node is kube-proxy's, each Pod listens in a namespace. It returns the kube-proxies.
func (s *site) serveForReal(n *network) []*testkit.Process {
	s.t.Helper()
	c := n.host("client", clientHost)
	all := []*testkit.Process{}
	for i, m := range n.machines(len(zones)) {
		for name, node := range pods {
			if node == i+1 {
				who := testkit.Answer{Cluster: "one", Namespace: "default", Pod: name, Node: fmt.Sprintf("node-%d", node)}
				servePod(s.t, m.pods, who, s.ips[name], []int{httpPort, namedPort(node)}, []int{dnsPort})
			}
		}
		n.reaches(m.host, s.ControlPlane)
		// Every step waits for it.
		all = append(all, startKubeProxy(s.t, s.ControlPlane, testkit.KubeProxy{
			Node: fmt.Sprintf("node-%d", i+1), Host: m.host, ClusterCIDRs: podCIDRs, MinSyncPeriod: 10 * time.Millisecond,
		}))
	}
	s.worlds = append(s.worlds, &world{name: "kube-proxy", client: c})
	return all
}

// startKubeProxy starts that of a node, until the test ends.
func startKubeProxy(t testing.TB, c *testkit.ControlPlane, k testkit.KubeProxy) *testkit.Process {
	t.Helper()
	p, err := c.StartKubeProxy(t.Context(), k)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("end of the log of %s:\n%s", p.Name(), p.LogTail())
		}
		if err := p.Kill(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// slice is what a Service's slice of a family says. Each endpoint is a Pod's name and what it is: nothing (ready), "terminating" (it
// serves still), "unready", or "gone" (it terminates, and serves no more).
func (s *site) slice(service *corev1.Service, family int, endpoints []string) *discoveryv1.EndpointSlice {
	e := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{
		Namespace: service.Namespace, Name: fmt.Sprintf("%s-%d", service.Name, family), Labels: map[string]string{discoveryv1.LabelServiceName: service.Name},
	}}
	e.AddressType = []discoveryv1.AddressType{discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6}[family]
	for _, p := range service.Spec.Ports {
		target := p.TargetPort.IntVal
		e.Ports = append(e.Ports, discoveryv1.EndpointPort{Name: &p.Name, Protocol: &p.Protocol, Port: &target})
	}
	for _, text := range endpoints {
		pod, is, _ := strings.Cut(text, " ")
		ready, serving, terminating := is == "", is == "" || is == "terminating", is == "terminating" || is == "gone"
		node := fmt.Sprintf("node-%d", pods[pod])
		one := discoveryv1.Endpoint{Addresses: []string{s.ips[pod][family].String()}, NodeName: &node}
		one.Conditions = discoveryv1.EndpointConditions{Ready: &ready, Serving: &serving, Terminating: &terminating}
		if service.Spec.TrafficDistribution != nil {
			zone := zones[pods[pod]-1]
			one.Zone, one.Hints = &zone, &discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{{Name: zone}}}
		}
		e.Endpoints = append(e.Endpoints, one)
	}
	return e
}

// apply creates an object, or changes it to be as it is.
func (s *site) apply(o client.Object) error {
	o.SetResourceVersion("")
	err := s.api.Create(s.t.Context(), o)
	if client.IgnoreAlreadyExists(err) != nil || err == nil {
		return err
	}
	return s.api.Update(s.t.Context(), o)
}
