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

// service is one of class `service` between real parts.
type service struct {
	t           *testing.T
	hub, tenant *cluster
	client      *netns.Namespace
	service     *corev1.Service // in the tenant's cluster
	address     netip.AddrPort
	leaves      *testkit.Process // kube-proxy of node-2
}

// TestClassServiceBetweenRealKubeProxies: a client's traffic goes by the address that MetalLB gave to the hub's Service, through
// the hub's kube-proxy, to the tenant's nodes, and by their kube-proxies to Pods. A node leaves, and nobody notices.
func TestClassServiceBetweenRealKubeProxies(t *testing.T) {
	n := newNetwork(t)
	machines := n.machines(2)
	gateway := n.host("hub-1", gatewayHost)
	forward(gateway)
	s := &service{t: t, client: n.host("client", clientHost)}
	s.client.Route(served, address(gatewayHost))
	n.whole()

	s.hub, s.tenant = startCluster(t, "hub"), startCluster(t, "tenant")
	s.hub.node("hub-1", address(gatewayHost))
	n.reaches(gateway, s.hub.ControlPlane)
	startKubeProxy(t, s.hub.ControlPlane, testkit.KubeProxy{Node: "hub-1", Host: gateway})
	for i, m := range machines {
		name := fmt.Sprintf("node-%d", i+1)
		s.tenant.node(name, address(node(i+1)))
		n.reaches(m.host, s.tenant.ControlPlane)
		s.leaves = startKubeProxy(t, s.tenant.ControlPlane, testkit.KubeProxy{Node: name, Host: m.host, ClusterCIDRs: podCIDRs[:1]})
		who := testkit.Answer{Cluster: "tenant", Namespace: "default", Pod: fmt.Sprintf("web-%d", i+1), Node: name}
		servePod(t, m.pods, who, []netip.Addr{netip.MustParseAddr(podAddress(i + 1))}, []int{httpPort}, nil)
	}
	startMetalLB(t, n, s.hub)
	startFairlead(t, s.hub, s.tenant)
	s.publish()
	s.ask("both nodes are used", "web-1 by node-1", "web-1 by node-2", "web-2 by node-1", "web-2 by node-2")

	s.undisturbed("a node that is not ready", func() {
		s.setReady("node-2", corev1.ConditionFalse)
		s.slices("10.20.0.11 ready serving", "10.20.0.12")
		s.ask("the node that is ready is used", "web-1 by node-1", "web-2 by node-1")
		s.setReady("node-2", corev1.ConditionTrue)
		s.slices("10.20.0.11 ready serving", "10.20.0.12 ready serving")
		s.ask("both nodes are used again", "web-1 by node-1", "web-1 by node-2", "web-2 by node-1", "web-2 by node-2")
	})
	s.cut(n, "node-2")
	s.undisturbed("a node that leaves", s.remove)

	if err := s.tenant.api.Delete(t.Context(), s.service); err != nil {
		t.Fatal(err)
	}
	kubetest.Eventually(t, soon, "the hub's Service to go", func(ctx context.Context) error {
		list := &corev1.ServiceList{}
		err := s.hub.api.List(ctx, list, client.InNamespace(tenantName))
		if err == nil && len(list.Items) > 0 {
			err = fmt.Errorf("%s is there", list.Items[0].Name)
		}
		return err
	})
}

func podAddress(node int) string { return fmt.Sprintf("10.244.%d.1", node) }

// publish makes the tenant's Service, and waits for its address.
func (s *service) publish() {
	s.t.Helper()
	s.service = &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}, Spec: corev1.ServiceSpec{
		Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromInt32(httpPort), Protocol: corev1.ProtocolTCP}},
	}}
	s.tenant.create(s.service)
	s.tenant.create(s.pods(1, 2))
	kubetest.Eventually(s.t, soon, "the Service's address", func(ctx context.Context) error {
		if err := s.tenant.api.Get(ctx, client.ObjectKeyFromObject(s.service), s.service); err != nil {
			return err
		}
		if len(s.service.Status.LoadBalancer.Ingress) == 0 {
			return fmt.Errorf("it has none: %v", meta.FindStatusCondition(s.service.Status.Conditions, "fairlead.dev/Programmed"))
		}
		return nil
	})
	ip, err := netip.ParseAddr(s.service.Status.LoadBalancer.Ingress[0].IP)
	if err != nil || !netip.MustParsePrefix(served).Contains(ip) {
		s.t.Fatalf("its address is %s (%v), want one of %s", ip, err, served)
	}
	s.address = netip.AddrPortFrom(ip, 80)
}

// pods is the slice of the Pods of these nodes.
func (s *service) pods(nodes ...int) *discoveryv1.EndpointSlice {
	name, protocol, port := "http", corev1.ProtocolTCP, int32(httpPort)
	e := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "default", Name: "web-1", Labels: map[string]string{discoveryv1.LabelServiceName: "web"}},
		AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Name: &name, Protocol: &protocol, Port: &port}},
	}
	for _, n := range nodes {
		node := fmt.Sprintf("node-%d", n)
		e.Endpoints = append(e.Endpoints, discoveryv1.Endpoint{Addresses: []string{podAddress(n)}, NodeName: &node})
	}
	return e
}

// slices waits until the hub's EndpointSlices say this.
func (s *service) slices(want ...string) {
	s.t.Helper()
	kubetest.Eventually(s.t, soon, "the hub's endpoints", func(ctx context.Context) error {
		list := &discoveryv1.EndpointSliceList{}
		if err := s.hub.api.List(ctx, list, client.InNamespace(tenantName)); err != nil {
			return err
		}
		got := []string{}
		for _, slice := range list.Items {
			for _, e := range slice.Endpoints {
				text := e.Addresses[0]
				for _, c := range []struct {
					is   *bool
					name string
				}{{e.Conditions.Ready, " ready"}, {e.Conditions.Serving, " serving"}, {e.Conditions.Terminating, " terminating"}} {
					if c.is != nil && *c.is {
						text += c.name
					}
				}
				got = append(got, text)
			}
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			return fmt.Errorf("%q, want %q", got, want)
		}
		return nil
	})
}

// ask waits until these answer, each Pod by the node whose address it saw, and nobody else.
func (s *service) ask(what string, want ...string) {
	s.t.Helper()
	by := map[string]string{"10.99.1.1": "node-1", address(node(1)): "node-1", "10.99.2.1": "node-2", address(node(2)): "node-2"}
	w := &world{name: "client", client: s.client}
	kubetest.Eventually(s.t, soon, what, func(ctx context.Context) error {
		got := []string{}
		for range 2 * asks {
			who := w.get(ctx, s.address, func(a testkit.Answer) string {
				host, _, err := net.SplitHostPort(a.Client)
				if err != nil {
					return err.Error()
				}
				return a.Pod + " by " + by[host]
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
func (s *service) undisturbed(what string, event func()) {
	s.t.Helper()
	report := s.judge(what, func(*traffic.Generator) { event() })
	if why := report.Verdict(); why != "" {
		s.t.Error(why)
	}
}

// judge measures what clients notice of an event.
func (s *service) judge(what string, event func(*traffic.Generator)) traffic.Report {
	s.t.Helper()
	g := traffic.NewGenerator()
	defer g.Stop()
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		return s.client.Dial(ctx, net.Dialer{}, network, address)
	}
	g.Add(s.t.Context(), traffic.Service{Name: what, Rate: rate, Held: held, Ways: []traffic.Way{{Name: "hub-1", Address: s.address, Dial: dial}}})
	reports, err := g.Around(s.t.Context(), func(context.Context) error {
		event(g)
		return nil
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Log(reports[0].String())
	return reports[0]
}

// cut loses a node's packets for a while, of which the hub knows nothing: clients notice, or the judge sees nothing at all.
func (s *service) cut(n *network, node string) {
	s.t.Helper()
	var from, to time.Time
	report := s.judge("a node that is cut off", func(g *traffic.Generator) {
		from = time.Now()
		n.fabric.Down(node)
		n.whole()
		kubetest.Eventually(s.t, soon, "a request to fail", func(context.Context) error {
			if g.Counts()[0].Failed == 0 {
				return errors.New("none did")
			}
			return nil
		})
		n.fabric.Up(node)
		n.whole()
		s.ask("both nodes are used once more", "web-1 by node-1", "web-1 by node-2", "web-2 by node-1", "web-2 by node-2")
		to = time.Now()
	})
	if why := report.OnlyBetween(from, to); why != "" {
		s.t.Error(why)
	}
}

// remove takes node-2 out as the cluster autoscaler does: its taint first, then its Pods, then the Node.
func (s *service) remove() {
	s.t.Helper()
	s.change("node-2", func(n *corev1.Node) error {
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "ToBeDeletedByClusterAutoscaler", Effect: corev1.TaintEffectNoSchedule})
		return s.tenant.api.Update(s.t.Context(), n)
	})
	s.slices("10.20.0.11 ready serving", "10.20.0.12 serving terminating")
	s.ask("the node that stays is used", "web-1 by node-1", "web-2 by node-1")
	slice := s.pods(1)
	if err := s.tenant.api.Update(s.t.Context(), slice); err != nil {
		s.t.Fatal(err)
	}
	s.ask("the Pod that stays answers", "web-1 by node-1")
	if err := s.tenant.api.Delete(s.t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-2"}}); err != nil {
		s.t.Fatal(err)
	}
	s.slices("10.20.0.11 ready serving")
	kubetest.Eventually(s.t, soon, "kube-proxy of node-2 to end with its Node", func(context.Context) error {
		if s.leaves.Running() {
			return errors.New("it runs")
		}
		return nil
	})
	s.ask("the node that stays is used", "web-1 by node-1")
}

func (s *service) setReady(name string, status corev1.ConditionStatus) {
	s.t.Helper()
	s.change(name, func(n *corev1.Node) error {
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status}}
		return s.tenant.api.Status().Update(s.t.Context(), n)
	})
}

// change reads and writes a Node until nobody wrote in between.
func (s *service) change(name string, write func(*corev1.Node) error) {
	s.t.Helper()
	kubetest.Eventually(s.t, soon, "changing "+name, func(ctx context.Context) error {
		n := &corev1.Node{}
		if err := s.tenant.api.Get(ctx, client.ObjectKey{Name: name}, n); err != nil {
			return err
		}
		return write(n)
	})
}
