package build

import (
	"net/netip"
	"strings"
	"testing"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/lb"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestOneTarget(t *testing.T) {
	tenant := &v1alpha1.Tenant{Spec: v1alpha1.TenantSpec{TargetCIDRs: []string{"10.0.0.0/8", "0.0.0.0/1", "169.254.7.0/24", "fd00::/8", "::/8", "2002::/16"}}}
	for name, tt := range map[string]struct {
		addresses []string
		change    func(*v1alpha1.Target)
		want      string // its addresses; "": left out
		reason    string // "": no Problem
	}{
		"good":                             {addresses: []string{"10.0.0.1"}, want: "10.0.0.1"},
		"first of each family":             {addresses: []string{"fd00::1", "10.0.0.2", "10.0.0.1", "fd00::2"}, want: "10.0.0.2 fd00::1"},
		"IPv4-mapped":                      {addresses: []string{"::ffff:10.0.0.1"}, want: "10.0.0.1"},
		"waiting for its address":          {},
		"IPv6 only":                        {addresses: []string{"FD00:0::1"}, want: "fd00::1"},
		"one family's is not allowed":      {addresses: []string{"2001:db8::1", "10.0.0.1"}, want: "10.0.0.1", reason: clusterv1.ReasonTargetNotAllowed},
		"a name that nobody knows":         {addresses: []string{"gone.example"}},
		"a name":                           {addresses: []string{"ELB.example."}, want: "10.0.0.7 10.0.0.8 fd00::7"},
		"two names":                        {addresses: []string{"elb.example", "gone.example"}, want: "10.0.0.7 10.0.0.8 fd00::7"},
		"a name, then an address":          {addresses: []string{"elb.example", "10.0.0.1"}, want: "10.0.0.1"},
		"no name":                          {addresses: []string{"e l b"}, reason: clusterv1.ReasonInvalid},
		"IPv6 loopback":                    {addresses: []string{"::1"}, reason: clusterv1.ReasonTargetNotAllowed},
		"IPv6 link-local":                  {addresses: []string{"fe80::1"}, reason: clusterv1.ReasonInvalid},
		"a cloud's metadata over IPv6":     {addresses: []string{"fd00:ec2::254"}, reason: clusterv1.ReasonTargetNotAllowed},
		"another's over IPv6":              {addresses: []string{"fd20:ce::254"}, reason: clusterv1.ReasonTargetNotAllowed},
		"another's over IPv4":              {addresses: []string{"100.100.100.200"}, reason: clusterv1.ReasonTargetNotAllowed},
		"loopback through NAT64":           {addresses: []string{"64:ff9b::7f00:1"}, reason: clusterv1.ReasonTargetNotAllowed},
		"a cloud's metadata through NAT64": {addresses: []string{"64:ff9b::a9fe:a9fe"}, reason: clusterv1.ReasonTargetNotAllowed},
		"another host through NAT64":       {addresses: []string{"64:ff9b::c000:207"}, want: "64:ff9b::c000:207"},
		"loopback through 6to4":            {addresses: []string{"2002:7f00:1::1"}, reason: clusterv1.ReasonTargetNotAllowed},
		"loopback, IPv4-compatible":        {addresses: []string{"::127.0.0.1"}, reason: clusterv1.ReasonTargetNotAllowed},
		"what is beside it":                {addresses: []string{"100.100.100.201"}, want: "100.100.100.201"},
		"zone identifier":                  {addresses: []string{"fe80::1%eth0"}, reason: clusterv1.ReasonInvalid},
		"zone identifier on a mapped one":  {addresses: []string{"::ffff:10.0.0.1%eth0"}, reason: clusterv1.ReasonInvalid},
		"unspecified":                      {addresses: []string{"0.0.0.0"}, reason: clusterv1.ReasonInvalid},
		"multicast":                        {addresses: []string{"224.0.0.1"}, reason: clusterv1.ReasonInvalid},
		"broadcast":                        {addresses: []string{"255.255.255.255"}, reason: clusterv1.ReasonInvalid},
		"elsewhere":                        {addresses: []string{"192.168.0.1"}, reason: clusterv1.ReasonTargetNotAllowed},
		"loopback through a wide range":    {addresses: []string{"127.0.0.1"}, reason: clusterv1.ReasonTargetNotAllowed},
		"loopback, mapped":                 {addresses: []string{"::ffff:127.0.0.1"}, reason: clusterv1.ReasonTargetNotAllowed},
		"link-local by its own range":      {addresses: []string{"169.254.7.1"}, want: "169.254.7.1"},
		"a cloud's metadata":               {addresses: []string{"169.254.169.254"}, reason: clusterv1.ReasonTargetNotAllowed},
		"no UID":                           {addresses: []string{"10.0.0.1"}, change: func(x *v1alpha1.Target) { x.UID = "" }, reason: clusterv1.ReasonInvalid},
		"unknown state":                    {addresses: []string{"10.0.0.1"}, change: func(x *v1alpha1.Target) { x.State = "Dancing" }, reason: clusterv1.ReasonInvalid},
		"negative weight":                  {addresses: []string{"10.0.0.1"}, change: func(x *v1alpha1.Target) { w := int32(-1); x.Weight = &w }, want: "10.0.0.1", reason: clusterv1.ReasonInvalid},
		"negative drainFor":                {addresses: []string{"10.0.0.1"}, change: func(x *v1alpha1.Target) { x.DrainFor = duration(-1) }, want: "10.0.0.1", reason: clusterv1.ReasonInvalid},
		"not an address that nearly is":    {addresses: []string{"10.0.0.256"}, reason: clusterv1.ReasonInvalid},
		"an address with a leading zero":   {addresses: []string{"010.0.0.1"}, reason: clusterv1.ReasonInvalid},
		"nothing, written out":             {addresses: []string{""}, reason: clusterv1.ReasonInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			x := v1alpha1.Target{Name: "node-1", UID: "u1", Addresses: tt.addresses}
			if tt.change != nil {
				tt.change(&x)
			}
			g := &v1alpha1.TargetGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "nodes"}, Spec: v1alpha1.TargetGroupSpec{Targets: []v1alpha1.Target{x}}}
			read := readTargetGroup(g, reachOf(tenant), Admission{}, map[string][]netip.Addr{"elb.example": {
				netip.MustParseAddr("fd00::7"), netip.MustParseAddr("::ffff:10.0.0.8"), netip.MustParseAddr("10.0.0.7"), netip.MustParseAddr("192.168.0.1"),
			}})
			got, reason := "", ""
			for _, ms := range read.members {
				for _, m := range ms {
					got += " " + m.Address.String()
				}
			}
			got = strings.TrimSpace(got)
			for _, p := range read.problems {
				reason += p.Reason
				if p.Effect != lb.ServedWithout || p.Object.Kind != lb.KindTargetGroup || p.Object.Name != "nodes" {
					t.Errorf("%+v", p)
				}
			}
			if got != tt.want || reason != tt.reason {
				t.Errorf("got %q, %q; want %q, %q", got, reason, tt.want, tt.reason)
			}
		})
	}
}

func TestTargetGroupDrains(t *testing.T) {
	base := func() *v1alpha1.TargetGroup {
		return &v1alpha1.TargetGroup{Spec: v1alpha1.TargetGroupSpec{Targets: []v1alpha1.Target{{Name: "a", UID: "a", Addresses: []string{"10.0.0.1"}}}}}
	}
	for name, change := range map[string]func(*v1alpha1.TargetGroup){
		"target is Draining":     func(g *v1alpha1.TargetGroup) { g.Spec.Targets[0].State = v1alpha1.TargetDraining },
		"group is disabled":      func(g *v1alpha1.TargetGroup) { g.Annotations = map[string]string{clusterv1.DisabledAnnotation: ""} },
		"group is being deleted": func(g *v1alpha1.TargetGroup) { g.DeletionTimestamp = &metav1.Time{} },
		"with an unbounded drainFor": func(g *v1alpha1.TargetGroup) {
			g.Spec.Targets[0].State, g.Spec.Targets[0].DrainFor = v1alpha1.TargetDraining, duration(0)
		},
	} {
		g := base()
		change(g)
		m := readTargetGroup(g, reachOf(nil), Admission{}, nil).members[ipv4][0]
		want := lb.DrainUnset
		if g.Spec.Targets[0].DrainFor != nil {
			want = 0
		}
		if !m.Draining || m.DrainFor != want {
			t.Errorf("%s: %+v", name, m)
		}
	}
}

func TestATargetTwiceCountsOnce(t *testing.T) {
	w := int32(7)
	g := &v1alpha1.TargetGroup{Spec: v1alpha1.TargetGroupSpec{Targets: []v1alpha1.Target{
		{Name: "a", UID: "u", Addresses: []string{"10.0.0.1"}},
		{Name: "b", UID: "u", Addresses: []string{"10.0.0.1"}, Weight: &w},
		{Name: "c", UID: "u", Addresses: []string{"10.0.0.2"}},
	}}}
	read := readTargetGroup(g, reachOf(nil), Admission{}, nil)
	if ms := read.members[ipv4]; len(ms) != 2 || ms[0].Name != "a" || ms[1].Name != "c" || len(read.problems) != 1 {
		t.Errorf("%+v", read)
	}
}

func TestAFamilyThatTheHubDoesntHaveIsNoProblem(t *testing.T) {
	only4 := &v1alpha1.Tenant{Spec: v1alpha1.TenantSpec{TargetCIDRs: []string{"10.0.0.0/8"}}}
	group := func(addresses ...string) *v1alpha1.TargetGroup {
		return &v1alpha1.TargetGroup{Spec: v1alpha1.TargetGroupSpec{Targets: []v1alpha1.Target{{Name: "a", UID: "u", Addresses: addresses}}}}
	}
	if p := ValidateTargetGroup(group("10.0.0.1", "fd00::1"), only4, Admission{}); len(p) > 0 {
		t.Errorf("%+v", p)
	}
	if n := Sendable(group("10.0.0.1", "fd00::1"), only4, Admission{}); n != 1 {
		t.Errorf("%d targets", n)
	}
	if p := ValidateTargetGroup(group("fd00::1"), only4, Admission{}); len(p) != 1 || Sendable(group("fd00::1"), only4, Admission{}) != 0 {
		t.Errorf("%+v", p)
	}
	if n := Sendable(group("10.0.0.1", "fd00::1"), nil, Admission{}); n != 1 {
		t.Errorf("%d targets", n)
	}
	if n := Sendable(group("elb.example"), only4, Admission{}); n != 1 {
		t.Errorf("%d targets", n)
	}
}
