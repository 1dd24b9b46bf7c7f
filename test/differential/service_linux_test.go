package differential_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/testkit"
	"fairlead.dev/fairlead/internal/testkit/kubetest"
	"fairlead.dev/fairlead/internal/testkit/netns"
	"fairlead.dev/fairlead/internal/traffic"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// rate of requests a second, and connections held open, while something happens.
	rate = 20
	held = 8
)

// services is some of class `service` between real parts.
type services struct {
	t           *testing.T
	hub, tenant *cluster
	all         []*front
	leaves      *testkit.Process // kube-proxy of node-2
}

// front is one of them, as its clients have it.
type front struct {
	*corev1.Service // in the tenant's cluster
	// clients are where its addresses can be reached from; the first one's traffic is judged.
	clients   []*netns.Namespace
	in        []netip.Prefix // of its addresses, each of a family
	addresses []netip.AddrPort
}

// TestClassServiceBetweenRealKubeProxies: a client's traffic goes by the addresses that MetalLB gave to the hub's Service, and that
// of a hub's Pod by a Service's ClusterIPs, through the hub's kube-proxy, to the tenant's nodes, and by their kube-proxies to Pods. A node
// leaves, and nobody notices.
func TestClassServiceBetweenRealKubeProxies(t *testing.T) {
	n := newNetwork(t)
	machines := n.machines(2)
	gateway, outside := n.host("hub-1", gatewayHost), n.host("client", clientHost)
	inside := n.hubPod(gateway, machines)
	for i, via := range []string{address(gatewayHost), address6(gatewayHost)} {
		outside.Route(served[i].String(), via)
	}
	n.whole()

	s := &services{t: t, hub: startCluster(t, "hub"), tenant: startCluster(t, "tenant")}
	s.hub.node("hub-1", gatewayHost)
	n.reaches(gateway, s.hub.ControlPlane)
	startKubeProxy(t, s.hub.ControlPlane, testkit.KubeProxy{Node: "hub-1", Host: gateway, ClusterCIDRs: hubPodCIDRs})
	for i, m := range machines {
		name := fmt.Sprintf("node-%d", i+1)
		s.tenant.node(name, node(i+1))
		n.reaches(m.host, s.tenant.ControlPlane)
		s.leaves = startKubeProxy(t, s.tenant.ControlPlane, testkit.KubeProxy{Node: name, Host: m.host, ClusterCIDRs: podCIDRs})
		who := testkit.Answer{Cluster: "tenant", Namespace: "default", Pod: fmt.Sprintf("web-%d", i+1), Node: name}
		servePod(t, m.pods, who, []netip.Addr{podAddress(i+1, 0), podAddress(i+1, 1)}, []int{httpPort}, nil)
	}
	startMetalLB(t, n, s.hub)
	startFairlead(t, s.hub, s.tenant)
	s.publish("public", "hub", served, outside)
	s.publish("inside", "inside", []netip.Prefix{clusterIPs[1], clusterIPs[0]}, inside, gateway)
	s.publish("six", "inside", clusterIPs[1:], inside, gateway)
	s.await()
	s.endpoints("node-1 ready serving", "node-2 ready serving")
	s.ask("both nodes are used", everyWay...)

	s.undisturbed("a port more", s.addPort)
	s.undisturbed("a node that is not ready", func() {
		s.setReady("node-2", corev1.ConditionFalse)
		s.endpoints("node-1 ready serving", "node-2")
		s.ask("the node that is ready is used", "web-1 by node-1", "web-2 by node-1")
		s.setReady("node-2", corev1.ConditionTrue)
		s.endpoints("node-1 ready serving", "node-2 ready serving")
		s.ask("both nodes are used again", everyWay...)
	})
	s.cut(n, "node-2")
	s.undisturbed("a node that leaves", s.remove)

	for _, f := range s.all {
		if err := s.tenant.api.Delete(t.Context(), f.Service); err != nil {
			t.Fatal(err)
		}
	}
	kubetest.Eventually(t, soon, "the hub's Services to go", func(ctx context.Context) error {
		list := &corev1.ServiceList{}
		err := s.hub.api.List(ctx, list, client.InNamespace(tenantName))
		if err == nil && len(list.Items) > 0 {
			err = fmt.Errorf("%s is there", list.Items[0].Name)
		}
		return err
	})
}

// podAddress is that of a node's Pod, of the family of podCIDRs.
func podAddress(node, family int) netip.Addr {
	return netip.MustParseAddr([]string{fmt.Sprintf("10.244.%d.1", node), fmt.Sprintf("fd00:10:244:%d::1", node)}[family])
}

// hubPod is a Pod of the hub's, behind its node, to which the tenant's machines know the way back.
func (n *network) hubPod(gateway *netns.Namespace, machines []machine) *netns.Namespace {
	n.t.Helper()
	pod := n.Namespace("hub-pod")
	gateway.Link("pods", pod, "eth0")
	gateway.Address("pods", "10.245.1.1/24", "fd00:10:245:1::1/64")
	pod.Address("eth0", "10.245.1.2/24", "fd00:10:245:1::2/64")
	pod.Route("0.0.0.0/0", "10.245.1.1")
	pod.Route("::/0", "fd00:10:245:1::1")
	forward(gateway)
	for i, via := range []string{address(gatewayHost), address6(gatewayHost)} {
		for _, m := range machines {
			m.host.Route(hubPodCIDRs[i].String(), via)
		}
	}
	// A node has some way to everywhere, or it can't begin to send; kube-proxy turns packets elsewhere then.
	gateway.Route("0.0.0.0/0", address(clientHost))
	gateway.Route("::/0", address6(clientHost))
	return pod
}

// publish makes a Service of the tenant's, of a class, that is to have an address in each of these, in their order.
func (s *services) publish(name, class string, in []netip.Prefix, clients ...*netns.Namespace) {
	s.t.Helper()
	class, policy := "fairlead.dev/"+class, corev1.IPFamilyPolicySingleStack
	if len(in) == 2 {
		policy = corev1.IPFamilyPolicyRequireDualStack
	}
	f := &front{clients: clients, in: in, Service: &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: corev1.ServiceSpec{
		Type: corev1.ServiceTypeLoadBalancer, LoadBalancerClass: &class, IPFamilyPolicy: &policy,
		Ports: []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromInt32(httpPort), Protocol: corev1.ProtocolTCP}},
	}}}
	for _, p := range in {
		f.Spec.IPFamilies = append(f.Spec.IPFamilies, corev1.IPFamily(familyOf(p)))
	}
	s.tenant.create(f.Service)
	for _, slice := range f.pods(1, 2) {
		s.tenant.create(slice)
	}
	s.all = append(s.all, f)
}

func familyOf(p netip.Prefix) discoveryv1.AddressType {
	if p.Addr().Is4() {
		return discoveryv1.AddressTypeIPv4
	}
	return discoveryv1.AddressTypeIPv6
}

// await waits until each has its addresses.
func (s *services) await() {
	s.t.Helper()
	for _, f := range s.all {
		kubetest.Eventually(s.t, soon, "the addresses of "+f.Name, func(ctx context.Context) error {
			if err := s.tenant.api.Get(ctx, client.ObjectKeyFromObject(f.Service), f.Service); err != nil {
				return err
			}
			ingress := f.Status.LoadBalancer.Ingress
			if len(ingress) != len(f.in) {
				return fmt.Errorf("it has %v: %v", ingress, meta.FindStatusCondition(f.Status.Conditions, "fairlead.dev/Programmed"))
			}
			f.addresses = nil
			for i, in := range f.in {
				ip, err := netip.ParseAddr(ingress[i].IP)
				if err != nil || !in.Contains(ip) {
					return fmt.Errorf("address %d is %s (%v), want one of %s", i, ip, err, in)
				}
				f.addresses = append(f.addresses, netip.AddrPortFrom(ip, 80))
			}
			return nil
		})
	}
}

// pods are the slices of the Pods of these nodes.
func (f *front) pods(nodes ...int) (out []*discoveryv1.EndpointSlice) {
	ports := []discoveryv1.EndpointPort{}
	for _, p := range f.Spec.Ports {
		ports = append(ports, discoveryv1.EndpointPort{Name: &p.Name, Protocol: &p.Protocol, Port: &p.TargetPort.IntVal})
	}
	for family, cidr := range podCIDRs {
		e := &discoveryv1.EndpointSlice{
			ObjectMeta:  metav1.ObjectMeta{Namespace: f.Namespace, Name: fmt.Sprintf("%s-%d", f.Name, family), Labels: map[string]string{discoveryv1.LabelServiceName: f.Name}},
			AddressType: familyOf(cidr), Ports: ports,
		}
		for _, n := range nodes {
			node := fmt.Sprintf("node-%d", n)
			e.Endpoints = append(e.Endpoints, discoveryv1.Endpoint{Addresses: []string{podAddress(n, family).String()}, NodeName: &node})
		}
		out = append(out, e)
	}
	return out
}

// endpoints waits until the hub's EndpointSlices say this of each Service and family.
func (s *services) endpoints(want ...string) {
	s.t.Helper()
	families := 0
	for _, f := range s.all {
		families += len(f.in)
	}
	kubetest.Eventually(s.t, soon, "the hub's endpoints", func(ctx context.Context) error {
		list := &discoveryv1.EndpointSliceList{}
		if err := s.hub.api.List(ctx, list, client.InNamespace(tenantName)); err != nil {
			return err
		}
		got := map[string][]string{}
		for _, slice := range list.Items {
			of := slice.Labels[discoveryv1.LabelServiceName] + " " + string(slice.AddressType)
			for _, e := range slice.Endpoints {
				text := nodeAt[e.Addresses[0]]
				for _, c := range []struct {
					is   *bool
					name string
				}{{e.Conditions.Ready, " ready"}, {e.Conditions.Serving, " serving"}, {e.Conditions.Terminating, " terminating"}} {
					if c.is != nil && *c.is {
						text += c.name
					}
				}
				got[of] = append(got[of], text)
			}
		}
		for of, those := range got {
			if slices.Sort(those); !slices.Equal(those, want) {
				return fmt.Errorf("%s: %q, want %q", of, those, want)
			}
		}
		if len(got) != families {
			return fmt.Errorf("endpoints of %d families, want %d", len(got), families)
		}
		return nil
	})
}

// everyWay is each Pod by each node.
var everyWay = []string{"web-1 by node-1", "web-1 by node-2", "web-2 by node-1", "web-2 by node-2"}

// nodeAt are the tenant's nodes, by the addresses that the hub and that Pods see.
var nodeAt = map[string]string{
	address(node(1)): "node-1", address6(node(1)): "node-1", "10.99.1.1": "node-1", "fd00:99:1::1": "node-1",
	address(node(2)): "node-2", address6(node(2)): "node-2", "10.99.2.1": "node-2", "fd00:99:2::1": "node-2",
}

// ask waits until these answer at each address, each Pod by the node whose address it saw, and nobody else.
func (s *services) ask(what string, want ...string) {
	s.t.Helper()
	for _, f := range s.all {
		for _, to := range f.addresses {
			for _, from := range f.clients {
				s.at(fmt.Sprintf("%s: %s from %s: %s", f.Name, to, from.Name(), what), &world{name: from.Name(), client: from}, to, want)
			}
		}
	}
}

// at waits until these answer at one address.
func (s *services) at(what string, from *world, to netip.AddrPort, want []string) {
	s.t.Helper()
	kubetest.Eventually(s.t, soon, what, func(ctx context.Context) error {
		got := []string{}
		for range 2 * asks {
			who := from.get(ctx, to, func(a testkit.Answer) string {
				host, _, err := net.SplitHostPort(a.Client)
				if err != nil {
					return err.Error()
				}
				return a.Pod + " by " + nodeAt[host]
			})
			if !slices.Contains(got, who) {
				got = append(got, who)
			}
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			return fmt.Errorf("%q, want %q", got, want)
		}
		return nil
	})
}

// undisturbed has clients ask all the while, and hold connections: none may notice.
func (s *services) undisturbed(what string, event func()) {
	s.t.Helper()
	for _, report := range s.judge(what, func(*traffic.Generator) { event() }) {
		if why := report.Verdict(); why != "" {
			s.t.Error(why)
		}
	}
}

// judge measures what clients of each address notice of an event.
func (s *services) judge(what string, event func(*traffic.Generator)) []traffic.Report {
	s.t.Helper()
	g := traffic.NewGenerator()
	defer g.Stop()
	for _, f := range s.all {
		dial := func(ctx context.Context, network, address string) (net.Conn, error) {
			return f.clients[0].Dial(ctx, net.Dialer{}, network, address)
		}
		for _, to := range f.addresses {
			g.Add(s.t.Context(), traffic.Service{Name: fmt.Sprintf("%s, %s at %s", what, f.Name, to), Rate: rate, Held: held, Ways: []traffic.Way{{Name: "hub-1", Address: to, Dial: dial}}})
		}
	}
	reports, err := g.Around(s.t.Context(), func(context.Context) error {
		event(g)
		return nil
	})
	if err != nil {
		s.t.Fatal(err)
	}
	for _, r := range reports {
		s.t.Log(r.String())
	}
	return reports
}

// cut loses a node's packets for a while, of which the hub knows nothing: clients notice, or the judge sees nothing at all.
func (s *services) cut(n *network, node string) {
	s.t.Helper()
	var from, to time.Time
	reports := s.judge("a node that is cut off", func(g *traffic.Generator) {
		from = time.Now().Add(-traffic.Timeout) // what is under way then fails too
		n.fabric.Down(node)
		n.whole()
		kubetest.Eventually(s.t, soon, "a request to each address to fail", func(context.Context) error {
			for _, c := range g.Counts() {
				if c.Failed == 0 {
					return fmt.Errorf("none of %s did", c.Service)
				}
			}
			return nil
		})
		n.fabric.Up(node)
		n.whole()
		s.ask("both nodes are used once more", everyWay...)
		to = time.Now()
	})
	for _, report := range reports {
		if why := report.OnlyBetween(from, to); why != "" {
			s.t.Error(why)
		}
	}
}

// addPort gives each Service one more port.
func (s *services) addPort() {
	s.t.Helper()
	const more = 81
	for _, f := range s.all {
		kubetest.Eventually(s.t, soon, "changing "+f.Name, func(ctx context.Context) error {
			if err := s.tenant.api.Get(ctx, client.ObjectKeyFromObject(f.Service), f.Service); err != nil {
				return err
			}
			f.Spec.Ports = append(f.Spec.Ports, corev1.ServicePort{Name: "more", Port: more, TargetPort: intstr.FromInt32(httpPort), Protocol: corev1.ProtocolTCP})
			return s.tenant.api.Update(ctx, f.Service)
		})
		for _, slice := range f.pods(1, 2) {
			if err := s.tenant.api.Update(s.t.Context(), slice); err != nil {
				s.t.Fatal(err)
			}
		}
	}
	for _, f := range s.all {
		from := &world{name: f.clients[0].Name(), client: f.clients[0]}
		for _, a := range f.addresses {
			s.at(f.Name+"'s other port", from, netip.AddrPortFrom(a.Addr(), more), everyWay)
		}
	}
}

// remove takes node-2 out as the cluster autoscaler does: its taint first, then its Pods, then the Node.
func (s *services) remove() {
	s.t.Helper()
	s.change("node-2", func(n *corev1.Node) error {
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "ToBeDeletedByClusterAutoscaler", Effect: corev1.TaintEffectNoSchedule})
		return s.tenant.api.Update(s.t.Context(), n)
	})
	s.endpoints("node-1 ready serving", "node-2 serving terminating")
	s.ask("the node that stays is used", "web-1 by node-1", "web-2 by node-1")
	for _, f := range s.all {
		for _, slice := range f.pods(1) {
			if err := s.tenant.api.Update(s.t.Context(), slice); err != nil {
				s.t.Fatal(err)
			}
		}
	}
	s.ask("the Pod that stays answers", "web-1 by node-1")
	if err := s.tenant.api.Delete(s.t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-2"}}); err != nil {
		s.t.Fatal(err)
	}
	s.endpoints("node-1 ready serving")
	kubetest.Eventually(s.t, soon, "kube-proxy of node-2 to end with its Node", func(context.Context) error {
		if s.leaves.Running() {
			return errors.New("it runs")
		}
		return nil
	})
	s.ask("the node that stays is used", "web-1 by node-1")
}

func (s *services) setReady(name string, status corev1.ConditionStatus) {
	s.t.Helper()
	s.change(name, func(n *corev1.Node) error {
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status}}
		return s.tenant.api.Status().Update(s.t.Context(), n)
	})
}

// change reads and writes a Node until nobody wrote in between.
func (s *services) change(name string, write func(*corev1.Node) error) {
	s.t.Helper()
	kubetest.Eventually(s.t, soon, "changing "+name, func(ctx context.Context) error {
		n := &corev1.Node{}
		if err := s.tenant.api.Get(ctx, client.ObjectKey{Name: name}, n); err != nil {
			return err
		}
		return write(n)
	})
}
