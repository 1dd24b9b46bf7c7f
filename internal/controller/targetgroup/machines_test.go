package targetgroup

import (
	"strings"
	"testing"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/controller/kit"
	"fairlead.dev/fairlead/internal/proof"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Of Machines a group says who is active by the rule of members: a live proxy has applied the target as it stands, and finds it
// healthy. Whoever reads that alone may go by it.
func TestMachinesAreActiveByTheRuleOfMembers(t *testing.T) {
	g := &v1alpha1.TargetGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "g", UID: "g", Labels: map[string]string{v1alpha1.LabelGeneratedFrom: "Machine"}}}
	g.Spec.Targets = []v1alpha1.Target{{Name: "a", UID: "a", Addresses: []string{"10.0.0.1"}}}
	proxy := func(name string, through proof.Version, says ...v1alpha1.ReportedState) *proof.Proxy {
		r := &v1alpha1.ProxyReport{}
		for _, s := range says {
			r.Members = append(r.Members, v1alpha1.ReportedMember{TargetGroup: "g", GroupUID: "g", TargetUID: "a", Address: "10.0.0.1", Check: "TCP:6443", State: s})
		}
		return &proof.Proxy{Name: name, Live: true, Renewed: true, Reported: true, Settled: true, Through: proof.Vector{TargetGroups: through}, Reports: map[string]*v1alpha1.ProxyReport{"prod": r}}
	}
	for name, c := range map[string]struct {
		proxies     []*proof.Proxy
		state, says string
	}{
		"no proxy":              {nil, adding, "No live proxy"},
		"not applied":           {[]*proof.Proxy{proxy("p", 6)}, adding, "yet"},
		"not checked":           {[]*proof.Proxy{proxy("p", 7, v1alpha1.ReportedUnchecked)}, adding, "yet"},
		"applied and healthy":   {[]*proof.Proxy{proxy("p", 7)}, "", ""},
		"fails":                 {[]*proof.Proxy{proxy("p", 7, v1alpha1.ReportedUnhealthy)}, unhealthy, "p:"},
		"one is outvoted":       {[]*proof.Proxy{proxy("p", 7, v1alpha1.ReportedUnhealthy), proxy("q", 7)}, "", ""},
		"one has yet to follow": {[]*proof.Proxy{proxy("p", 6), proxy("q", 7)}, "", ""},
	} {
		s := describe(facts{group: g, version: 9, since: map[string]proof.Version{"a": 7}, proxies: c.proxies, now: metav1.Now()})
		got := v1alpha1.MemberStatus{}
		if len(s.Targets) == 1 {
			got = s.Targets[0]
		}
		if got.State != c.state || !strings.Contains(got.Message, c.says) || (s.Members == "1/1") != (c.state == "") {
			t.Errorf("%s: %s, %+v", name, s.Members, got)
		}
	}
}

// Where no proxies send, a group of Machines never says that one is drained: its LoadBalancer does.
func TestMachinesWithoutProxiesAreTheirLoadBalancers(t *testing.T) {
	no := false
	g := &v1alpha1.TargetGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "g", UID: "g"}}
	g.Spec.Targets = []v1alpha1.Target{
		{Name: "a", UID: "a", Addresses: []string{"10.0.0.1"}}, {Name: "b", UID: "b", Addresses: []string{"10.0.0.2"}, Ready: &no},
		{Name: "c", UID: "c", Addresses: []string{"10.0.0.3"}, State: v1alpha1.TargetDraining},
	}
	s := describe(facts{group: g, apart: "api", since: map[string]proof.Version{}, now: metav1.Now()})
	if len(s.Targets) != 2 || s.Targets[0].State != unhealthy || s.Targets[1].State != draining || !strings.Contains(s.Targets[1].Message, "LoadBalancer api") || s.Members != "1/3" {
		t.Errorf("%s: %+v", s.Members, s.Targets)
	}
}

// What proxies said of one Machine holds while another one comes or goes; what nobody saw in between proves nothing.
func TestAnotherMachinesChangeVoidsNoProof(t *testing.T) {
	r := &Reconciler{Versions: kit.NewVersions()}
	g := &v1alpha1.TargetGroup{ObjectMeta: metav1.ObjectMeta{UID: "g", Generation: 1, ResourceVersion: "5"}}
	has := func(version string, generation int64, targets ...v1alpha1.Target) map[string]proof.Version {
		g = g.DeepCopy()
		g.ResourceVersion, g.Generation, g.Spec.Targets = version, generation, targets
		return r.since(g)
	}
	a, b := v1alpha1.Target{Name: "a", UID: "a", Addresses: []string{"10.0.0.1"}}, v1alpha1.Target{Name: "b", UID: "b", Addresses: []string{"10.0.0.2"}}
	leaves := a
	leaves.State = v1alpha1.TargetDraining
	for _, step := range []struct {
		what   string
		got    map[string]proof.Version
		wa, wb proof.Version
	}{
		{"the first", has("5", 1, a), 5, 0},
		{"another one comes", has("6", 2, a, b), 5, 6},
		{"the first leaves", has("7", 3, leaves, b), 7, 6},
		{"a status is written", has("8", 3, leaves, b), 7, 6},
		{"generations that nobody saw", has("11", 6, leaves, b), 11, 11},
		{"the other one goes", has("12", 7, leaves), 11, 0},
		{"it comes back", has("13", 8, leaves, b), 11, 13},
	} {
		if step.got["a"] != step.wa || step.got["b"] != step.wb {
			t.Errorf("%s: %v, want a at %d and b at %d", step.what, step.got, step.wa, step.wb)
		}
	}
	r.Forget(g)
	if len(r.pins) > 0 {
		t.Errorf("still remembered: %v", r.pins)
	}
}
