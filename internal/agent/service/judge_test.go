package service_test

import (
	"testing"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/agent/service"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

const yes, no = metav1.ConditionTrue, metav1.ConditionFalse

func says(kind string, status metav1.ConditionStatus, reason, message string) func(*clusterv1.LoadBalancer) {
	return func(l *clusterv1.LoadBalancer) {
		l.Status.Conditions = append(l.Status.Conditions, metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message, ObservedGeneration: l.Generation})
	}
}

func at(addresses ...string) func(*clusterv1.LoadBalancer) {
	return func(l *clusterv1.LoadBalancer) {
		for _, a := range addresses {
			l.Status.Addresses = append(l.Status.Addresses, clusterv1.LoadBalancerAddress{Type: clusterv1.AddressTypeIP, Value: a})
		}
	}
}

func portError(port int32, reason, message string) func(*clusterv1.LoadBalancer) {
	return func(l *clusterv1.LoadBalancer) {
		l.Status.Ports = append(l.Status.Ports, clusterv1.PortStatus{Port: port, Protocol: clusterv1.ProtocolTCP, Error: reason, Message: message})
	}
}

func stale(l *clusterv1.LoadBalancer) { l.Generation = 2 }

var programmed = says(clusterv1.ConditionProgrammed, yes, clusterv1.ReasonProgrammed, "")

func TestJudge(t *testing.T) {
	port := []service.Problem{{Port: 80, Protocol: v1.ProtocolTCP, Reason: "NoNodePort", Message: "set one"}}
	field := []service.Problem{{Field: "spec.x", Reason: "Invalid", Message: "mend it"}}
	all := []service.Problem{{Field: "spec.x", Reason: "Invalid", Message: "mend it", Refuses: true}}
	two := web(func(s *v1.Service) { s.Spec.Ports = append(s.Spec.Ports, v1.ServicePort{Port: 8080, NodePort: 31081}) })
	for _, c := range []struct {
		name     string
		s        *v1.Service
		problems []service.Problem
		l        *clusterv1.LoadBalancer
		want     service.Verdict
	}{
		{"nothing in the hub yet", web(), nil, nil, service.Verdict{}},
		{"nothing said yet", web(), nil, hubs(), service.Verdict{}},
		{"served", web(), nil, hubs(programmed, at("192.0.2.7")), service.Verdict{Status: yes, Reason: "Programmed", Message: "Served at 192.0.2.7"}},
		{"served, as it was before", web(), nil, hubs(programmed, at("192.0.2.7"), stale), service.Verdict{}},
		{"going", web(), nil, hubs(programmed, func(l *clusterv1.LoadBalancer) { l.DeletionTimestamp = &metav1.Time{} }), service.Verdict{}},
		{"proxies are about to follow", web(), nil, hubs(says(clusterv1.ConditionProgrammed, no, clusterv1.ReasonWaitingForProxies, "edge-1")), service.Verdict{}},
		{"no proxies", web(), nil, hubs(says(clusterv1.ConditionProgrammed, no, clusterv1.ReasonNoProxies, "start one")), service.Verdict{Status: no, Reason: "NoProxies", Message: "start one"}},
		{"refused", web(), nil, hubs(says(clusterv1.ConditionAccepted, no, clusterv1.ReasonClassNotFound, "name another"), says(clusterv1.ConditionAddressGranted, no, clusterv1.ReasonPending, "")),
			service.Verdict{Status: no, Reason: "ClassNotFound", Message: "LoadBalancer " + hubs().Name + " of the hub: name another"}},
		{"no address", web(), nil, hubs(says(clusterv1.ConditionAccepted, yes, "Accepted", ""), says(clusterv1.ConditionAddressGranted, no, clusterv1.ReasonPoolExhausted, "delete one")),
			service.Verdict{Status: no, Reason: "PoolExhausted", Message: "delete one"}},
		{"one of two ports", two, nil, hubs(programmed, at("192.0.2.7"), portError(80, "PortNotPermitted", "use one above 1023"), says(clusterv1.ConditionDegraded, yes, clusterv1.ReasonPartlyServed, "some")),
			service.Verdict{Status: no, Reason: "PortNotPermitted", Message: "Port 80/TCP: use one above 1023"}},
		{"no port", web(), nil, hubs(says(clusterv1.ConditionProgrammed, no, clusterv1.ReasonNotServed, "none"), portError(80, "PortInUse", "another")),
			service.Verdict{Status: no, Reason: "PortInUse", Message: "Port 80/TCP: another"}},
		{"a port is named once", web(), nil, hubs(says(clusterv1.ConditionProgrammed, no, clusterv1.ReasonNotServed, "none"), portError(80, "PortInUse", "Port TCP/80 of 192.0.2.7 is held")),
			service.Verdict{Status: no, Reason: "PortInUse", Message: "Port TCP/80 of 192.0.2.7 is held"}},
		{"served without something", web(), nil, hubs(programmed, says(clusterv1.ConditionDegraded, yes, clusterv1.ReasonNotSupported, "affinity")),
			service.Verdict{Status: yes, Reason: "NotSupported", Message: "affinity"}},
		{"a port of ours, all of them", web(), port, nil, service.Verdict{Status: no, Reason: "NoNodePort", Message: "Port 80/TCP: set one"}},
		{"a port of ours, one of two", two, port, hubs(programmed, at("192.0.2.7")), service.Verdict{Status: no, Reason: "NoNodePort", Message: "Port 80/TCP: set one"}},
		{"a field of ours", web(), field, hubs(programmed, at("192.0.2.7")), service.Verdict{Status: yes, Reason: "Invalid", Message: "spec.x: mend it"}},
		{"a field that refuses all", web(), all, nil, service.Verdict{Status: no, Reason: "Invalid", Message: "spec.x: mend it"}},
	} {
		if got := service.Judge(c.s, c.problems, c.l); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

func TestIngress(t *testing.T) {
	proxy := ptr.To(v1.LoadBalancerIPModeProxy)
	ok := []v1.PortStatus{{Port: 80, Protocol: v1.ProtocolTCP}}
	bad := []v1.PortStatus{{Port: 80, Protocol: v1.ProtocolTCP, Error: ptr.To("PortInUse")}}
	published := func(s *v1.Service) {
		s.Status.LoadBalancer.Ingress = []v1.LoadBalancerIngress{{IP: "192.0.2.7", IPMode: proxy, Ports: ok}}
	}
	waiting := says(clusterv1.ConditionProgrammed, no, clusterv1.ReasonWaitingForProxies, "")
	for _, c := range []struct {
		name string
		s    *v1.Service
		l    *clusterv1.LoadBalancer
		want []v1.LoadBalancerIngress
	}{
		{"granted, not served yet", web(), hubs(at("192.0.2.7"), waiting), nil},
		{"served", web(), hubs(at("192.0.2.7"), programmed), []v1.LoadBalancerIngress{{IP: "192.0.2.7", IPMode: proxy, Ports: ok}}},
		{"served, but for a port", web(), hubs(at("192.0.2.7"), programmed, portError(80, "PortInUse", "")), []v1.LoadBalancerIngress{{IP: "192.0.2.7", IPMode: proxy, Ports: bad}}},
		{"published stays", web(published), hubs(waiting), []v1.LoadBalancerIngress{{IP: "192.0.2.7", IPMode: proxy, Ports: ok}}},
		{"published stays until another is served", web(published), hubs(at("192.0.2.8"), programmed, stale), []v1.LoadBalancerIngress{{IP: "192.0.2.7", IPMode: proxy, Ports: ok}}},
		{"replaced", web(published), hubs(at("192.0.2.8"), programmed), []v1.LoadBalancerIngress{{IP: "192.0.2.8", IPMode: proxy, Ports: ok}}},
		{"the Service's first family first", web(func(s *v1.Service) { s.Spec.IPFamilies = []v1.IPFamily{v1.IPv6Protocol, v1.IPv4Protocol} }), hubs(at("192.0.2.7", "2001:db8::7"), programmed),
			[]v1.LoadBalancerIngress{{IP: "2001:db8::7", IPMode: proxy, Ports: ok}, {IP: "192.0.2.7", IPMode: proxy, Ports: ok}}},
		{"what is shown keeps its place", web(published, func(s *v1.Service) { s.Spec.IPFamilies = []v1.IPFamily{v1.IPv6Protocol, v1.IPv4Protocol} }), hubs(at("2001:db8::7", "192.0.2.7"), programmed),
			[]v1.LoadBalancerIngress{{IP: "192.0.2.7", IPMode: proxy, Ports: ok}, {IP: "2001:db8::7", IPMode: proxy, Ports: ok}}},
		{"a name has no mode", web(), hubs(programmed, func(l *clusterv1.LoadBalancer) {
			l.Status.Addresses = []clusterv1.LoadBalancerAddress{{Type: clusterv1.AddressTypeHostname, Value: "x.example"}}
		}), []v1.LoadBalancerIngress{{Hostname: "x.example", Ports: ok}}},
	} {
		if got := service.Ingress(c.s, service.InStatus, nil, c.l); !equality.Semantic.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// Where the status can't say it, the annotation does: in the same order, and as sticky.
func TestPublishedInTheAnnotation(t *testing.T) {
	shown := annotated(v1alpha1.AnnotationPublished, "192.0.2.7,2001:db8::7")
	waiting := says(clusterv1.ConditionProgrammed, no, clusterv1.ReasonWaitingForProxies, "")
	for _, c := range []struct {
		name string
		s    *v1.Service
		l    *clusterv1.LoadBalancer
		want string
	}{
		{"granted, not served yet", web(exposed("true")), hubs(at("192.0.2.7"), waiting), ""},
		{"served", web(exposed("true")), hubs(at("192.0.2.7"), programmed), "192.0.2.7"},
		{"what the status says is not ours", web(exposed("true"), func(s *v1.Service) {
			s.Status.LoadBalancer.Ingress = []v1.LoadBalancerIngress{{IP: "192.0.2.200"}}
		}), hubs(at("192.0.2.7"), waiting), ""},
		{"published stays", web(exposed("true"), shown), hubs(waiting), "192.0.2.7,2001:db8::7"},
		{"what is shown keeps its place", web(exposed("true"), shown), hubs(at("2001:db8::7", "192.0.2.7", "192.0.2.8"), programmed), "192.0.2.7,2001:db8::7,192.0.2.8"},
		{"a name", web(exposed("true")), hubs(programmed, func(l *clusterv1.LoadBalancer) {
			l.Status.Addresses = []clusterv1.LoadBalancerAddress{{Type: clusterv1.AddressTypeHostname, Value: "x.example"}}
		}), "x.example"},
	} {
		got := service.Ingress(c.s, service.InAnnotation, nil, c.l)
		if service.Published(got) != c.want {
			t.Errorf("%s: %+v, want %s", c.name, got, c.want)
		}
		c.s.Annotations[v1alpha1.AnnotationPublished] = service.Published(got)
		if again := service.Shown(c.s, service.InAnnotation); !equality.Semantic.DeepEqual(again, got) {
			t.Errorf("%s: what is written, %+v, is read as %+v", c.name, got, again)
		}
	}
}
