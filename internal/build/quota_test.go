package build

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/lb"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"
)

// groupOf has targets like n1: with the UID n1 and the address 10.0.0.1, or that after a slash.
func groupOf(name string, age int64, listed string, targets ...string) *v1alpha1.TargetGroup {
	g := &v1alpha1.TargetGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name, CreationTimestamp: metav1.Unix(100-age, 0), Labels: map[string]string{"app": "web"}}}
	for _, x := range targets {
		uid, address, given := strings.Cut(x, "/")
		if !given {
			address = "10.0.0." + uid[1:]
		}
		g.Spec.Targets = append(g.Spec.Targets, v1alpha1.Target{Name: fmt.Sprintf("%s-%d", uid, len(g.Spec.Targets)), UID: uid, Addresses: []string{address}})
	}
	for _, uid := range strings.Fields(listed) {
		g.Status.WithinQuota = append(g.Status.WithinQuota, uid+"/10.0.0."+uid[1:])
	}
	return g
}

// seen is a group of which a manager has said so many members.
func seen(members string, g *v1alpha1.TargetGroup) *v1alpha1.TargetGroup {
	g.Status.Members = members
	return g
}

func boundTo(n int32) *v1alpha1.Tenant {
	t := &v1alpha1.Tenant{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	t.Spec.TargetCIDRs = []string{"10.0.0.0/8"}
	t.Spec.Quota = &v1alpha1.TenantQuota{Targets: ptr.To(n)}
	return t
}

// What is beyond a Tenant's quota is sent nothing, whichever proxy looks; what is served stays, whatever comes or becomes of the quota.
func TestTargetsBeyondTheQuotaAreLeftOut(t *testing.T) {
	type groups = []*v1alpha1.TargetGroup
	for _, c := range []struct {
		name   string
		groups groups
		bound  int32
		want   string // UIDs that are sent to
		beyond int
	}{
		{"as many as allowed", groups{groupOf("x", 1, "", "n1", "n2")}, 2, "n1 n2", 0},
		{"nothing is allowed, and nothing was served", groups{groupOf("x", 1, "", "n1", "n2")}, 0, "", 2},
		{"nobody has judged yet: the first of the oldest", groups{groupOf("x", 1, "", "n1", "n2"), groupOf("y", 2, "", "n4", "n3")}, 3, "n1 n3 n4", 1},
		{"what is served stays before what comes", groups{groupOf("x", 1, "n2 n3", "n1", "n2", "n3")}, 2, "n2 n3", 1},
		{"in an older group too", groups{groupOf("x", 1, "n2 n3", "n2", "n3"), groupOf("y", 2, "", "n1")}, 2, "n2 n3", 1},
		{"the quota was lowered", groups{groupOf("x", 1, "n1 n2 n3", "n1", "n2", "n3", "n4")}, 1, "n1 n2 n3", 1},
		{"and one has gone", groups{groupOf("x", 1, "n1 n2 n3", "n2", "n3", "n4")}, 1, "n2 n3", 1},
		{"there is room again", groups{groupOf("x", 1, "n1 n2", "n2", "n3")}, 2, "n2 n3", 0},
		{"of two that come, one", groups{groupOf("x", 1, "n1 n2", "n2", "n4", "n3")}, 2, "n2 n4", 1},
		{"seen by a manager that lists nothing", groups{seen("2/2", groupOf("x", 1, "", "n1", "n2")), groupOf("y", 2, "", "n3")}, 1, "n1 n2", 1},
		{"seen empty", groups{seen("0/0", groupOf("x", 1, "", "n1", "n2"))}, 1, "n1", 1},
		{"one node of several Services is one", groups{groupOf("x", 1, "", "n1", "n2"), groupOf("y", 2, "", "n2", "n1"), groupOf("z", 3, "", "n1")}, 2, "n1 n2", 0},
		{"one UID is no way to have many", groups{groupOf("x", 1, "n1", "n1"), groupOf("y", 2, "", "n1/10.0.0.7"), groupOf("z", 3, "", "n1/10.0.0.8")}, 1, "n1", 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := hub{}
			for _, g := range c.groups {
				h[keyOf(g)] = g
			}
			for _, o := range goodHub() {
				if _, group := o.(*v1alpha1.TargetGroup); !group {
					h[keyOf(o)] = o
				}
			}
			tenant := boundTo(c.bound)
			h[keyOf(tenant)] = tenant
			s := Whole(h.objects(slices.Sorted(maps.Keys(h))), Options{ProxyPool: "edge"}).Tenants["a"]
			var got []string
			for _, g := range s.Groups {
				for _, m := range g.Members {
					got = append(got, m.UID)
				}
			}
			slices.Sort(got)
			if text := strings.Join(got, " "); text != c.want {
				t.Errorf("sent to %q, want %q", text, c.want)
			}
			var beyond []lb.Problem
			for _, p := range s.Problems {
				if p.Reason == clusterv1.ReasonQuotaExceeded {
					beyond = append(beyond, p)
				}
			}
			if len(beyond) != c.beyond {
				t.Errorf("%d are said to be left out, want %d: %+v", len(beyond), c.beyond, beyond)
			}
			for _, p := range beyond {
				if p.Object.Kind != lb.KindTargetGroup || !strings.HasPrefix(p.Field, "spec.targets[") || !strings.Contains(p.Message, "spec.quota.targets") || p.Effect != lb.ServedWithout {
					t.Errorf("%+v", p)
				}
			}
		})
	}
}

// However the objects stand: no more are sent to than the quota allows, or than were, and none that was is left out.
func TestTheQuotaOfTargetsHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var groups []*v1alpha1.TargetGroup
		for i := range rapid.IntRange(0, 4).Draw(t, "groups") {
			g := drawTargetGroup(t)
			g.Name = fmt.Sprintf("g-%d", i)
			groups = append(groups, g)
		}
		bound := rapid.IntRange(0, 6).Draw(t, "bound")
		tenant := boundTo(int32(bound))
		a := Admit(groups, tenant)
		listed, within, all := map[string]bool{}, map[string]bool{}, map[string]bool{}
		for _, g := range groups {
			for i := range g.Spec.Targets {
				key := countsAs(&g.Spec.Targets[i])
				all[key] = true
				listed[key] = listed[key] || listedIn(g)[key]
			}
			for _, key := range a.Within(g) {
				within[key] = true
			}
		}
		maps.DeleteFunc(listed, func(_ string, is bool) bool { return !is })
		if most := min(max(bound, len(listed)), len(all)); len(within) != most || CountTargets(groups) != len(all) {
			t.Fatalf("%d are within, want %d; %d of %d", len(within), most, CountTargets(groups), len(all))
		}
		for key := range listed {
			if !within[key] {
				t.Fatalf("%s was served and is left out", key)
			}
		}
		for _, g := range groups { // and what is said then changes nothing
			g.Status.WithinQuota, g.Status.BeyondQuota = a.Within(g), int32(a.Beyond(g))
		}
		slices.Reverse(groups)
		if again := Admit(groups, tenant); !again.equal(a) {
			t.Fatalf("judged again it is %v, and was %v", again, a)
		}
	})
}

// A target counts by what is sent to.
func TestATargetCountsByWhatIsSentTo(t *testing.T) {
	for want, addresses := range map[string][]string{
		"u/10.0.0.1":                            {"10.0.0.1", "10.0.0.2"},
		"u/10.0.0.2,fd00::1":                    {"fd00::1", "::ffff:10.0.0.2", "elb.example"},
		"u/elb.example":                         {"ELB.example", "nlb.example"},
		"u/":                                    {"fe80::1%eth0"},
		"u/" + netip.IPv6Unspecified().String(): {"::"},
	} {
		if got := countsAs(&v1alpha1.Target{UID: "u", Addresses: addresses}); got != want {
			t.Errorf("%q is %s, want %s", addresses, got, want)
		}
	}
}
