package differential_test

import (
	"context"
	"fmt"
	"net/netip"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// example is a Service, and what is to be seen of it at nodes' ports.
type example struct {
	name  string
	spec  corev1.ServiceSpec // without type: LoadBalancer
	steps []step
}

// step is a change, and what is to be seen then, in both worlds.
type step struct {
	// endpoints of the Service from now on, see site.slice; nil: as they are.
	endpoints []string
	// change of the Service; nil: none.
	change func(*corev1.ServiceSpec)
	ask    []question
}

type question struct {
	node int
	port int
	how  how
	// want is what is seen; of health, how it begins.
	want string
	// six asks the node's IPv6 address.
	six bool
	// hollow, if not empty, is what is seen at hollow nodes instead, and because says why: one of the known differences.
	hollow  string
	because string
}

// On a node, a question.
func tcpAt(node, port int, want string) question {
	return question{node: node, port: port, how: tcp, want: want}
}
func udpAt(node, port int, want string) question {
	return question{node: node, port: port, how: udp, want: want}
}
func healthAt(node, port int, want string) question {
	return question{node: node, port: port, how: health, want: want}
}

// but says that hollow nodes differ.
func (q question) but(hollow, because string) question {
	q.hollow, q.because = hollow, because
	return q
}

func (q question) of6() question { q.six = true; return q }

func tcpPort(port, target, nodePort int) corev1.ServicePort {
	return corev1.ServicePort{Name: fmt.Sprintf("tcp-%d", port), Protocol: corev1.ProtocolTCP, Port: int32(port), TargetPort: intstr.FromInt32(int32(target)), NodePort: int32(nodePort)}
}

func udpPort(port, target, nodePort int) corev1.ServicePort {
	return corev1.ServicePort{Name: fmt.Sprintf("udp-%d", port), Protocol: corev1.ProtocolUDP, Port: int32(port), TargetPort: intstr.FromInt32(int32(target)), NodePort: int32(nodePort)}
}

func one(nodePort int) []corev1.ServicePort {
	return []corev1.ServicePort{tcpPort(80, httpPort, nodePort)}
}

// local is a Service of policy Local.
func local(nodePort, check int) corev1.ServiceSpec {
	return corev1.ServiceSpec{ExternalTrafficPolicy: corev1.ServiceExternalTrafficPolicyLocal, HealthCheckNodePort: int32(check), Ports: one(nodePort)}
}

func sticky(nodePort, seconds int) corev1.ServiceSpec {
	timeout := int32(seconds)
	return corev1.ServiceSpec{
		SessionAffinity: corev1.ServiceAffinityClientIP, Ports: one(nodePort),
		SessionAffinityConfig: &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: &timeout}},
	}
}

const (
	everyPod = "a1 a2 b1 b2"
	refused  = "(refused)"
	timeout  = "(timeout)"
)

// both asks the same of both nodes.
func both(f func(node, port int, want string) question, port int, want string) []question {
	return []question{f(1, port, want), f(2, port, want)}
}

var allPods = []string{"a1", "a2", "b1", "b2"}

func examples() []example {
	no, close, prefer := false, corev1.ServiceTrafficDistributionPreferClose, corev1.IPFamilyPolicyPreferDualStack
	return []example{
		{name: "one port", spec: corev1.ServiceSpec{Ports: one(30001)}, steps: []step{
			{ask: both(tcpAt, 30001, refused)},
			{endpoints: allPods, ask: both(tcpAt, 30001, everyPod)},
			{ask: []question{question{node: 1, port: 30001, how: clients, want: "node"}.but("client", clientSeen)}},
			{endpoints: []string{"a1", "b1"}, ask: both(tcpAt, 30001, "a1 b1")},
			{endpoints: []string{}, ask: both(tcpAt, 30001, refused)},
			{endpoints: []string{"b2"}, ask: both(tcpAt, 30001, "b2")},
			{change: func(s *corev1.ServiceSpec) { s.Ports[0].NodePort = 30002 }, ask: []question{tcpAt(1, 30001, refused), tcpAt(1, 30002, "b2")}},
		}},
		{name: "several ports, TCP and UDP on one number", spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{
			tcpPort(80, httpPort, 30010), tcpPort(53, httpPort, 30011), udpPort(53, dnsPort, 30011),
		}}, steps: []step{
			{ask: both(udpAt, 30011, refused)},
			{endpoints: allPods, ask: append(append(both(tcpAt, 30010, everyPod), both(tcpAt, 30011, everyPod)...), both(udpAt, 30011, everyPod)...)},
			{endpoints: []string{"a1 terminating", "b1"}, ask: append(both(tcpAt, 30010, "b1"), both(udpAt, 30011, "b1")...)},
			{endpoints: []string{"a1 gone"}, ask: append(both(tcpAt, 30010, refused), both(udpAt, 30011, refused)...)},
		}},
		{name: "named target port", spec: corev1.ServiceSpec{Selector: map[string]string{"app": "web"}, Ports: []corev1.ServicePort{
			{Name: "web", Protocol: corev1.ProtocolTCP, Port: 80, TargetPort: intstr.FromString("named"), NodePort: 30020},
		}}, steps: []step{
			{ask: []question{{node: 1, port: 30020, how: ports, want: "a1:8081 a2:8081 b1:8082 b2:8082"}, {node: 2, port: 30020, how: ports, want: "a1:8081 a2:8081 b1:8082 b2:8082"}}},
		}},
		{name: "a target port on which nobody listens", spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{tcpPort(80, 9999, 30025)}}, steps: []step{
			{endpoints: []string{"a1"}, ask: []question{tcpAt(1, 30025, refused).but("(reset)", nobodyListens)}},
		}},
		{name: "policy Local", spec: local(30030, 30130), steps: []step{
			{ask: append(both(tcpAt, 30030, refused), both(healthAt, 30130, "503 weight 0 ")...)},
			{endpoints: allPods, ask: []question{
				tcpAt(1, 30030, "a1 a2"), tcpAt(2, 30030, "b1 b2"), healthAt(1, 30130, "200 weight 2 "), healthAt(2, 30130, "200 weight 2 "),
				{node: 1, port: 30030, how: clients, want: "client"},
			}},
			{endpoints: []string{"a1", "b1 unready"}, ask: []question{
				tcpAt(1, 30030, "a1"), healthAt(1, 30130, "200 weight 1 "), tcpAt(2, 30030, timeout).but(refused, onlyElsewhere), healthAt(2, 30130, "503 weight 0 "),
			}},
			{endpoints: []string{"a1 terminating", "b1"}, ask: []question{
				tcpAt(1, 30030, "a1"), healthAt(1, 30130, "503 weight 0 "), tcpAt(2, 30030, "b1"), healthAt(2, 30130, "200 weight 1 "),
			}},
			{endpoints: []string{"a1 terminating", "a2", "b1"}, ask: []question{tcpAt(1, 30030, "a2"), healthAt(1, 30130, "200 weight 1 ")}},
			{endpoints: []string{"b1"}, ask: []question{tcpAt(1, 30030, timeout).but(refused, onlyElsewhere), healthAt(1, 30130, "503 weight 0 "), tcpAt(2, 30030, "b1")}},
		}},
		{name: "policy changes", spec: local(30040, 30140), steps: []step{
			{endpoints: []string{"a1", "a2", "b1"}, ask: []question{tcpAt(1, 30040, "a1 a2"), tcpAt(2, 30040, "b1"), healthAt(2, 30140, "200 weight 1 ")}},
			{change: func(s *corev1.ServiceSpec) {
				s.ExternalTrafficPolicy, s.HealthCheckNodePort = corev1.ServiceExternalTrafficPolicyCluster, 0
			}, ask: append(both(tcpAt, 30040, "a1 a2 b1"), both(healthAt, 30140, refused)...)},
		}},
		{name: "all terminate, some serve", spec: corev1.ServiceSpec{Ports: one(30050)}, steps: []step{
			{endpoints: []string{"a1 terminating", "b1 terminating", "b2 gone"}, ask: both(tcpAt, 30050, "a1 b1")},
			{endpoints: []string{"a1 terminating", "b1 terminating", "b2"}, ask: both(tcpAt, 30050, "b2")},
			{endpoints: []string{"a1 unready", "b1 gone"}, ask: both(tcpAt, 30050, refused)},
		}},
		{name: "affinity", spec: sticky(30060, 600), steps: []step{
			{endpoints: allPods, ask: []question{{node: 1, port: 30060, how: stays, want: "one Pod"}, {node: 2, port: 30060, how: stays, want: "one Pod"}}},
			{endpoints: []string{"a2"}, ask: both(tcpAt, 30060, "a2")},
		}},
		{name: "affinity that runs out", spec: sticky(30070, 1), steps: []step{
			{endpoints: allPods, ask: []question{{node: 1, port: 30070, how: moves, want: "moved"}}},
		}},
		{name: "source ranges, which node ports don't keep", spec: corev1.ServiceSpec{Ports: one(30080), LoadBalancerSourceRanges: []string{"192.0.2.0/24"}}, steps: []step{
			{endpoints: []string{"a1"}, ask: both(tcpAt, 30080, "a1")},
		}},
		{name: "no node ports", spec: corev1.ServiceSpec{AllocateLoadBalancerNodePorts: &no, Ports: one(0)}, steps: []step{
			{endpoints: allPods, ask: both(tcpAt, 80, refused)},
			{change: func(s *corev1.ServiceSpec) { s.Ports[0].NodePort = 30085 }, ask: both(tcpAt, 30085, everyPod)},
		}},
		{name: "zones", spec: corev1.ServiceSpec{TrafficDistribution: &close, Ports: one(30090)}, steps: []step{
			{endpoints: allPods, ask: []question{tcpAt(1, 30090, "a1 a2"), tcpAt(2, 30090, "b1 b2")}},
			{endpoints: []string{"a1", "a2"}, ask: both(tcpAt, 30090, "a1 a2")},
		}},
		{name: "two families", spec: corev1.ServiceSpec{IPFamilyPolicy: &prefer, Ports: []corev1.ServicePort{tcpPort(80, httpPort, 30095), udpPort(53, dnsPort, 30096)}}, steps: []step{
			{ask: []question{tcpAt(1, 30095, refused), tcpAt(1, 30095, refused).of6()}},
			{endpoints: []string{"a1", "b1"}, ask: []question{
				tcpAt(1, 30095, "a1 b1"), tcpAt(1, 30095, "a1 b1").of6(), tcpAt(2, 30095, "a1 b1").of6(), udpAt(2, 30096, "a1 b1").of6(),
			}},
		}},
		{name: "one family", spec: corev1.ServiceSpec{Ports: one(30098)}, steps: []step{
			{endpoints: allPods, ask: []question{tcpAt(1, 30098, everyPod), tcpAt(1, 30098, refused).of6()}},
		}},
	}
}

// stays is whether one Pod answers a client each time.
func stays(ctx context.Context, w *world, to netip.AddrPort) string {
	switch who := tcp(ctx, w, to); who {
	case "a1", "a2", "b1", "b2":
		return "one Pod"
	default:
		return who
	}
}

// moves is whether another Pod answers one day, when the client was away for longer than its second each time.
func moves(ctx context.Context, w *world, to netip.AddrPort) string {
	first := tcp(ctx, w, to)
	away := time.NewTicker(1500 * time.Millisecond)
	defer away.Stop()
	for range 12 {
		select {
		case <-ctx.Done():
			return ctx.Err().Error()
		case <-away.C:
		}
		if who := tcp(ctx, w, to); who != first {
			return map[bool]string{true: "moved", false: who}[len(who) == len(first)]
		}
	}
	return first
}

// play has both worlds serve an example, and asks them.
func (s *site) play(t *testing.T, e example) {
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", GenerateName: "example-"}, Spec: e.spec}
	service.Spec.Type = corev1.ServiceTypeLoadBalancer
	if err := s.api.Create(t.Context(), service); err != nil {
		t.Fatal(err)
	}
	for i, step := range e.steps {
		if step.change != nil {
			before := client.MergeFrom(service.DeepCopy())
			step.change(&service.Spec)
			if err := s.api.Patch(t.Context(), service, before); err != nil {
				t.Fatal(err)
			}
		}
		for family := range service.Spec.IPFamilies {
			if step.endpoints == nil {
				continue
			}
			if err := s.apply(s.slice(service, family, step.endpoints)); err != nil {
				t.Fatal(err)
			}
		}
		for _, q := range step.ask {
			if err := s.judge(t.Context(), q, soon); err != nil {
				t.Errorf("step %d: %v", i+1, err)
			}
		}
	}
}
