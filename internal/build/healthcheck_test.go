package build

import (
	"testing"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/internal/lb"
)

func TestWhatSaysSomethingOfATargetGroup(t *testing.T) {
	nodes := &clusterv1.HealthCheck{Type: clusterv1.HealthCheckHTTP, Port: 10256, Path: "/healthz"}
	for _, c := range []struct {
		name     string
		own      *clusterv1.HealthCheck
		reported string
		want     bool
	}{
		{"its own", nodes, lb.Check{Kind: lb.CheckHTTP, Port: 10256, Path: "/healthz"}.String(), true},
		{"one Service's", nodes, lb.Check{Kind: lb.CheckHTTP, Port: 32000, Path: "/healthz"}.String(), false},
		{"another path", nodes, lb.Check{Kind: lb.CheckHTTP, Port: 10256, Path: "/"}.String(), false},
		{"another kind", nodes, lb.Check{Kind: lb.CheckTCP, Port: 10256}.String(), false},
		{"a name", nodes, "DNS", true},
		{"none of its own", nil, lb.Check{Kind: lb.CheckTCP, Port: 31080}.String(), true},
		{"one that makes no sense", &clusterv1.HealthCheck{Type: "x"}, lb.Check{Kind: lb.CheckTCP, Port: 31080}.String(), true},
		{"the port of the traffic", &clusterv1.HealthCheck{Type: clusterv1.HealthCheckTCP}, lb.Check{Kind: lb.CheckTCP, Port: 31080}.String(), true},
		{"the port of the traffic, another kind", &clusterv1.HealthCheck{Type: clusterv1.HealthCheckTCP}, lb.Check{Kind: lb.CheckHTTP, Port: 31080, Path: "/"}.String(), false},
		{"the port of the traffic, a default path", &clusterv1.HealthCheck{Type: clusterv1.HealthCheckHTTPS}, lb.Check{Kind: lb.CheckHTTPS, Port: 31443, Path: "/"}.String(), true},
	} {
		if got := OfTargetGroup(c.own, c.reported); got != c.want {
			t.Errorf("%s: %s says something of it: %t", c.name, c.reported, got)
		}
	}
}

// Nodes without kube-proxy are checked by their TargetGroup's check of TCP that names no port: each port of TCP is asked itself, and
// nothing is asked of one of another protocol.
func TestACheckWithoutAPortAsksTheTrafficsOwn(t *testing.T) {
	group := &clusterv1.HealthCheck{Type: clusterv1.HealthCheckTCP}
	class := &clusterv1.HealthCheck{Type: clusterv1.HealthCheckTCP}
	for protocol, want := range map[lb.Protocol]string{lb.TCP: "TCP:31080", lb.UDP: "None", lb.SCTP: "None"} {
		if c := checkFrom(protocol, 31080, false, nil, group, class); c.String() != want {
			t.Errorf("%s: %s", protocol, c)
		}
	}
	own := &clusterv1.HealthCheck{Type: clusterv1.HealthCheckHTTP, Port: 32000, Path: "/healthz"}
	if c := checkFrom(lb.UDP, 31080, false, own, group, class); c.String() != "HTTP:32000/healthz" {
		t.Errorf("a LoadBalancer's own: %s", c)
	}
}

// A control plane's targets are asked for readyz, where nobody says otherwise.
func TestControlPlanesAreAskedWhetherTheyAreReady(t *testing.T) {
	tcp := &clusterv1.HealthCheck{Type: clusterv1.HealthCheckTCP}
	for name, c := range map[string]struct {
		protocol          lb.Protocol
		own, group, class *clusterv1.HealthCheck
		want              string
	}{
		"by default":        {protocol: lb.TCP, want: "HTTPS:6443/readyz"},
		"not over UDP":      {protocol: lb.UDP, want: "None"},
		"its own":           {protocol: lb.TCP, own: tcp, want: "TCP:6443"},
		"the TargetGroup's": {protocol: lb.TCP, group: tcp, want: "TCP:6443"},
		"the class's":       {protocol: lb.TCP, class: tcp, want: "TCP:6443"},
	} {
		got := checkFrom(c.protocol, 6443, true, c.own, c.group, c.class)
		if got.String() != c.want || got.Lenient != (name == "by default") {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// Of a control plane of three, one that hangs is found out before its clients have lost what they ask in 2 s. An API server that waits for
// etcd, for 2 s, isn't taken for one that hangs.
func TestAnAPIServerThatHangsIsFoundOutInTime(t *testing.T) {
	c := readyz(6443)
	latest := 11*c.Interval/10 + time.Duration(c.Fall)*c.Timeout // from one check to the next it is a tenth more at most
	if shared := latest / 3; shared > 2*time.Second {
		t.Errorf("it is after %s: %s worth of all requests", latest, shared)
	}
	if c.Timeout < 2*time.Second {
		t.Errorf("it is asked for %s", c.Timeout)
	}
}

// Only a control plane's Machines are taken for API servers: of other targets nobody knows what they are.
func TestWhoseTargetsAreAPIServers(t *testing.T) {
	for name, c := range map[string]struct {
		role    clusterv1.Role
		cluster string
		want    bool
	}{
		"a control plane's Machines":     {clusterv1.RoleControlPlane, "prod", true},
		"a control plane's TargetGroups": {clusterv1.RoleControlPlane, "", false},
		"a workload's Machines":          {clusterv1.RoleWorkload, "prod", false},
		"Machines of no role":            {"", "prod", false},
	} {
		if got := ofAPIServers(&clusterv1.LoadBalancer{Spec: clusterv1.LoadBalancerSpec{Role: c.role, ClusterName: c.cluster}}); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// A provider's technology is asked for what proxies do, as far as one check of all ports can say it.
func TestHealthCheckElsewhere(t *testing.T) {
	tcp, http := &clusterv1.HealthCheck{Type: clusterv1.HealthCheckTCP}, &clusterv1.HealthCheck{Type: clusterv1.HealthCheckHTTP, Path: "/ok"}
	for name, c := range map[string]struct {
		role       clusterv1.Role
		ports      []clusterv1.Protocol
		cluster    string
		own, class *clusterv1.HealthCheck
		want       string
	}{
		"its own":                           {role: clusterv1.RoleControlPlane, cluster: "prod", own: tcp, class: http, want: "TCP:6443"},
		"the class's":                       {role: clusterv1.RoleControlPlane, cluster: "prod", class: http, want: "HTTP:6443/ok"},
		"the class's makes no sense":        {cluster: "prod", class: &clusterv1.HealthCheck{Type: "Ping"}},
		"a class's connection, not by UDP":  {ports: []clusterv1.Protocol{clusterv1.ProtocolUDP}, class: tcp},
		"of a control plane":                {role: clusterv1.RoleControlPlane, cluster: "prod", want: "HTTPS:6443/readyz"},
		"of a control plane, by TCP":        {role: clusterv1.RoleControlPlane, cluster: "prod", ports: []clusterv1.Protocol{"", clusterv1.ProtocolTCP}, want: "HTTPS:6443/readyz"},
		"of one with UDP":                   {role: clusterv1.RoleControlPlane, cluster: "prod", ports: []clusterv1.Protocol{"", clusterv1.ProtocolUDP}},
		"of a control plane's TargetGroups": {role: clusterv1.RoleControlPlane},
		"of a workload":                     {role: clusterv1.RoleWorkload, cluster: "prod"},
	} {
		l := &clusterv1.LoadBalancer{Spec: clusterv1.LoadBalancerSpec{Role: c.role, ClusterName: c.cluster, HealthCheck: c.own}}
		for _, p := range c.ports {
			l.Spec.Ports = append(l.Spec.Ports, clusterv1.Port{Port: 6443, Protocol: p})
		}
		got := ""
		if h := HealthCheckElsewhere(l, c.class); h != nil {
			got = checkOf(h, 6443).String()
		}
		if got != c.want {
			t.Errorf("%s: %q, not %q", name, got, c.want)
		}
	}
	here, elsewhere := readyz(6443), checkOf(Readyz(), 6443)
	if elsewhere.Alive, elsewhere.Lenient = "", true; here != elsewhere {
		t.Errorf("proxies ask %+v, and others %+v", here, elsewhere)
	}
	if _, fix := badHealthCheck(Readyz()); fix != "" {
		t.Errorf("others can't be asked: %s", fix)
	}
}
