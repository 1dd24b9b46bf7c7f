package service_test

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/agent/node"
	"fairlead.dev/fairlead/internal/agent/service"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	cloud "k8s.io/cloud-provider/controllers/service"
	fakecloud "k8s.io/cloud-provider/fake"
	"k8s.io/component-base/featuregate"
	controllersmetrics "k8s.io/component-base/metrics/prometheus/controllers"
	"k8s.io/utils/ptr"
)

// done is what became of a Service: what a cloud's load balancer, or our LoadBalancer, would have.
type done struct {
	action service.Action
	ports  string // protocol/port:nodePort, of those that are served
	ip     string // that is wanted
}

// exposedAndHeld is a Service of type NodePort as an agent serves it.
func exposedAndHeld() *v1.Service {
	return web(exposed("true"), held, annotated(v1alpha1.AnnotationLoadBalancer, "web-x"))
}

// theirs is what Kubernetes' own service controller does about Services and Nodes, with a cloud that does what it is told.
func theirs(t *testing.T, services []*v1.Service, nodes []*v1.Node) (did map[string]done, hosts []string) {
	t.Helper()
	did = map[string]done{}
	synctest.Test(t, func(t *testing.T) {
		var objects []runtime.Object
		for _, s := range services {
			objects = append(objects, s.DeepCopy())
		}
		for _, n := range nodes {
			objects = append(objects, n.DeepCopy())
		}
		api := fake.NewClientset(objects...)
		factory := informers.NewSharedInformerFactory(api, 0)
		ctx, cancel := context.WithCancel(t.Context())
		provider := &fakecloud.Cloud{ExternalIP: net.ParseIP("192.0.2.1")}
		c, err := cloud.New(provider, api, factory.Core().V1().Services(), factory.Core().V1().Nodes(), "test", featuregate.NewFeatureGate())
		if err != nil {
			t.Fatal(err)
		}
		factory.Start(ctx.Done())
		stopped := make(chan struct{})
		go func() {
			defer close(stopped)
			c.Run(ctx, 1, controllersmetrics.NewControllerManagerMetrics("test"))
		}()
		time.Sleep(time.Second) // on the bubble's clock, which passes as soon as there is nothing else to do
		synctest.Wait()
		for _, s := range services {
			now, err := api.CoreV1().Services(s.Namespace).Get(ctx, s.Name, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if slices.Contains(s.Finalizers, service.OwnFinalizer) && !slices.Contains(now.Finalizers, service.OwnFinalizer) {
				t.Errorf("%s lost our finalizer there", s.Name)
			}
			d := done{action: service.Ignore}
			if service.Finalized(s) && !service.Finalized(now) {
				d.action = service.Release
			}
			for _, call := range provider.EnsureCalls {
				if call.Service.Name != s.Name {
					continue
				}
				d.action, d.ip, d.ports, hosts = service.Serve, call.Service.Spec.LoadBalancerIP, "", nil
				for _, p := range call.Service.Spec.Ports {
					d.ports += fmt.Sprintf("%s/%d:%d ", p.Protocol, p.Port, p.NodePort)
				}
				for _, h := range call.Hosts {
					hosts = append(hosts, h.Name)
				}
				if !service.Finalized(now) {
					t.Errorf("%s is served there without a finalizer", s.Name)
				}
			}
			did[s.Name] = d
		}
		cancel()
		<-stopped
		factory.Shutdown()
	})
	slices.Sort(hosts)
	return did, hosts
}

// ours is what the agent does about a Service: as the one for Services without class, or beside theirs, to which it leaves them.
func ours(s *v1.Service, beside bool) done {
	filter := service.Filter{ClassPrefix: "fairlead.dev", Unclassed: !beside}
	d := done{action: service.Decide(filter, s, nil)}
	if d.action != service.Serve {
		return d
	}
	w := service.Want(s, "", nil)
	if filter.Fronts(s) {
		w = service.Front(s, "", nil)
	}
	for _, p := range w.Spec.Ports {
		d.ports += fmt.Sprintf("%s/%d:%d ", p.Protocol, p.Port, p.TargetPort)
	}
	d.ip = strings.Join(w.Spec.Addresses, ",")
	return d
}

func nodeOf(name string, change ...func(*v1.Node)) *v1.Node {
	n := &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Labels: map[string]string{}, Annotations: map[string]string{}},
		Status: v1.NodeStatus{
			Addresses:  []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: "10.0.0.1"}},
			Conditions: []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue}},
		},
	}
	for _, c := range change {
		c(n)
	}
	return n
}

// The service controller of k8s.io/cloud-provider is the yardstick: on the same Services we do the same, but where a line says
// why not.
func TestServicesAsTheCloudProvidersControllerSeesThem(t *testing.T) {
	mark := annotated(v1alpha1.AnnotationLoadBalancer, "web-x")
	gone := func(s *v1.Service) {
		s.DeletionTimestamp = ptr.To(metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)))
	}
	type row struct {
		name    string
		s       *v1.Service
		differs string
	}
	cases := []row{
		{"plain", web(), ""},
		{"cluster ip", web(clusterIP), ""},
		{"node port", web(func(s *v1.Service) { s.Spec.Type = v1.ServiceTypeNodePort }), ""},
		{"node port, exposed", web(exposed("true")), "the annotation is Fairlead's own"},
		{"node port, exposed and held", exposedAndHeld(), "the annotation is Fairlead's own"},
		{"node port, exposed and held by the shared finalizer", web(exposed("true"), finalized), "they take their finalizer off, which is why ours is another there"},
		{"external name", web(func(s *v1.Service) { s.Spec.Type = v1.ServiceTypeExternalName }), ""},
		{"another class", web(classed("example.com/lb")), ""},
		{"our class", web(classed("fairlead.dev/edge")), "a class names its controller, and that is us"},
		{"our prefix alone", web(classed("fairlead.dev/")), ""},
		{"deleting, served", web(finalized, mark, gone), ""},
		{"type changed", web(finalized, mark, clusterIP), ""},
		{"type changed, another's", web(finalized, clusterIP), "without our mark the finalizer may be another controller's"},
		{"ours, and then another class's", web(finalized, mark, classed("example.com/lb")), "what carries our mark we let go"},
		{"two ports", web(func(s *v1.Service) {
			s.Spec.Ports = append(s.Spec.Ports, v1.ServicePort{Name: "https", Protocol: v1.ProtocolTCP, Port: 443, NodePort: 31443})
		}), ""},
		{"mixed protocols", web(func(s *v1.Service) {
			s.Spec.Ports = append(s.Spec.Ports, v1.ServicePort{Name: "quic", Protocol: v1.ProtocolUDP, Port: 80, NodePort: 31081})
		}), ""},
		{"sctp", web(func(s *v1.Service) { s.Spec.Ports[0].Protocol = v1.ProtocolSCTP }), ""},
		{"no node ports", web(func(s *v1.Service) {
			s.Spec.AllocateLoadBalancerNodePorts, s.Spec.Ports[0].NodePort = ptr.To(false), 0
		}), "there it is the cloud's to find a way; ours is the nodePort, and the port says NoNodePort"},
		{"node ports by hand", web(func(s *v1.Service) { s.Spec.AllocateLoadBalancerNodePorts = ptr.To(false) }), ""},
		{"an address", web(func(s *v1.Service) { s.Spec.LoadBalancerIP = "192.0.2.9" }), ""},
		{"an address that is none", web(func(s *v1.Service) { s.Spec.LoadBalancerIP = "mine" }), "what is no address isn't wanted, and the Service says Invalid"},
		{"local", web(func(s *v1.Service) {
			s.Spec.ExternalTrafficPolicy, s.Spec.HealthCheckNodePort = v1.ServiceExternalTrafficPolicyLocal, 32000
		}), ""},
		{"source ranges", web(func(s *v1.Service) { s.Spec.LoadBalancerSourceRanges = []string{"10.0.0.0/8"} }), ""},
		{"source ranges that don't parse", web(func(s *v1.Service) { s.Spec.LoadBalancerSourceRanges = []string{"10"} }), "there it is the cloud's to refuse; we let nobody in"},
		{"external ips", web(func(s *v1.Service) { s.Spec.ExternalIPs = []string{"192.0.2.77"} }), ""},
	}
	alone := len(cases)
	// Beside theirs, each lets go of its own part.
	cases = append(cases,
		row{"theirs", web(), "it doesn't ask"},
		row{"theirs, deleting", web(fronted("false"), finalized, gone), "the finalizer is theirs alone"},
		row{"theirs, exposed", web(held, fronted("true")), "the hub sends to their address, at the Service's own port"},
		row{"theirs, exposed, held by both and deleting", web(fronted("true"), mark, gone, both), ""},
		row{"theirs, exposed, held by them alone and deleting", web(fronted("true"), finalized, gone), "the finalizer is theirs alone, and we have let go"},
	)
	var all []*v1.Service
	for i, c := range cases {
		c.s.Name, c.s.UID = fmt.Sprintf("s%02d", i), types.UID(c.name)
		all = append(all, c.s)
	}
	did, _ := theirs(t, all, []*v1.Node{nodeOf("n")})
	for i, c := range cases {
		switch got, want := ours(c.s, i >= alone), did[c.s.Name]; {
		case got != want && c.differs == "":
			t.Errorf("%s: we %+v, they %+v", c.name, got, want)
		case got == want && c.differs != "":
			t.Errorf("%s: both %+v, though %s", c.name, got, c.differs)
		}
	}
}

// The same of Nodes: those that get traffic there are those that are targets here, and serve.
func TestNodesAsTheCloudProvidersControllerSeesThem(t *testing.T) {
	excluded := func(value string) func(*v1.Node) {
		return func(n *v1.Node) { n.Labels[v1.LabelNodeExcludeBalancers] = value }
	}
	tainted := func(key string, effect v1.TaintEffect) func(*v1.Node) {
		return func(n *v1.Node) { n.Spec.Taints = []v1.Taint{{Key: key, Effect: effect}} }
	}
	cases := []struct {
		name    string
		n       *v1.Node
		state   v1alpha1.TargetState // empty: no target
		differs string
	}{
		{"plain", nodeOf(""), v1alpha1.TargetServing, ""},
		{"not ready", nodeOf("", func(n *v1.Node) { n.Status.Conditions[0].Status = v1.ConditionFalse }), v1alpha1.TargetServing, ""},
		{"unknown", nodeOf("", func(n *v1.Node) { n.Status.Conditions = nil }), v1alpha1.TargetServing, ""},
		{"cordoned", nodeOf("", func(n *v1.Node) { n.Spec.Unschedulable = true }, tainted(v1.TaintNodeUnschedulable, v1.TaintEffectNoSchedule)), v1alpha1.TargetServing, ""},
		{"tainted by somebody", nodeOf("", tainted("dedicated", v1.TaintEffectNoExecute)), v1alpha1.TargetServing, ""},
		{"a control plane", nodeOf("", func(n *v1.Node) { n.Labels["node-role.kubernetes.io/control-plane"] = "" }), v1alpha1.TargetServing, ""},
		{"excluded", nodeOf("", excluded("")), "", ""},
		{"excluded, true", nodeOf("", excluded("true")), "", ""},
		{"excluded, no bool", nodeOf("", excluded("yes")), "", ""},
		{"not excluded", nodeOf("", excluded("false")), v1alpha1.TargetServing, ""},
		{"the autoscaler deletes it", nodeOf("", tainted("ToBeDeletedByClusterAutoscaler", v1.TaintEffectNoSchedule)), v1alpha1.TargetDraining, ""},
		{"the autoscaler might", nodeOf("", tainted("DeletionCandidateOfClusterAutoscaler", v1.TaintEffectPreferNoSchedule)), v1alpha1.TargetServing, ""},
		{"deleting", nodeOf("", func(n *v1.Node) {
			n.Finalizers, n.DeletionTimestamp = []string{"x.example.com/y"}, ptr.To(metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)))
		}), "", ""},
		{"disabled", nodeOf("", func(n *v1.Node) { n.Annotations[clusterv1.DisabledAnnotation] = "" }), v1alpha1.TargetDraining, "the annotation is Fairlead's own"},
		{"no address", nodeOf("", func(n *v1.Node) { n.Status.Addresses = nil }), "", "there it is the cloud's to find one"},
	}
	var all []*v1.Node
	for i, c := range cases {
		c.n.Name, c.n.UID = fmt.Sprintf("n%02d", i), types.UID(c.name)
		all = append(all, c.n)
	}
	_, hosts := theirs(t, []*v1.Service{web()}, all)
	for _, c := range cases {
		target, why := node.Target(c.n)
		if target.State != c.state {
			t.Errorf("%s: %q (%s), want %q", c.name, target.State, why, c.state)
		}
		there, here := slices.Contains(hosts, c.n.Name), target.State == v1alpha1.TargetServing
		if (there != here) != (c.differs != "") {
			t.Errorf("%s: it gets traffic there: %t, here: %t (%s)", c.name, there, here, c.differs)
		}
	}
}
