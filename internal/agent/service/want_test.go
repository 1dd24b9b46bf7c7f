package service_test

import (
	"slices"
	"testing"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/agent/service"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// plain is what web() wants.
func plain(change ...func(*clusterv1.LoadBalancerSpec)) clusterv1.LoadBalancerSpec {
	spec := clusterv1.LoadBalancerSpec{
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"fairlead.dev/targets": "nodes"}},
		Ports:    []clusterv1.Port{{Name: "http", Protocol: clusterv1.ProtocolTCP, Port: 80, TargetPort: 31080}},
	}
	for _, c := range change {
		c(&spec)
	}
	return spec
}

func TestWant(t *testing.T) {
	noPorts := func(s *clusterv1.LoadBalancerSpec) { s.Ports = nil }
	for _, c := range []struct {
		name     string
		s        *v1.Service
		class    string
		want     clusterv1.LoadBalancerSpec
		problems []string // reason and field
	}{
		{"plain", web(), "", plain(), nil},
		{"class", web(), "edge", plain(func(s *clusterv1.LoadBalancerSpec) { s.ClassName = "edge" }), nil},
		{"two families", web(func(s *v1.Service) {
			s.Spec.IPFamilyPolicy = ptr.To(v1.IPFamilyPolicyPreferDualStack)
			s.Spec.IPFamilies = []v1.IPFamily{v1.IPv6Protocol, v1.IPv4Protocol}
		}), "", plain(func(s *clusterv1.LoadBalancerSpec) {
			s.IPFamilyPolicy, s.IPFamilies = clusterv1.PreferDualStack, []clusterv1.IPFamily{clusterv1.IPv6, clusterv1.IPv4}
		}), nil},
		{"one family, whatever is preferred", web(func(s *v1.Service) {
			s.Spec.IPFamilyPolicy = ptr.To(v1.IPFamilyPolicyPreferDualStack)
			s.Spec.IPFamilies = []v1.IPFamily{v1.IPv4Protocol}
		}), "", plain(func(s *clusterv1.LoadBalancerSpec) {
			s.IPFamilyPolicy, s.IPFamilies = clusterv1.SingleStack, []clusterv1.IPFamily{clusterv1.IPv4}
		}), nil},
		{"near by", web(func(s *v1.Service) { s.Spec.TrafficDistribution = ptr.To(v1.ServiceTrafficDistributionPreferSameZone) }), "",
			plain(func(s *clusterv1.LoadBalancerSpec) { s.TrafficDistribution = clusterv1.PreferSameZone }), nil},
		{"mixed protocols on one port", web(func(s *v1.Service) {
			s.Spec.Ports = []v1.ServicePort{{Name: "dns", Protocol: v1.ProtocolUDP, Port: 53, NodePort: 31053}, {Name: "dns-tcp", Protocol: v1.ProtocolTCP, Port: 53, NodePort: 31054}}
		}), "", plain(func(s *clusterv1.LoadBalancerSpec) {
			s.Ports = []clusterv1.Port{{Name: "dns", Protocol: clusterv1.ProtocolUDP, Port: 53, TargetPort: 31053}, {Name: "dns-tcp", Protocol: clusterv1.ProtocolTCP, Port: 53, TargetPort: 31054}}
		}), nil},
		{"UDP beside TCP", web(func(s *v1.Service) {
			s.Spec.Ports = append(s.Spec.Ports, v1.ServicePort{Name: "dns", Protocol: v1.ProtocolUDP, Port: 53, NodePort: 31053})
		}), "", plain(func(s *clusterv1.LoadBalancerSpec) {
			s.Ports = append(s.Ports, clusterv1.Port{Name: "dns", Protocol: clusterv1.ProtocolUDP, Port: 53, TargetPort: 31053})
		}), nil},
		{"a port without nodePort", web(func(s *v1.Service) {
			s.Spec.Ports = append(s.Spec.Ports, v1.ServicePort{Name: "x", Port: 90})
		}), "", plain(), []string{"NoNodePort spec.ports[1].nodePort"}},
		{"no nodePorts at all", web(func(s *v1.Service) {
			s.Spec.AllocateLoadBalancerNodePorts = ptr.To(false)
			s.Spec.Ports[0].NodePort = 0
		}), "", plain(noPorts), []string{"NoNodePort spec.ports[0].nodePort"}},
		{"local traffic", web(func(s *v1.Service) {
			s.Spec.ExternalTrafficPolicy, s.Spec.HealthCheckNodePort = v1.ServiceExternalTrafficPolicyLocal, 32000
		}), "", plain(func(s *clusterv1.LoadBalancerSpec) {
			s.HealthCheck = &clusterv1.HealthCheck{Type: clusterv1.HealthCheckHTTP, Path: "/healthz", Port: 32000}
			s.FailOpen = ptr.To(false)
		}), nil},
		{"affinity", web(func(s *v1.Service) {
			s.Spec.SessionAffinity = v1.ServiceAffinityClientIP
			s.Spec.SessionAffinityConfig = &v1.SessionAffinityConfig{ClientIP: &v1.ClientIPConfig{TimeoutSeconds: ptr.To[int32](600)}}
		}), "", plain(func(s *clusterv1.LoadBalancerSpec) {
			s.SessionAffinity, s.SessionAffinityTimeout = clusterv1.SessionAffinityClientIP, &metav1.Duration{Duration: 10 * time.Minute}
		}), nil},
		{"source ranges", web(func(s *v1.Service) { s.Spec.LoadBalancerSourceRanges = []string{"192.0.2.0/24", "10.0.0.0/8"} }), "",
			plain(func(s *clusterv1.LoadBalancerSpec) { s.SourceRanges = []string{"10.0.0.0/8", "192.0.2.0/24"} }), nil},
		{"source ranges by annotation", web(annotated(v1.AnnotationLoadBalancerSourceRangesKey, "10.0.0.0/8")), "",
			plain(func(s *clusterv1.LoadBalancerSpec) { s.SourceRanges = []string{"10.0.0.0/8"} }), nil},
		{"everybody", web(func(s *v1.Service) { s.Spec.LoadBalancerSourceRanges = []string{"0.0.0.0/0"} }), "", plain(), nil},
		{"source ranges that don't parse let nobody in", web(annotated(v1.AnnotationLoadBalancerSourceRangesKey, "10.0.0.0")), "",
			plain(noPorts), []string{"Invalid spec.loadBalancerSourceRanges"}},
		{"addresses", web(annotated(v1alpha1.AnnotationAddresses, "192.0.2.7, 2001:db8::1"), func(s *v1.Service) { s.Spec.LoadBalancerIP = "192.0.2.9" }), "",
			plain(func(s *clusterv1.LoadBalancerSpec) { s.Addresses = []string{"192.0.2.7", "2001:db8::1"} }), nil},
		{"loadBalancerIP", web(func(s *v1.Service) { s.Spec.LoadBalancerIP = "192.0.2.9" }), "",
			plain(func(s *clusterv1.LoadBalancerSpec) { s.Addresses = []string{"192.0.2.9"} }), nil},
		{"addresses as MetalLB reads them", web(annotated("metallb.universe.tf/loadBalancerIPs", "192.0.2.7,2001:db8::1"), func(s *v1.Service) { s.Spec.LoadBalancerIP = "192.0.2.9" }), "",
			plain(func(s *clusterv1.LoadBalancerSpec) { s.Addresses = []string{"192.0.2.7", "2001:db8::1"} }), nil},
		{"addresses as Cilium reads them", web(annotated("lbipam.cilium.io/ips", "192.0.2.7")), "",
			plain(func(s *clusterv1.LoadBalancerSpec) { s.Addresses = []string{"192.0.2.7"} }), nil},
		{"ours before others'", web(annotated("metallb.io/loadBalancerIPs", "192.0.2.7"), annotated(v1alpha1.AnnotationAddresses, "192.0.2.8")), "",
			plain(func(s *clusterv1.LoadBalancerSpec) { s.Addresses = []string{"192.0.2.8"} }), nil},
		{"kube-vip's word for any address", web(annotated("kube-vip.io/loadbalancerIPs", "0.0.0.0")), "", plain(),
			[]string{"Invalid metadata.annotations[kube-vip.io/loadbalancerIPs]"}},
		{"no address", web(annotated(v1alpha1.AnnotationAddresses, "mine")), "", plain(),
			[]string{"Invalid metadata.annotations[fairlead.dev/addresses]"}},
		{"pools", web(annotated(v1alpha1.AnnotationAddressPool, "a, b")), "",
			plain(func(s *clusterv1.LoadBalancerSpec) { s.AddressPools = []string{"a", "b"} }), nil},
		{"PROXY protocol", web(annotated(v1alpha1.AnnotationProxyProtocol, "v2")), "",
			plain(func(s *clusterv1.LoadBalancerSpec) { s.ProxyProtocol = "V2" }), nil},
		{"no PROXY protocol", web(annotated(v1alpha1.AnnotationProxyProtocol, "v3")), "", plain(noPorts),
			[]string{"Invalid metadata.annotations[fairlead.dev/proxy-protocol]"}},
		{"drain timeout", web(annotated(v1alpha1.AnnotationDrainTimeout, "90s")), "",
			plain(func(s *clusterv1.LoadBalancerSpec) { s.DrainTimeout = &metav1.Duration{Duration: 90 * time.Second} }), nil},
		{"no drain timeout", web(annotated(v1alpha1.AnnotationDrainTimeout, "90")), "", plain(),
			[]string{"Invalid metadata.annotations[fairlead.dev/drain-timeout]"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := service.Want(c.s, c.class, nil)
			if !equality.Semantic.DeepEqual(got.Spec, c.want) {
				t.Errorf("spec %+v\nwant %+v", got.Spec, c.want)
			}
			var problems []string
			for _, p := range got.Problems {
				problems = append(problems, p.Reason+" "+p.Field)
				if p.Message == "" {
					t.Errorf("no message in %+v", p)
				}
			}
			if !slices.Equal(problems, c.problems) {
				t.Errorf("problems %q, want %q", problems, c.problems)
			}
			again := hubs(func(l *clusterv1.LoadBalancer) { l.Spec, l.Annotations = got.Spec, got.Annotations })
			if next := service.Want(c.s, c.class, again); !next.Same(again) || next.Reborn(again) {
				t.Errorf("what was written is written again: %+v", next)
			}
		})
	}
}

func TestTheAddressInTheStatusIsAWish(t *testing.T) {
	s := web(func(s *v1.Service) { s.Status.LoadBalancer.Ingress = []v1.LoadBalancerIngress{{IP: "192.0.2.7"}} })
	wants := func(l *clusterv1.LoadBalancer) []string { return service.Want(s, "", l).Spec.Addresses }
	wishing := func(l *clusterv1.LoadBalancer) { l.Spec.Addresses = []string{"192.0.2.7"} }
	refusing := func(l *clusterv1.LoadBalancer) {
		l.Status.Conditions = []metav1.Condition{{Type: clusterv1.ConditionAddressGranted, Status: metav1.ConditionFalse, Reason: clusterv1.ReasonAddressInUse, ObservedGeneration: 1}}
	}
	if got := wants(nil); !slices.Equal(got, []string{"192.0.2.7"}) {
		t.Errorf("a hub that lost it: %q", got)
	}
	if got := wants(hubs()); got != nil {
		t.Errorf("a hub that has it: %q", got)
	}
	if got := wants(hubs(wishing)); !slices.Equal(got, []string{"192.0.2.7"}) {
		t.Errorf("a hub that is still to grant it: %q", got)
	}
	refused := hubs(wishing, refusing)
	if got := wants(refused); got != nil || !service.WishDropped(service.Want(s, "", refused), refused) {
		t.Errorf("a hub that gave it away: %q", got)
	}
	named := hubs(wishing, refusing)
	s.Spec.LoadBalancerIP = "192.0.2.7"
	if got := wants(named); !slices.Equal(got, []string{"192.0.2.7"}) || service.WishDropped(service.Want(s, "", named), named) {
		t.Errorf("what the Service names stays named: %q", got)
	}
}

// An older agent didn't read others' annotations: what it served stays where it is.
func TestOthersAnnotationsMoveNothingThatIsServed(t *testing.T) {
	shows := func(s *v1.Service) { s.Status.LoadBalancer.Ingress = []v1.LoadBalancerIngress{{IP: "192.0.2.55"}} }
	held := func(s *v1.Service) {
		finalized(s)
		s.Annotations[v1alpha1.AnnotationLoadBalancer] = service.Name(service.Key(s))
	}
	metallb := annotated("metallb.io/loadBalancerIPs", "192.0.2.10, 2001:db8::10")
	has := func(addresses ...string) *clusterv1.LoadBalancer {
		return hubs(func(l *clusterv1.LoadBalancer) { l.Spec.Addresses = addresses })
	}
	for _, c := range []struct {
		name string
		s    *v1.Service
		l    *clusterv1.LoadBalancer
		want []string
	}{
		{"new to us", web(metallb), nil, []string{"192.0.2.10", "2001:db8::10"}},
		{"new to us, and served by another", web(metallb, shows), nil, []string{"192.0.2.10", "2001:db8::10"}},
		{"new to us, and marked before the hub was told", web(metallb, held), nil, []string{"192.0.2.10", "2001:db8::10"}},
		{"served at another address", web(metallb, shows, held), has(), nil},
		{"served at another address, which the hub lost", web(metallb, shows, held), nil, []string{"192.0.2.55"}},
		{"served at another address, which is a wish", web(metallb, shows, held), has("192.0.2.55"), []string{"192.0.2.55"}},
		{"asked for already", web(metallb, held), has("192.0.2.10", "2001:db8::10"), []string{"192.0.2.10", "2001:db8::10"}},
		{"one of two asked for already", web(metallb, held), has("192.0.2.10"), []string{"192.0.2.10"}},
		{"loadBalancerIP is ours to read", web(metallb, shows, held, func(s *v1.Service) { s.Spec.LoadBalancerIP = "192.0.2.9" }), has(), []string{"192.0.2.9"}},
		{"so is our annotation", web(metallb, shows, held, annotated(v1alpha1.AnnotationAddresses, "192.0.2.8")), has(), []string{"192.0.2.8"}},
	} {
		if got := service.Want(c.s, "", c.l).Spec.Addresses; !slices.Equal(got, c.want) {
			t.Errorf("%s: it wants %q, and should want %q", c.name, got, c.want)
		}
	}
}

func TestOnlyAddressesOfItsFamiliesAreWished(t *testing.T) {
	s := web(func(s *v1.Service) {
		s.Spec.IPFamilies = []v1.IPFamily{v1.IPv6Protocol}
		s.Status.LoadBalancer.Ingress = []v1.LoadBalancerIngress{{IP: "192.0.2.7"}, {IP: "2001:db8::7"}}
	})
	if got := service.Want(s, "", nil).Spec.Addresses; !slices.Equal(got, []string{"2001:db8::7"}) {
		t.Errorf("%q", got)
	}
	s.Spec.IPFamilies = append(s.Spec.IPFamilies, v1.IPv4Protocol)
	short := hubs(func(l *clusterv1.LoadBalancer) {
		l.Spec.Addresses = []string{"192.0.2.7", "2001:db8::7"}
		l.Status.Conditions = []metav1.Condition{
			{Type: clusterv1.ConditionAddressGranted, Status: metav1.ConditionTrue, Reason: clusterv1.ReasonAddressGranted, ObservedGeneration: 1},
			{Type: clusterv1.ConditionDegraded, Status: metav1.ConditionTrue, Reason: clusterv1.ReasonAddressInUse, ObservedGeneration: 1},
		}
	})
	if got := service.Want(s, "", short).Spec.Addresses; got != nil {
		t.Errorf("one was given away, and both are still wished: %q", got)
	}
}

func TestClassChangeNeedsANewLoadBalancer(t *testing.T) {
	was := service.Want(web(), "edge", nil)
	l := hubs(func(l *clusterv1.LoadBalancer) { l.Spec, l.Annotations = was.Spec, was.Annotations })
	for class, want := range map[string]bool{"edge": false, "gold": true, "": true} {
		if got := service.Want(web(), class, l).Reborn(l); got != want {
			t.Errorf("from edge to %q: %t", class, got)
		}
	}
	defaulted := hubs(func(l *clusterv1.LoadBalancer) { l.Spec = plain(); l.Spec.ClassName = "edge" })
	w := service.Want(web(), "", defaulted)
	if w.Reborn(defaulted) || !w.Same(defaulted) {
		t.Error("the manager's default isn't left alone")
	}
}

// A Service of type NodePort that is exposed wants what one of type LoadBalancer does, but for what that type has of its own.
func TestWantOfNodePort(t *testing.T) {
	closed := false
	local := func(s *v1.Service) { s.Spec.ExternalTrafficPolicy = v1.ServiceExternalTrafficPolicyLocal }
	udp := func(s *v1.Service) { s.Spec.Ports[0].Protocol = v1.ProtocolUDP }
	for _, c := range []struct {
		name     string
		s        *v1.Service
		want     clusterv1.LoadBalancerSpec
		problems []string
	}{
		{"plain", web(exposed("true")), plain(), nil},
		{"Local: a node without a Pod drops what comes to the nodePort", web(exposed("true"), local), plain(func(s *clusterv1.LoadBalancerSpec) {
			s.HealthCheck, s.FailOpen = &clusterv1.HealthCheck{Type: clusterv1.HealthCheckTCP, Port: 31080}, &closed
		}), nil},
		{"Local, UDP", web(exposed("true"), local, udp), plain(func(s *clusterv1.LoadBalancerSpec) { s.Ports = nil }), []string{"spec.externalTrafficPolicy"}},
		{"Local, UDP beside TCP", web(exposed("true"), local, udp, func(s *v1.Service) {
			s.Spec.Ports = append(s.Spec.Ports, v1.ServicePort{Name: "tcp", Protocol: v1.ProtocolTCP, Port: 80, NodePort: 31081})
		}), plain(func(s *clusterv1.LoadBalancerSpec) {
			s.Ports[0].Protocol = clusterv1.ProtocolUDP
			s.Ports = append(s.Ports, clusterv1.Port{Name: "tcp", Protocol: clusterv1.ProtocolTCP, Port: 80, TargetPort: 31081})
			s.HealthCheck, s.FailOpen = &clusterv1.HealthCheck{Type: clusterv1.HealthCheckTCP, Port: 31081}, &closed
		}), nil},
		{"no word that is known", web(exposed("yes")), plain(func(s *clusterv1.LoadBalancerSpec) { s.Ports = nil }), []string{"metadata.annotations[fairlead.dev/expose-nodeport]"}},
		{"its address, when the hub lost it", web(exposed("true"), annotated(v1alpha1.AnnotationPublished, "192.0.2.7")), plain(func(s *clusterv1.LoadBalancerSpec) { s.Addresses = []string{"192.0.2.7"} }), nil},
	} {
		w := service.Want(c.s, "", nil)
		var problems []string
		for _, p := range w.Problems {
			problems = append(problems, p.Field)
		}
		if !equality.Semantic.DeepEqual(w.Spec, c.want) || !slices.Equal(problems, c.problems) {
			t.Errorf("%s: %+v, %q; want %+v", c.name, w.Spec, problems, c.want)
		}
	}
}
