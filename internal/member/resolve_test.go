package member

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"pgregory.net/rapid"
)

func TestAddresses(t *testing.T) {
	for name, c := range map[string]struct {
		have  string // type=value, with blanks between
		types []string
		own   []string
		want  string
	}{
		"no address yet":                         {"", nil, nil, ""},
		"the inner one first":                    {"ExternalIP=203.0.113.4 InternalIP=10.0.0.4", nil, nil, "10.0.0.4"},
		"the outer one, where that is asked for": {"ExternalIP=203.0.113.4 InternalIP=10.0.0.4", []string{"ExternalIP", "InternalIP"}, nil, "203.0.113.4"},
		"the outer one alone":                    {"InternalIP=10.0.0.4", []string{"ExternalIP"}, nil, ""},
		"all of them called outer":               {"ExternalIP=10.0.0.4 ExternalIP=10.0.0.5", nil, nil, "10.0.0.4"},
		"one of each family":                     {"InternalIP=10.0.0.4 InternalIP=fd00::4 InternalIP=10.0.0.5 InternalIP=fd00::5", nil, nil, "10.0.0.4 fd00::4"},
		"IPv6 first makes no difference":         {"InternalIP=fd00::4 InternalIP=10.0.0.4", nil, nil, "10.0.0.4 fd00::4"},
		"each family's best type":                {"ExternalIP=2001:db8::4 ExternalIP=203.0.113.4 InternalIP=10.0.0.4", nil, nil, "10.0.0.4 2001:db8::4"},
		"with a mask":                            {"InternalIP=10.0.0.4/24 InternalIP=fd00::4/64", nil, nil, "10.0.0.4 fd00::4"},
		"with brackets":                          {"InternalIP=[fd00::4]", nil, nil, "fd00::4"},
		"IPv4 written as IPv6":                   {"InternalIP=::ffff:10.0.0.4", nil, nil, "10.0.0.4"},
		"the load balancer's own":                {"InternalIP=192.0.2.7 InternalIP=10.0.0.4", nil, []string{"192.0.2.7", "api.example.com"}, "10.0.0.4"},
		"only the load balancer's own":           {"InternalIP=192.0.2.7/32", nil, []string{"192.0.2.7"}, ""},
		"link-local, zoned, multicast, none":     {"InternalIP=169.254.0.4 InternalIP=fe80::4 InternalIP=fd00::4%eth0 InternalIP=224.0.0.1 InternalIP=0.0.0.0", nil, nil, ""},
		"loopback beside another":                {"InternalIP=127.0.0.1 ExternalIP=203.0.113.4", nil, nil, "203.0.113.4"},
		"loopback alone":                         {"InternalIP=127.0.77.4", nil, nil, "127.0.77.4"},
		"no address, but names":                  {"Hostname=cp-1 ExternalDNS=cp-1.example.com InternalDNS=CP-1.Internal.", nil, nil, "cp-1.internal"},
		"an address beside a name":               {"InternalDNS=cp-1.internal ExternalIP=203.0.113.4", nil, nil, "203.0.113.4"},
		"a host name is asked for":               {"Hostname=cp-1", []string{"InternalIP", "Hostname"}, nil, "cp-1"},
		"an address that is called a name":       {"InternalDNS=10.0.0.4", nil, nil, "10.0.0.4"},
		"a name that is called an address":       {"InternalIP=cp-1.internal", nil, nil, ""},
		"what is neither":                        {"InternalIP=10.0.0 InternalDNS=cp_1", nil, nil, ""},
		"a type that is unknown":                 {"WeirdIP=10.0.0.4", nil, nil, ""},
	} {
		var have []Address
		for _, s := range strings.Fields(c.have) {
			kind, value, _ := strings.Cut(s, "=")
			have = append(have, Address{kind, value})
		}
		if got := strings.Join(Addresses(have, c.types, OwnAddresses(c.own...)), " "); got != c.want {
			t.Errorf("%s: %q, not %q", name, got, c.want)
		}
	}
}

// Whatever a provider writes, what comes out may be written to a TargetGroup, and is never the load balancer's own.
func TestAddressesAreThoseThatATargetGroupTakes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		own := rapid.StringMatching(`(10\.0\.0\.[1-3]|fd00::[1-3])`).Draw(t, "own")
		var have []Address
		for range rapid.IntRange(0, 6).Draw(t, "n") {
			have = append(have, Address{
				rapid.SampledFrom([]string{"InternalIP", "ExternalIP", "InternalDNS", "ExternalDNS", "Hostname"}).Draw(t, "type"),
				rapid.OneOf(rapid.StringMatching(`(10\.0\.0\.[1-9]|fd00::[1-9]|127\.0\.0\.1|fe80::1)(/[0-9]{1,3})?`), rapid.StringMatching(`[a-zA-Z0-9._:/-]{0,20}`), rapid.String()).Draw(t, "value"),
			})
		}
		got := Addresses(have, rapid.SampledFrom([][]string{nil, {"Hostname", "InternalIP"}}).Draw(t, "types"), OwnAddresses(own))
		four, six := 0, 0
		for _, a := range got {
			switch ip, err := netip.ParseAddr(a); {
			case err != nil && (len(got) > 1 || len(a) > 253 || a == ""):
				t.Fatalf("%q of %v", got, have)
			case err != nil:
			case a == own || ip.String() != a || ip.IsLinkLocalUnicast():
				t.Fatalf("%q of %v", got, have)
			case ip.Is4():
				four++
			default:
				six++
			}
		}
		if four > 1 || six > 1 {
			t.Fatalf("%q of %v", got, have)
		}
	})
}

func TestPlace(t *testing.T) {
	target := func(name string, change ...func(*Resolved)) Resolved {
		r := Resolved{Name: name, UID: "uid-" + name, Addresses: []string{"10.0.0.4"}, State: serving}
		for _, f := range change {
			f(&r)
		}
		return r
	}
	show := func(groups [][]v1alpha1.Target) string {
		var out []string
		for _, g := range groups {
			var names []string
			for _, t := range g {
				names = append(names, fmt.Sprintf("%s:%s:%s", t.Name, t.State, strings.Join(t.Addresses, ",")))
			}
			out = append(out, strings.Join(names, " "))
		}
		return strings.Join(out, " | ")
	}
	weight := int32(3)
	have := [][]v1alpha1.Target{{{Name: "b", UID: "uid-b", Addresses: []string{"10.0.0.2"}, State: serving, Weight: &weight}}}
	got := Place(have, []Resolved{target("c"), target("b", func(r *Resolved) { r.Addresses, r.State = nil, draining }), target("a"), target("x", func(r *Resolved) { r.State = Absent })})
	if want := "a:Serving:10.0.0.4 b:Draining:10.0.0.2 c:Serving:10.0.0.4"; show(got) != want {
		t.Errorf("%s, not %s", show(got), want)
	}
	if w := got[0][1].Weight; w == nil || *w != 3 {
		t.Errorf("weight %v", w)
	}
	if show(have) != "b:Serving:10.0.0.2" {
		t.Errorf("what it was given is %s now", show(have))
	}
	reborn := Place(have, []Resolved{{Name: "b", UID: "uid-new", State: serving}})
	if show(reborn) != "b:Serving:" || reborn[0][0].Weight != nil {
		t.Errorf("one that was born again inherits: %s", show(reborn))
	}
	if got := Place(nil, nil); len(got) != 1 || len(got[0]) != 0 {
		t.Errorf("of nothing: %v", got)
	}
}

// One target's change changes one group, whatever their number, and no group holds more than it may.
func TestTargetsStayInTheirGroups(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		alive := map[string]bool{}
		var groups [][]v1alpha1.Target
		place := func() {
			var all []Resolved
			for name := range alive {
				all = append(all, Resolved{Name: name, UID: "uid-" + name, State: serving})
			}
			groups = Place(groups, all)
		}
		for i := range rapid.IntRange(0, 350).Draw(t, "targets") {
			alive[fmt.Sprintf("m%03d", i)] = true
		}
		place()
		for range rapid.IntRange(1, 20).Draw(t, "changes") {
			name := fmt.Sprintf("m%03d", rapid.IntRange(0, 360).Draw(t, "which"))
			if alive[name] {
				delete(alive, name)
			} else {
				alive[name] = true
			}
			before := groups
			place()
			changed, total := 0, 0
			for i, g := range groups {
				if len(g) > MaxTargets {
					t.Fatalf("group %d holds %d", i, len(g))
				}
				if total += len(g); i >= len(before) || !slices.EqualFunc(g, before[i], func(a, b v1alpha1.Target) bool { return a.UID == b.UID }) {
					changed++
				}
			}
			if changed > 1 || total != len(alive) {
				t.Fatalf("%d groups changed, %d of %d targets are placed", changed, total, len(alive))
			}
		}
	})
}

func TestWhichMachinesALoadBalancerHas(t *testing.T) {
	lb := func(change ...func(*clusterv1.LoadBalancerSpec)) *clusterv1.LoadBalancer {
		l := &clusterv1.LoadBalancer{ObjectMeta: metav1.ObjectMeta{Name: "my-cluster-control-plane-lb"}}
		for _, f := range change {
			f(&l.Spec)
		}
		return l
	}
	machine := labels.Set{ClusterNameLabel: "my-cluster", NameLabel: "my-cluster-control-plane-lb", ControlPlaneLabel: ""}
	named := func(s *clusterv1.LoadBalancerSpec) { s.ClusterName = "my-cluster" }
	empty := func(s *clusterv1.LoadBalancerSpec) { s.Selector = &metav1.LabelSelector{} }
	printed := func(s *clusterv1.LoadBalancerSpec) {
		s.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{ClusterNameLabel: "my-cluster", NameLabel: "my-cluster-control-plane-lb"}}
	}
	workers := func(s *clusterv1.LoadBalancerSpec) {
		s.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: ControlPlaneLabel, Operator: metav1.LabelSelectorOpDoesNotExist}}}
	}
	broken := func(s *clusterv1.LoadBalancerSpec) {
		s.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Like"}}}
	}
	for name, c := range map[string]struct {
		l       *clusterv1.LoadBalancer
		cluster string
		selects bool
		err     string
	}{
		"If Spec.Selector is not defined": {lb(named), "my-cluster", true, ""},
		"an empty one counts as none":     {lb(named, empty), "my-cluster", true, ""},
		"as the proposal prints it":       {lb(printed), "my-cluster", true, ""},
		"of another Cluster":              {lb(func(s *clusterv1.LoadBalancerSpec) { s.ClusterName = "other" }), "other", false, ""},
		"one of its own":                  {lb(named, workers), "my-cluster", false, ""},
		"that doesn't parse":              {lb(named, broken), "my-cluster", false, "spec.selector"},
		"neither":                         {lb(), "", false, "spec.clusterName"},
	} {
		s, err := Selector(c.l)
		if (err == nil) != (c.err == "") || err != nil && !strings.HasPrefix(err.Error(), c.err) {
			t.Errorf("%s: %v", name, err)
		}
		if s.Matches(machine) != c.selects || ClusterName(c.l) != c.cluster {
			t.Errorf("%s: selects %v, of Cluster %q", name, s.Matches(machine), ClusterName(c.l))
		}
	}
	for _, c := range []struct {
		cluster, controlPlane map[string]string
		spec, want            clusterv1.Role
	}{
		{nil, nil, "", clusterv1.RoleWorkload},
		{map[string]string{NameAnnotation: "my-cluster-control-plane-lb"}, nil, "", clusterv1.RoleControlPlane},
		{nil, map[string]string{NameAnnotation: "my-cluster-control-plane-lb"}, "", clusterv1.RoleControlPlane},
		{map[string]string{NameAnnotation: "another"}, map[string]string{NameAnnotation: "my-cluster-control-plane-lb"}, "", clusterv1.RoleWorkload},
		{map[string]string{NameAnnotation: "my-cluster-control-plane-lb"}, nil, clusterv1.RoleWorkload, clusterv1.RoleWorkload},
		{nil, nil, clusterv1.RoleControlPlane, clusterv1.RoleControlPlane},
		{map[string]string{clusterv1.ClassAnnotation: "edge"}, nil, "", clusterv1.RoleWorkload}, // which is for prod-api
	} {
		if got := RoleOf(lb(func(s *clusterv1.LoadBalancerSpec) { s.Role = c.spec }), NamedBy("prod", c.cluster, c.controlPlane)); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

// The LoadBalancer of a Cluster that names a class has a name of its own, which fits a label.
func TestWhichLoadBalancerIsMade(t *testing.T) {
	class := map[string]string{clusterv1.ClassAnnotation: "edge"}
	if got := NamedBy("prod", class, nil); got != "prod-api" {
		t.Errorf("%q", got)
	}
	if got := NamedBy("prod", class, map[string]string{NameAnnotation: "mine"}); got != "mine" {
		t.Errorf("%q", got)
	}
	seen := map[string]bool{}
	for _, cluster := range []string{strings.Repeat("a", 59), strings.Repeat("a", 60), strings.Repeat("a", 61), strings.Repeat("a", 50) + "---------b"} {
		got := MadeFor(cluster)
		if len(got) > 63 || !dnsName.MatchString(got) || seen[got] || got != MadeFor(cluster) {
			t.Errorf("%s: %s", cluster, got)
		}
		seen[got] = true
	}
}

func TestWhichMachinesGetTheLabel(t *testing.T) {
	of := func(pairs ...string) labels.Set {
		out := labels.Set{ClusterNameLabel: "my-cluster", ControlPlaneLabel: ""}
		for i := 0; i < len(pairs); i += 2 {
			out[pairs[i]] = pairs[i+1]
		}
		return out
	}
	worker := labels.Set{ClusterNameLabel: "my-cluster"}
	for name, c := range map[string]struct {
		machine  labels.Set
		deleting bool
		named    string
		want     bool
	}{
		"of the control plane":     {of(), false, "lb", true},
		"it has it":                {of(NameLabel, "lb"), false, "lb", false},
		"it has another":           {of(NameLabel, "old"), false, "lb", true},
		"a worker":                 {worker, false, "lb", false},
		"of another Cluster":       {of(ClusterNameLabel, "other"), false, "lb", false},
		"it is being deleted":      {of(), true, "lb", false},
		"the Cluster names nobody": {of(), false, "", false},
	} {
		if got := WantsLabel(c.machine, c.deleting, "my-cluster", c.named); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
