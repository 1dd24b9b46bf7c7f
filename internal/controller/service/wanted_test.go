package service

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/build"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// wanted is a LoadBalancer of two ports over these groups.
func wanted(groups ...v1alpha1.TargetGroup) Wanted {
	w := Wanted{
		LoadBalancer: &clusterv1.LoadBalancer{
			ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "web", UID: "lb-1"},
			Spec: clusterv1.LoadBalancerSpec{ClassName: "cloud", Ports: []clusterv1.Port{
				{Name: "http", Protocol: clusterv1.ProtocolTCP, Port: 80, TargetPort: 30080}, {Name: "Not A Label", Protocol: clusterv1.ProtocolUDP, Port: 53},
			}},
		},
		Class: &v1alpha1.LoadBalancerClass{ObjectMeta: metav1.ObjectMeta{Name: "cloud"}, Spec: v1alpha1.LoadBalancerClassSpec{Service: &v1alpha1.ClassService{
			Type: "LoadBalancer", LoadBalancerClass: "example.com/lb", Annotations: map[string]string{"a": "1", "b": "2"}, Labels: map[string]string{"l": "1", v1alpha1.LabelFor: "forged"},
		}}},
		Groups: groups,
	}
	w.Problems = build.Validate(w.LoadBalancer, w.Class, nil)
	return w
}

func group(name string, targets ...v1alpha1.Target) v1alpha1.TargetGroup {
	return v1alpha1.TargetGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: name, UID: "g-1"}, Spec: v1alpha1.TargetGroupSpec{Targets: targets}}
}

func target(address string, change ...func(*v1alpha1.Target)) v1alpha1.Target {
	t := v1alpha1.Target{Name: "t" + address, UID: "u" + address, Addresses: []string{address}}
	for _, c := range change {
		c(&t)
	}
	return t
}

func unready(t *v1alpha1.Target)  { no := false; t.Ready = &no }
func draining(t *v1alpha1.Target) { t.State = v1alpha1.TargetDraining }
func weightless(t *v1alpha1.Target) {
	none := int32(0)
	t.Weight = &none
}
func zone(z string) func(*v1alpha1.Target) { return func(t *v1alpha1.Target) { t.Zone = z } }

func TestTheServiceOfALoadBalancer(t *testing.T) {
	w := wanted()
	s := w.into(&corev1.Service{})
	if s.Spec.Selector != nil || s.Spec.Type != "LoadBalancer" || *s.Spec.LoadBalancerClass != "example.com/lb" || s.Labels[v1alpha1.LabelFor] != "web" || s.Annotations["b"] != "2" {
		t.Errorf("%+v", s)
	}
	if p := s.Spec.Ports; p[0].Name != "http" || p[0].TargetPort.IntValue() != 30080 || p[1].Name != "port-udp-53" || p[1].TargetPort.IntValue() != 53 {
		t.Errorf("ports %+v", p)
	}
	if o := metav1.GetControllerOf(s); o == nil || o.UID != "lb-1" || o.BlockOwnerDeletion != nil {
		t.Errorf("owner %+v", o)
	}
	if again := w.into(s); !equality.Semantic.DeepEqual(again, s) {
		t.Errorf("it differs from itself: %+v, %+v", s, again)
	}

	// What others set stays, what the class no longer has goes, what they took comes back.
	s.Spec.Ports[0].NodePort, s.Spec.ClusterIP, s.Finalizers = 31000, "10.96.0.7", []string{"theirs"}
	s.Annotations["theirs"], s.Spec.Selector = "x", map[string]string{"app": "theirs"}
	delete(s.Labels, v1alpha1.LabelFor)
	w.Class.Spec.Service.Annotations = map[string]string{"b": "3"}
	w.Class.Spec.Service.Labels = nil
	w.LoadBalancer.Spec.Ports = append(w.LoadBalancer.Spec.Ports[1:], w.LoadBalancer.Spec.Ports[0])
	n := w.into(s)
	if n.Spec.Ports[1].NodePort != 31000 || n.Spec.ClusterIP != "10.96.0.7" || len(n.Finalizers) != 1 || n.Spec.Selector != nil ||
		fmt.Sprint(n.Labels) != "map[fairlead.dev/for:web]" || fmt.Sprint(slices.Sorted(maps.Keys(n.Annotations))) != "[b fairlead.dev/class-keys theirs]" || n.Annotations["b"] != "3" {
		t.Errorf("%+v %+v", n.ObjectMeta, n.Spec)
	}
}

func TestFieldsOfALoadBalancer(t *testing.T) {
	minute := metav1.Duration{Duration: time.Minute}
	for name, c := range map[string]struct {
		change func(*clusterv1.LoadBalancerSpec, *v1alpha1.ClassService)
		want   string
	}{
		"plain":    {nil, "None 0 [] SingleStack []"},
		"affinity": {func(s *clusterv1.LoadBalancerSpec, _ *v1alpha1.ClassService) { s.SessionAffinity = "ClientIP" }, "ClientIP 10800 [] SingleStack []"},
		"for minutes": {func(s *clusterv1.LoadBalancerSpec, _ *v1alpha1.ClassService) {
			s.SessionAffinity, s.SessionAffinityTimeout = "ClientIP", &minute
		}, "ClientIP 60 [] SingleStack []"},
		"sources": {func(s *clusterv1.LoadBalancerSpec, _ *v1alpha1.ClassService) { s.SourceRanges = []string{"10.0.0.0/8"} }, "None 0 [10.0.0.0/8] SingleStack []"},
		"both": {func(s *clusterv1.LoadBalancerSpec, _ *v1alpha1.ClassService) {
			s.IPFamilies = []clusterv1.IPFamily{"IPv6", "IPv4"}
		}, "None 0 [] RequireDualStack [IPv6 IPv4]"},
		"prefers": {func(s *clusterv1.LoadBalancerSpec, _ *v1alpha1.ClassService) {
			s.IPFamilies, s.IPFamilyPolicy = []clusterv1.IPFamily{"IPv6"}, "PreferDualStack"
		}, "None 0 [] PreferDualStack [IPv6]"},
		"single of two": {func(s *clusterv1.LoadBalancerSpec, _ *v1alpha1.ClassService) {
			s.IPFamilies, s.IPFamilyPolicy = []clusterv1.IPFamily{"IPv6", "IPv4"}, "SingleStack"
		}, "None 0 [] SingleStack [IPv6]"},
	} {
		t.Run(name, func(t *testing.T) {
			w := wanted()
			if c.change != nil {
				c.change(&w.LoadBalancer.Spec, w.Class.Spec.Service)
			}
			s, seconds := w.into(&corev1.Service{}), int32(0)
			if f := s.Spec.SessionAffinityConfig; f != nil {
				seconds = *f.ClientIP.TimeoutSeconds
			}
			if got := fmt.Sprintf("%s %d %v %s %v", s.Spec.SessionAffinity, seconds, s.Spec.LoadBalancerSourceRanges, *s.Spec.IPFamilyPolicy, s.Spec.IPFamilies); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

// endpointsOf says what the slices of a dual stack Service have, a slice each, as "group family: address ready,serving,terminating …".
func endpointsOf(w Wanted) (string, *Lack) {
	s := w.into(&corev1.Service{})
	s.UID, s.Spec.IPFamilies = "s-1", []corev1.IPFamily{"IPv4", "IPv6"}
	made, lack := w.slices(s)
	var out []string
	for _, x := range made {
		var es []string
		for _, e := range x.Endpoints {
			c := e.Conditions
			zones := ""
			if e.Hints != nil {
				zones = "@" + e.Hints.ForZones[0].Name
			}
			es = append(es, fmt.Sprintf("%s%s/%d%d%d", e.Addresses[0], zones, bit(c.Ready), bit(c.Serving), bit(c.Terminating)))
		}
		out = append(out, string(x.AddressType)+" "+strings.Join(es, " "))
	}
	slices.Sort(out)
	return strings.Join(out, "; "), lack
}

func bit(b *bool) int {
	if *b {
		return 1
	}
	return 0
}

// TestEndpoints reads as: of these groups, these endpoints with ready, serving and terminating.
func TestEndpoints(t *testing.T) {
	six := func(t *v1alpha1.Target) { t.Addresses = append(t.Addresses, "fd00::1") }
	closed := func(w *Wanted) { no := false; w.LoadBalancer.Spec.FailOpen = &no }
	near := func(w *Wanted) { w.LoadBalancer.Spec.TrafficDistribution = clusterv1.PreferSameZone }
	for name, c := range map[string]struct {
		groups []v1alpha1.TargetGroup
		change func(*Wanted)
		want   string
		lack   string
	}{
		"none":               {want: "", lack: clusterv1.ReasonNoActiveTargets},
		"plain":              {groups: []v1alpha1.TargetGroup{group("a", target("10.0.0.2", six), target("10.0.0.1"))}, want: "IPv4 10.0.0.1/110 10.0.0.2/110; IPv6 fd00::1/110"},
		"unready":            {groups: []v1alpha1.TargetGroup{group("a", target("10.0.0.1", unready, six), target("10.0.0.2"), target("fd00::2"))}, want: "IPv4 10.0.0.1/000 10.0.0.2/110; IPv6 fd00::1/000 fd00::2/110"},
		"draining":           {groups: []v1alpha1.TargetGroup{group("a", target("10.0.0.1", draining), target("10.0.0.2", six), target("10.0.0.3", draining, unready))}, want: "IPv4 10.0.0.1/011 10.0.0.2/110 10.0.0.3/001; IPv6 fd00::1/110"},
		"weight 0":           {groups: []v1alpha1.TargetGroup{group("a", target("10.0.0.1", weightless), target("10.0.0.2", six))}, want: "IPv4 10.0.0.1/010 10.0.0.2/110; IPv6 fd00::1/110"},
		"all unready":        {groups: []v1alpha1.TargetGroup{group("a", target("10.0.0.1", unready, six)), group("b", target("10.0.0.2", unready, draining))}, want: "IPv4 10.0.0.1/110; IPv4 10.0.0.2/001; IPv6 fd00::1/110"},
		"closed":             {groups: []v1alpha1.TargetGroup{group("a", target("10.0.0.1", unready, six))}, change: closed, want: "IPv4 10.0.0.1/000; IPv6 fd00::1/000", lack: clusterv1.ReasonNoActiveTargets},
		"all draining":       {groups: []v1alpha1.TargetGroup{group("a", target("10.0.0.1", draining, six))}, want: "IPv4 10.0.0.1/011; IPv6 fd00::1/011", lack: clusterv1.ReasonNoActiveTargets},
		"in two groups":      {groups: []v1alpha1.TargetGroup{group("b", target("10.0.0.1", six)), group("a", target("10.0.0.1", draining))}, want: "IPv4 10.0.0.1/110; IPv6 fd00::1/110"},
		"zones":              {groups: []v1alpha1.TargetGroup{group("a", target("10.0.0.1", six, zone("eu-1a")), target("10.0.0.2", zone("not a label")))}, change: near, want: "IPv4 10.0.0.1@eu-1a/110 10.0.0.2/110; IPv6 fd00::1@eu-1a/110"},
		"named, and its own": {groups: []v1alpha1.TargetGroup{group("a", target("10.0.0.1", six), target("lb.example.com"), target("127.0.0.1"))}, want: "IPv4 10.0.0.1/110; IPv6 fd00::1/110", lack: clusterv1.ReasonNotSupported},
	} {
		t.Run(name, func(t *testing.T) {
			w := wanted(c.groups...)
			if c.change != nil {
				c.change(&w)
			}
			got, lack := endpointsOf(w)
			if got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			if lack == nil && c.lack != "" || lack != nil && lack.Reason != c.lack {
				t.Errorf("lacks %+v, want %q", lack, c.lack)
			}
		})
	}
}

// TestWhyNoTargetIsLeftIsSaid: where all targets are left out, a tenant reads for what reason.
func TestWhyNoTargetIsLeftIsSaid(t *testing.T) {
	_, lack := endpointsOf(wanted(group("nodes-0", target("127.0.0.1"))))
	if lack == nil || lack.Reason != clusterv1.ReasonNoActiveTargets || !strings.Contains(lack.Message, "TargetGroup nodes-0: 127.0.0.1 of target") {
		t.Errorf("lacks %+v", lack)
	}
}

// TestAnEndpointStaysInItsSlice: of two hundred targets in two groups, one more and one less touch one slice each.
func TestAnEndpointStaysInItsSlice(t *testing.T) {
	var groups []v1alpha1.TargetGroup
	for g := range 2 {
		x := group(fmt.Sprintf("nodes-%d", g))
		for i := range 100 {
			x.Spec.Targets = append(x.Spec.Targets, target(fmt.Sprintf("10.0.%d.%d", g, i+1)))
		}
		groups = append(groups, x)
	}
	slicesOf := func() map[string]*discoveryv1.EndpointSlice {
		w := wanted(groups...)
		s := w.into(&corev1.Service{})
		s.Spec.IPFamilies = []corev1.IPFamily{"IPv4"}
		out := map[string]*discoveryv1.EndpointSlice{}
		made, _ := w.slices(s)
		for _, x := range made {
			out[x.Name] = x
			if len(validation.IsDNS1123Subdomain(x.Name)) > 0 || len(x.Endpoints) > 100 || *x.Ports[0].Name != "http" || *x.Ports[0].Port != 30080 || *x.Ports[1].Port != 53 {
				t.Errorf("%s %+v, %d endpoints", x.Name, x.Ports, len(x.Endpoints))
			}
		}
		return out
	}
	before := slicesOf()
	groups[1].Spec.Targets = groups[1].Spec.Targets[1:]
	after := slicesOf()
	changed := 0
	for name, x := range after {
		if !equality.Semantic.DeepEqual(x, before[name]) {
			changed++
		}
	}
	if len(before) != 2 || len(after) != 2 || changed != 1 {
		t.Errorf("%d slices, then %d, of which %d changed", len(before), len(after), changed)
	}
}

func TestNames(t *testing.T) {
	for in, same := range map[string]bool{"web": true, "9web": false, "a.b": false, strings.Repeat("x", 63): true} {
		got := NameOf(in)
		if (got == in) != same || len(validation.IsDNS1035Label(got)) > 0 {
			t.Errorf("%s becomes %s", in, got)
		}
	}
}

func TestWhatAServiceSays(t *testing.T) {
	no, word := "", "PortInUse"
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "web"}, Spec: corev1.ServiceSpec{Type: "LoadBalancer", ClusterIPs: []string{"10.96.0.1"}}}
	s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{
		{IP: "203.0.113.7", Hostname: "both.example.com", Ports: []corev1.PortStatus{{Port: 80, Protocol: "TCP", Error: &no}, {Port: 53, Protocol: "UDP", Error: &word}}},
		{Hostname: "lb.example.com"}, {IP: "fd00::7"}, {IP: "junk"}, {},
	}
	out := read(s)
	if got := fmt.Sprint(out.Addresses); got != "[{IP 203.0.113.7 IPv4 } {Hostname lb.example.com  } {IP fd00::7 IPv6 }]" {
		t.Error(got)
	}
	if p, ok := out.Port(53, "UDP"); !ok || p.Error != word || len(out.Ports) != 1 {
		t.Errorf("%+v", out.Ports)
	}
	for range 20 {
		s.Status.LoadBalancer.Ingress = append(s.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: "203.0.113.9"})
	}
	if n := len(read(s).Addresses); n != maxAddresses {
		t.Errorf("%d addresses", n)
	}
	s.Spec.Type = "ClusterIP"
	if got := fmt.Sprint(read(s).Addresses); got != "[{IP 10.96.0.1 IPv4 }]" {
		t.Error(got)
	}
}

// A cloud's controller reads labels and annotations of Services: whoever writes LoadBalancers has no say in those.
func TestNoMetadataOfALoadBalancerReachesItsService(t *testing.T) {
	w := wanted()
	plain := w.into(&corev1.Service{})
	w.LoadBalancer.Labels = map[string]string{"l": "theirs", "team": "theirs"}
	w.LoadBalancer.Annotations = map[string]string{"a": "theirs", "service.beta.kubernetes.io/aws-load-balancer-scheme": "internet-facing"}
	if s := w.into(&corev1.Service{}); !equality.Semantic.DeepEqual(s, plain) {
		t.Errorf("labels %v, annotations %v", s.Labels, s.Annotations)
	}
}
