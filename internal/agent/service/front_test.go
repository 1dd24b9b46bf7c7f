package service_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/agent/service"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func fronted(text string) func(*v1.Service) {
	return annotated(v1alpha1.AnnotationExposeLoadBalancer, text)
}

// shows is what another load balancer's controller writes.
func shows(ingress ...v1.LoadBalancerIngress) func(*v1.Service) {
	return func(s *v1.Service) { s.Status.LoadBalancer.Ingress = ingress }
}

func TestWhichServicesAreFronted(t *testing.T) {
	isDefault := service.Filter{ClassPrefix: "fairlead.dev", Unclassed: true}
	beside := service.Filter{ClassPrefix: "fairlead.dev"}
	all := service.Filter{ClassPrefix: "fairlead.dev", ExposeLoadBalancers: true}
	for _, c := range []struct {
		name  string
		f     service.Filter
		s     *v1.Service
		class string
		ours  bool
		front bool
	}{
		{"the cloud's", beside, web(), "", false, false},
		{"the cloud's, asks", beside, web(fronted("true")), "", true, true},
		{"the cloud's, asks with a class", beside, web(fronted("fairlead.dev/edge")), "edge", true, true},
		{"the cloud's, asks with both", beside, web(fronted("true"), annotated(v1alpha1.AnnotationClass, "gold")), "gold", true, true},
		{"the cloud's, asks somebody else", beside, web(fronted("example.com/edge")), "", false, false},
		{"another class's, asks", beside, web(fronted("true"), classed("example.com/lb")), "", true, true},
		{"asks, and is ours alone", isDefault, web(fronted("true")), "", true, false},
		{"asks, and is ours alone by class", beside, web(fronted("true"), classed("fairlead.dev/edge")), "edge", true, false},
		{"all ask", all, web(), "", true, true},
		{"all ask, not this one", all, web(fronted("false")), "", false, false},
		{"all ask, but of type LoadBalancer", all, web(nodePort), "", false, false},
		{"all ask, ours alone by class", all, web(classed("fairlead.dev/edge")), "edge", true, false},
	} {
		class, ours := c.f.Class(c.s)
		if class != c.class || ours != c.ours || c.f.Fronts(c.s) != c.front {
			t.Errorf("%s: class %q, ours %t, fronted %t", c.name, class, ours, c.f.Fronts(c.s))
		}
	}
}

func TestFront(t *testing.T) {
	fronting := func(change ...func(*clusterv1.LoadBalancerSpec)) clusterv1.LoadBalancerSpec {
		return plain(append([]func(*clusterv1.LoadBalancerSpec){func(s *clusterv1.LoadBalancerSpec) {
			s.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"fairlead.dev/targets": service.Name(service.Key(web()))}}
			s.Ports[0].TargetPort = 80
		}}, change...)...)
	}
	for _, c := range []struct {
		name     string
		s        *v1.Service
		want     clusterv1.LoadBalancerSpec
		problems []string
	}{
		{"its own ports", web(fronted("true")), fronting(), nil},
		{"no nodePort is needed", web(fronted("true"), func(s *v1.Service) { s.Spec.Ports[0].NodePort = 0 }), fronting(), nil},
		{"Local is the other's", web(fronted("true"), func(s *v1.Service) {
			s.Spec.ExternalTrafficPolicy, s.Spec.HealthCheckNodePort = v1.ServiceExternalTrafficPolicyLocal, 32000
		}), fronting(), nil},
		{"its address is the other's", web(fronted("true"), shows(v1.LoadBalancerIngress{IP: "10.9.0.1"}), annotated("metallb.io/loadBalancerIPs", "10.9.0.1"), func(s *v1.Service) { s.Spec.LoadBalancerIP = "10.9.0.1" }),
			fronting(), nil},
		{"an address of the hub's", web(fronted("true"), annotated(v1alpha1.AnnotationAddresses, "192.0.2.7")), fronting(func(s *clusterv1.LoadBalancerSpec) { s.Addresses = []string{"192.0.2.7"} }), nil},
		{"its address of the hub's, when the hub lost it", web(fronted("true"), annotated(v1alpha1.AnnotationPublished, "192.0.2.8")), fronting(func(s *clusterv1.LoadBalancerSpec) { s.Addresses = []string{"192.0.2.8"} }), nil},
		{"source ranges hold in both places", web(fronted("true"), func(s *v1.Service) { s.Spec.LoadBalancerSourceRanges = []string{"10.0.0.0/8"} }),
			fronting(func(s *clusterv1.LoadBalancerSpec) { s.SourceRanges = []string{"10.0.0.0/8"} }), nil},
		{"no word that is known", web(fronted("yes")), fronting(func(s *clusterv1.LoadBalancerSpec) { s.Ports = nil }), []string{"metadata.annotations[fairlead.dev/expose-loadbalancer]"}},
		{"all ask", web(), fronting(), nil},
	} {
		w := service.Front(c.s, "", nil)
		var problems []string
		for _, p := range w.Problems {
			problems = append(problems, p.Field)
		}
		if !w.Fronts || !equality.Semantic.DeepEqual(w.Spec, c.want) || !slices.Equal(problems, c.problems) {
			t.Errorf("%s: %+v, %q; want %+v", c.name, w.Spec, problems, c.want)
		}
	}
}

func TestBackend(t *testing.T) {
	ip := func(a string) v1.LoadBalancerIngress { return v1.LoadBalancerIngress{IP: a} }
	many := make([]v1.LoadBalancerIngress, 150)
	for i := range many {
		many[i] = ip(fmt.Sprintf("10.9.0.%d", i))
	}
	for _, c := range []struct {
		name string
		s    *v1.Service
		l    *clusterv1.LoadBalancer
		want string
	}{
		{"none yet", web(), nil, ""},
		{"an address", web(shows(ip("10.9.0.1"))), nil, "10.9.0.1"},
		{"a name", web(shows(v1.LoadBalancerIngress{Hostname: "LB-1.elb.example.com."})), nil, "lb-1.elb.example.com"},
		{"an address is better than a name", web(shows(v1.LoadBalancerIngress{IP: "10.9.0.1", Hostname: "lb.example.com"})), nil, "10.9.0.1"},
		{"two families, twice", web(shows(ip("fd00::9"), ip("10.9.0.1"), ip("::ffff:10.9.0.1"))), nil, "10.9.0.1 fd00::9"},
		{"nonsense", web(shows(ip("fe80::1%eth0"), ip("x"), v1.LoadBalancerIngress{})), nil, ""},
		{"the hub's own", web(shows(ip("192.0.2.7"), ip("10.9.0.1"))), hubs(at("192.0.2.7")), "10.9.0.1"},
		{"the hub's own, as it was published", web(shows(ip("192.0.2.7")), annotated(v1alpha1.AnnotationPublished, "192.0.2.7")), nil, ""},
	} {
		var got []string
		uids := map[string]bool{}
		for _, x := range service.Backend(c.s, c.l) {
			got = append(got, x.Name)
			if uids[x.UID] = true; x.Addresses[0] != x.Name || x.UID == "" || x.State != v1alpha1.TargetServing {
				t.Errorf("%s: %+v", c.name, x)
			}
		}
		if strings.Join(got, " ") != c.want || len(uids) != len(got) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	if got := service.Backend(web(shows(many...)), nil); len(got) != 100 {
		t.Errorf("%d targets", len(got))
	}
	// A Service that is made anew has targets of its own, though the address be the same.
	reborn := web(shows(ip("10.9.0.1")), func(s *v1.Service) { s.UID = "u-2" })
	if service.Backend(reborn, nil)[0].UID == service.Backend(web(shows(ip("10.9.0.1"))), nil)[0].UID {
		t.Error("both have one UID")
	}
}

func TestHoldOfABackend(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	in := func(d time.Duration) string { return now.Add(d).Format(time.RFC3339) }
	old, fresh := []v1alpha1.Target{{Name: "10.9.0.1"}}, []v1alpha1.Target{{Name: "10.9.0.2"}}
	for _, c := range []struct {
		name string
		e    service.Emptied
		want []v1alpha1.Target
		held time.Duration
		says string
	}{
		{"new", service.Emptied{Backend: fresh}, fresh, 0, ""},
		{"another address", service.Emptied{Have: old, Backend: fresh}, fresh, 0, ""},
		{"none yet", service.Emptied{}, nil, 0, service.ReasonNoBackend},
		{"gone, nobody saw it", service.Emptied{Have: old}, old, service.HeldFor, service.ReasonBackendMissing},
		{"gone, and that was seen", service.Emptied{Have: old, Seen: true}, nil, 0, service.ReasonNoBackend},
		{"held already", service.Emptied{Have: old, HeldUntil: in(time.Hour)}, old, time.Hour, service.ReasonBackendMissing},
		{"held for long enough", service.Emptied{Have: old, HeldUntil: in(0)}, nil, 0, service.ReasonNoBackend},
		{"no time", service.Emptied{Have: old, HeldUntil: "tomorrow"}, old, service.HeldFor, service.ReasonBackendMissing},
		{"back", service.Emptied{Have: old, Backend: old, HeldUntil: in(time.Hour)}, old, 0, ""},
	} {
		c.e.Now = now
		got, until := service.Hold(c.e)
		held := time.Duration(0)
		if !until.IsZero() {
			held = until.Sub(now)
		}
		says := ""
		if p := service.BackendProblem(c.e.Backend, got, until); p != nil {
			says = p.Reason
		}
		if !equality.Semantic.DeepEqual(got, c.want) || held != c.held || says != c.says {
			t.Errorf("%s: %+v, held for %s, says %q", c.name, got, held, says)
		}
	}
}
