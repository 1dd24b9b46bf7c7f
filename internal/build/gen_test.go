package build

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/lb"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"
)

// The draws use few names, so that objects meet each other. Nearly all
// fields may be absurd: what a schema would refuse, too.

func drawMeta(t *rapid.T, namespaces []string, prefix string, n int) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: rapid.SampledFrom(namespaces).Draw(t, "namespace"),
		Name:      fmt.Sprintf("%s-%d", prefix, rapid.IntRange(0, n-1).Draw(t, "name")),
	}
}

func maybe[T any](t *rapid.T, label string, g *rapid.Generator[T]) *T {
	if !rapid.Bool().Draw(t, label+"?") {
		return nil
	}
	v := g.Draw(t, label)
	return &v
}

func drawDuration(t *rapid.T, label string) *metav1.Duration {
	return maybe(t, label, rapid.Map(rapid.SampledFrom([]time.Duration{0, time.Second, time.Minute, -time.Second, 1 << 62}),
		func(d time.Duration) metav1.Duration { return metav1.Duration{Duration: d} }))
}

func drawHealthCheck(t *rapid.T) *clusterv1.HealthCheck {
	if rapid.IntRange(0, 2).Draw(t, "check?") > 0 {
		return nil
	}
	return &clusterv1.HealthCheck{
		Type:     clusterv1.HealthCheckType(rapid.SampledFrom([]string{"TCP", "HTTP", "None", "", "Gopher"}).Draw(t, "type")),
		Port:     rapid.SampledFrom([]int32{0, 0, 10256, -1, 70000}).Draw(t, "check port"),
		Path:     rapid.SampledFrom([]string{"", "/healthz", "x y\r\n"}).Draw(t, "path"),
		Interval: drawDuration(t, "interval"),
		Alive:    rapid.SliceOfN(rapid.SampledFrom([]int32{401, 403, 7}), 0, 2).Draw(t, "alive"),
	}
}

var testLabels = []map[string]string{nil, {"app": "web"}, {"app": "web", "tier": "a"}, {"app": "db"}, {v1alpha1.LabelFor: "lb-0"}}

func drawSelector(t *rapid.T) *metav1.LabelSelector {
	return rapid.SampledFrom([]*metav1.LabelSelector{
		{MatchLabels: map[string]string{"app": "web"}},
		{MatchLabels: map[string]string{"app": "web"}},
		{MatchLabels: map[string]string{"app": "db"}},
		{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpIn, Values: []string{"web", "db"}}}},
		{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "tier", Operator: metav1.LabelSelectorOpDoesNotExist}}},
		{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Likes", Values: []string{"web"}}}},
		{}, nil,
	}).Draw(t, "selector")
}

func drawLoadBalancer(t *rapid.T) *clusterv1.LoadBalancer {
	l := &clusterv1.LoadBalancer{ObjectMeta: drawMeta(t, []string{"a", "a", "b", "c"}, "lb", 3)}
	l.Spec = clusterv1.LoadBalancerSpec{
		ClassName:       rapid.SampledFrom([]string{"edge", "edge", "edge", "edge", "other", "missing", ""}).Draw(t, "class"),
		Selector:        drawSelector(t),
		HealthCheck:     drawHealthCheck(t),
		FailOpen:        maybe(t, "failOpen", rapid.Bool()),
		DrainTimeout:    drawDuration(t, "drainTimeout"),
		IdleTimeout:     drawDuration(t, "idleTimeout"),
		SessionAffinity: rapid.SampledFrom([]clusterv1.SessionAffinity{"", "None", "ClientIP"}).Draw(t, "affinity"),
		TargetKind:      rapid.SampledFrom([]*clusterv1.KindReference{nil, nil, nil, {Kind: "Machine"}, {Kind: "Node"}, {Kind: "Moose"}}).Draw(t, "kind"),
	}
	for range rapid.IntRange(0, 3).Draw(t, "ports") {
		l.Spec.Ports = append(l.Spec.Ports, clusterv1.Port{
			Port:       rapid.SampledFrom([]int32{80, 80, 81, 443, -3, 70000}).Draw(t, "port"),
			TargetPort: rapid.SampledFrom([]int32{0, 8080, 99999}).Draw(t, "targetPort"),
			Protocol:   rapid.SampledFrom([]clusterv1.Protocol{"TCP", "TCP", "", "UDP", "UDP", "SCTP", "DCCP"}).Draw(t, "protocol"),
			Mode:       rapid.SampledFrom([]clusterv1.Mode{"", "", "", "TCP", "UDP", "HTTP"}).Draw(t, "mode"),
		})
	}
	l.Spec.IPFamilies = rapid.SampledFrom([][]clusterv1.IPFamily{nil, nil, {"IPv4"}, {"IPv6", "IPv4"}}).Draw(t, "families")
	l.Spec.TrafficDistribution = rapid.SampledFrom([]clusterv1.TrafficDistribution{"", "", "PreferSameZone", "PreferSamePlanet"}).Draw(t, "distribution")
	l.Spec.ProxyProtocol = rapid.SampledFrom([]string{"", "", "", "V1", "V2", "V3"}).Draw(t, "proxy protocol")
	if rapid.IntRange(0, 3).Draw(t, "sources?") == 0 {
		l.Spec.SourceRanges = rapid.SliceOfN(rapid.SampledFrom([]string{"192.0.2.0/24", "192.0.2.7/32", "192.0.0.0/16", "0.0.0.0/0", "fd00::/8", "fd00::7/64", "::ffff:192.0.2.0/120", "::/0"}), 0, 4).Draw(t, "sources")
	}
	if rapid.IntRange(0, 19).Draw(t, "rubbish?") == 0 {
		l.Spec.SourceRanges = []string{"192.0.2.0/24", "rubbish"}
	}
	if rapid.IntRange(0, 9).Draw(t, "deleting?") == 0 {
		l.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	}
	return l
}

func drawTargetGroup(t *rapid.T) *v1alpha1.TargetGroup {
	g := &v1alpha1.TargetGroup{ObjectMeta: drawMeta(t, []string{"a", "a", "b", "c"}, "tg", 3)}
	g.UID = types.UID("uid-of-" + g.Name)
	g.Labels = rapid.SampledFrom(testLabels).Draw(t, "labels")
	g.Spec.HealthCheck = drawHealthCheck(t)
	if rapid.IntRange(0, 9).Draw(t, "disabled?") == 0 {
		g.Annotations = map[string]string{clusterv1.DisabledAnnotation: ""}
	}
	for range rapid.IntRange(0, 4).Draw(t, "targets") {
		g.Spec.Targets = append(g.Spec.Targets, v1alpha1.Target{
			Name: rapid.SampledFrom([]string{"node-1", "node-2", ""}).Draw(t, "target"),
			UID:  rapid.SampledFrom([]string{"u1", "u2", "u3", "u4", "u5", "u6", ""}).Draw(t, "uid"),
			Addresses: rapid.SliceOfN(rapid.SampledFrom([]string{
				"10.0.0.1", "10.0.0.2", "10.0.0.4", "10.0.0.5", "10.0.0.6", "10.0.0.7", "::ffff:10.0.0.3", "10.9.0.1", "127.0.0.1", "fd00::1", "fd00::2", "fd00::3", "fe80::1%eth0", "0.0.0.0", "elb.example", "elb.example", "nlb.example", "", "10.0.0.999",
			}), 0, 3).Draw(t, "addresses"),
			Zone:     rapid.SampledFrom([]string{"", "east", "west"}).Draw(t, "zone"),
			Weight:   maybe(t, "weight", rapid.SampledFrom([]int32{0, 1, 5, -1})),
			Ready:    maybe(t, "ready", rapid.Bool()),
			State:    v1alpha1.TargetState(rapid.SampledFrom([]string{"", "Serving", "Serving", "Draining", "Draining", "Dancing"}).Draw(t, "state")),
			DrainFor: drawDuration(t, "drainFor"),
		})
	}
	for i := range g.Spec.Targets {
		if key := countsAs(&g.Spec.Targets[i]); rapid.Bool().Draw(t, "listed?") && !slices.Contains(g.Status.WithinQuota, key) {
			g.Status.WithinQuota = append(g.Status.WithinQuota, key)
		}
	}
	g.Status.Members = rapid.SampledFrom([]string{"", "", "0/0", "1/2"}).Draw(t, "members")
	g.Status.BeyondQuota = rapid.SampledFrom([]int32{0, 0, 1}).Draw(t, "beyond")
	g.CreationTimestamp = metav1.Unix(rapid.Int64Range(1, 2).Draw(t, "group created"), 0)
	return g
}

func drawAddress(t *rapid.T) *v1alpha1.Address {
	a := &v1alpha1.Address{}
	a.Name = fmt.Sprintf("address-%d", rapid.IntRange(0, 3).Draw(t, "name"))
	a.CreationTimestamp = metav1.Unix(rapid.Int64Range(1, 3).Draw(t, "created"), 0)
	a.Spec = v1alpha1.AddressSpec{
		Address:   rapid.SampledFrom([]string{"192.0.2.1", "192.0.2.1", "192.0.2.2", "fd00::7", "fd00::7", "::ffff:192.0.2.1", "fe80::1%x", "no"}).Draw(t, "address"),
		ProxyPool: rapid.SampledFrom([]string{"edge", "edge", "edge", "other"}).Draw(t, "pool"),
		Phase:     rapid.SampledFrom([]v1alpha1.AddressPhase{"Granted", "Granted", "Granted", "Releasing"}).Draw(t, "phase"),
	}
	for range rapid.IntRange(0, 4).Draw(t, "holders") {
		m := drawMeta(t, []string{"a", "a", "b", "c"}, "lb", 3)
		a.Spec.Holders = append(a.Spec.Holders, v1alpha1.Holder{
			Namespace: m.Namespace, Name: m.Name,
			Ports: rapid.SliceOfN(rapid.SampledFrom([]string{"TCP/80", "TCP/80", "TCP/81", "TCP/443", "UDP/80", "UDP/443", "SCTP/80", "TCP/0", "x", ""}), 0, 4).Draw(t, "holds"),
		})
	}
	return a
}

func drawClass(t *rapid.T) *v1alpha1.LoadBalancerClass {
	c := &v1alpha1.LoadBalancerClass{}
	c.Name = rapid.SampledFrom([]string{"edge", "edge", "other"}).Draw(t, "class")
	switch rapid.IntRange(0, 7).Draw(t, "technology") {
	case 0:
		c.Spec.Service = &v1alpha1.ClassService{Type: "LoadBalancer"}
	case 1:
		c.Spec.Proxy = &v1alpha1.ClassProxy{Pool: "edge", Placement: v1alpha1.PlacementOne}
	case 2:
		c.Spec.Proxy = &v1alpha1.ClassProxy{Pool: "other"}
	default:
		c.Spec.Proxy = &v1alpha1.ClassProxy{Pool: "edge"}
	}
	if c.Spec.Proxy != nil {
		c.Spec.Proxy.AssignAddresses = rapid.Bool().Draw(t, "assign")
		c.Spec.Proxy.ClientAddress = rapid.SampledFrom([]v1alpha1.ClientAddress{"", "Keep", "Hide", "Forge"}).Draw(t, "client address")
	}
	if rapid.Bool().Draw(t, "defaults?") {
		c.Spec.Defaults = &v1alpha1.ClassDefaults{DrainTimeout: drawDuration(t, "drainTimeout"), HealthCheck: drawHealthCheck(t)}
	}
	return c
}

func drawTenant(t *rapid.T) *v1alpha1.Tenant {
	x := &v1alpha1.Tenant{}
	x.Name = rapid.SampledFrom([]string{"a", "b", "b2"}).Draw(t, "tenant")
	if x.Name == "b2" {
		x.Spec.Namespace = "b"
	}
	x.CreationTimestamp = metav1.Unix(rapid.Int64Range(1, 2).Draw(t, "created"), 0)
	x.Spec.TargetCIDRs = rapid.SliceOfN(rapid.SampledFrom([]string{"10.0.0.0/16", "127.0.0.0/8", "0.0.0.0/0", "fd00::/8", "::/0", "rubbish"}), 0, 3).Draw(t, "cidrs")
	x.Spec.Classes = rapid.SampledFrom([][]string{nil, {"edge"}, {"other"}}).Draw(t, "classes")
	x.Spec.Quota = rapid.SampledFrom([]*v1alpha1.TenantQuota{nil, nil, {}, {Targets: new(int32)}, {Targets: ptr.To[int32](1)}, {Targets: ptr.To[int32](3)}}).Draw(t, "quota")
	x.Spec.Suspend = rapid.IntRange(0, 5).Draw(t, "suspend?") == 0
	return x
}

func drawObject(t *rapid.T) metav1.Object {
	switch n := rapid.IntRange(0, 19).Draw(t, "kind"); {
	case n < 8:
		return drawLoadBalancer(t)
	case n < 12:
		return drawTargetGroup(t)
	case n < 16:
		return drawAddress(t)
	case n < 18:
		return drawClass(t)
	default:
		return drawTenant(t)
	}
}

// drawNames draws what the names in targets stand for.
func drawNames(t *rapid.T) map[string][]netip.Addr {
	out := map[string][]netip.Addr{}
	for _, name := range []string{"elb.example", "nlb.example"} {
		known := rapid.SliceOfN(rapid.SampledFrom([]string{"10.0.0.1", "10.0.0.8", "10.0.0.9", "192.168.0.1", "127.0.0.1", "fd00::8", "::ffff:10.0.0.8"}), 0, 3).Draw(t, name)
		for _, a := range known {
			out[name] = append(out[name], netip.MustParseAddr(a))
		}
	}
	return out
}

// hub holds the objects that there are.
type hub map[string]metav1.Object

// goodHub serves lb-0 and lb-1 of namespace a with two TargetGroups, for the draws to disturb.
func goodHub() hub {
	h := hub{}
	add := func(o metav1.Object) { h[keyOf(o)] = o }
	c := &v1alpha1.LoadBalancerClass{}
	c.Name, c.Spec.Proxy = "edge", &v1alpha1.ClassProxy{Pool: "edge"}
	add(c)
	a := &v1alpha1.Address{}
	a.Name, a.CreationTimestamp = "address-0", metav1.Unix(2, 0)
	a.Spec = v1alpha1.AddressSpec{Address: "192.0.2.1", ProxyPool: "edge", Phase: v1alpha1.AddressGranted, Holders: []v1alpha1.Holder{
		{Namespace: "a", Name: "lb-0", Ports: []string{"TCP/80", "TCP/443"}}, {Namespace: "a", Name: "lb-1", Ports: []string{"TCP/81"}},
	}}
	add(a)
	for i, ports := range [][]int32{{80, 443}, {81}} {
		l := &clusterv1.LoadBalancer{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: fmt.Sprintf("lb-%d", i)}}
		l.Spec.ClassName, l.Spec.Selector = "edge", &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
		for _, p := range ports {
			l.Spec.Ports = append(l.Spec.Ports, clusterv1.Port{Port: p, Protocol: clusterv1.ProtocolTCP})
		}
		add(l)
		g := &v1alpha1.TargetGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: fmt.Sprintf("tg-%d", i), Labels: map[string]string{"app": "web"}}}
		for j := range 3 {
			n := 2*j + i + 1
			g.Spec.Targets = append(g.Spec.Targets, v1alpha1.Target{Name: fmt.Sprintf("n-%d", n), UID: fmt.Sprintf("u%d", n), Addresses: []string{fmt.Sprintf("10.0.0.%d", n)}})
		}
		add(g)
	}
	return h
}

func keyOf(o metav1.Object) string { return fmt.Sprintf("%T/%s/%s", o, o.GetNamespace(), o.GetName()) }

func (h hub) objects(keys []string) Objects {
	var out Objects
	for _, k := range keys {
		switch o := h[k].(type) {
		case *clusterv1.LoadBalancer:
			out.LoadBalancers = append(out.LoadBalancers, o)
		case *v1alpha1.TargetGroup:
			out.TargetGroups = append(out.TargetGroups, o)
		case *v1alpha1.Address:
			out.Addresses = append(out.Addresses, o)
		case *v1alpha1.LoadBalancerClass:
			out.Classes = append(out.Classes, o)
		case *v1alpha1.Tenant:
			out.Tenants = append(out.Tenants, o)
		}
	}
	return out
}

// drawCheck draws a data plane that cannot express some things.
func drawCheck(t *rapid.T) func(*lb.Snapshot) []lb.Problem {
	about := func(f *lb.Frontend) lb.ObjectRef {
		return lb.ObjectRef{Kind: lb.KindLoadBalancer, Namespace: string(f.ID.Tenant), Name: f.ID.LoadBalancer, Port: f.ID.Port, Protocol: f.ID.Protocol}
	}
	switch rapid.IntRange(0, 4).Draw(t, "data plane") {
	case 0:
		return nil
	case 3: // can't do IPv6, which costs that address alone
		return func(s *lb.Snapshot) []lb.Problem {
			var out []lb.Problem
			for _, f := range s.Frontends {
				if o := about(f); f.ID.Address.Is6() {
					o.Address = f.ID.Address
					out = append(out, lb.Problem{Object: o, Field: "spec.ipFamilies", Reason: clusterv1.ReasonNotSupported})
				}
			}
			return out
		}
	case 4: // can't keep clients' addresses, and serves without
		return func(s *lb.Snapshot) []lb.Problem {
			var out []lb.Problem
			for _, f := range s.Frontends {
				if s.Pools[f.Pool].KeepClient {
					out = append(out, lb.Problem{Object: about(f), Field: "spec.proxy.clientAddress", Reason: clusterv1.ReasonNotSupported, Effect: lb.ServedWithout})
				}
			}
			return out
		}
	case 1: // can't do idle timeouts
		return func(s *lb.Snapshot) []lb.Problem {
			var out []lb.Problem
			for _, f := range s.Frontends {
				if f.IdleTimeout > 0 {
					out = append(out, lb.Problem{Object: about(f), Field: "spec.idleTimeout", Reason: clusterv1.ReasonNotSupported})
				}
			}
			return out
		}
	}
	return func(s *lb.Snapshot) []lb.Problem { // can't serve more than two frontends a tenant, nor a LoadBalancer without them all
		var out []lb.Problem
		for i, f := range s.Frontends {
			if i >= 2 {
				out = append(out, lb.Problem{
					Object: lb.ObjectRef{Kind: lb.KindLoadBalancer, Namespace: string(f.ID.Tenant), Name: f.ID.LoadBalancer},
					Reason: clusterv1.ReasonNotSupported,
				})
			}
		}
		return out
	}
}
