package member

import (
	"maps"
	"testing"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// On Nodes each LoadBalancer speaks for itself, by namespace and name; whatever else is there is none of its business.
func TestWhatIsNotedOnNodes(t *testing.T) {
	const a, b = "blue/api", "green/api"
	mark := func(status string) map[string]string { return map[string]string{StatusAnnotation: status} }
	beside := map[string]string{NameAnnotation: "kcp", StatusAnnotation: "blue/api=removed", HookKey(clusterv1.HookPreDrain, a): HookValue, "x": "y"}
	for name, c := range map[string]struct {
		have map[string]string
		key  string
		d    Decision
		want map[string]string
	}{
		"first":                     {nil, a, Decision{State: Adding, Hook: true}, mark("blue/api=adding")},
		"of the same name":          {mark("blue/api=active"), b, Decision{State: Removing}, mark("blue/api=active,green/api=removing")},
		"changes its own alone":     {mark("blue/api=active,green/api=removing"), a, Decision{State: Removed}, mark("blue/api=removed,green/api=removing")},
		"one goes":                  {mark("blue/api=active,green/api=removed"), b, Decision{}, mark("blue/api=active")},
		"the last goes":             {mark("blue/api=active"), a, Decision{}, map[string]string{}},
		"what isn't ours stays":     {mark("up"), a, Decision{}, mark("up")},
		"until there is a state":    {mark("up"), a, Decision{State: Active}, mark("blue/api=active")},
		"asks nothing, hooks never": {beside, a, Decision{State: Active, Hook: true, Asked: serving}, func() map[string]string { m := maps.Clone(beside); m[StatusAnnotation] = "blue/api=active"; return m }()},
	} {
		before := maps.Clone(c.have)
		got := Nodes.Annotate(c.have, c.key, c.d, clusterv1.HookPreDrain, false)
		if !maps.Equal(got, c.want) || !maps.Equal(before, c.have) {
			t.Errorf("%s: %v", name, got)
		}
		if Nodes.StateIn(got, c.key) != c.d.State || Nodes.Hooked(got, c.key) {
			t.Errorf("%s: it reads as %q", name, Nodes.StateIn(got, c.key))
		}
	}
	if got := Nodes.Strip(beside); got[StatusAnnotation] != "" || got[NameAnnotation] != "kcp" || len(got) != len(beside)-1 {
		t.Errorf("what is left: %v", got)
	}
	if got := Nodes.Named(mark("green/api=active,blue/api=removed,x")); len(got) != 2 || got[0] != a || got[1] != b {
		t.Errorf("it names %v", got)
	}
	for key, ok := range map[string]bool{a: true, "api": false, "/api": false, "blue/": false} {
		if namespace, name, is := Nodes.Names(key, ""); is != ok || ok && (namespace != "blue" || name != "api") {
			t.Errorf("%s: %q, %q, %t", key, namespace, name, is)
		}
	}
	if namespace, name, ok := Machines.Names("api", "blue"); namespace != "blue" || name != "api" || !ok || Machines.Key("blue", "api") != "api" {
		t.Errorf("a Machine's: %q, %q, %t", namespace, name, ok)
	}
}

// A selector of Nodes says something, and nothing of a Cluster.
func TestSelectorsOfNodes(t *testing.T) {
	of := func(s *metav1.LabelSelector) clusterv1.LoadBalancerSpec {
		return clusterv1.LoadBalancerSpec{Selector: s}
	}
	edge := &metav1.LabelSelector{MatchLabels: map[string]string{"role": "edge"}}
	named := of(edge)
	named.ClusterName = "prod"
	for name, c := range map[string]struct {
		spec    clusterv1.LoadBalancerSpec
		selects bool
		fails   bool
	}{
		"by label":  {spec: of(edge), selects: true},
		"others":    {spec: of(&metav1.LabelSelector{MatchLabels: map[string]string{"role": "db"}})},
		"none":      {spec: of(nil), fails: true},
		"empty":     {spec: of(&metav1.LabelSelector{}), fails: true},
		"a Cluster": {spec: named, fails: true},
		"nonsense":  {spec: of(&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "role", Operator: "Is"}}}), fails: true},
	} {
		s, err := Nodes.Selector(&clusterv1.LoadBalancer{Spec: c.spec})
		if (err != nil) != c.fails || s.Matches(labels.Set{"role": "edge"}) != c.selects {
			t.Errorf("%s: %v, %v", name, s, err)
		}
	}
}

func TestExcluded(t *testing.T) {
	for value, want := range map[string]bool{"": true, "true": true, "yes": true, "false": false} {
		if Excluded(map[string]string{corev1.LabelNodeExcludeBalancers: value}) != want {
			t.Errorf("%q", value)
		}
	}
	if Excluded(map[string]string{"x": "true"}) {
		t.Error("though it has no such label")
	}
}
