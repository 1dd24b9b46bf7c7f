package scheduler

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func ready(name string, change func(*v1.Node)) *v1.Node {
	n := &v1.Node{}
	n.Name = name
	n.Labels = map[string]string{"name": name}
	n.Status.Conditions = []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue}}
	n.Status.Allocatable = v1.ResourceList{v1.ResourcePods: resource.MustParse("3")}
	if change != nil {
		change(n)
	}
	return n
}

func TestPick(t *testing.T) {
	taint := func(e v1.TaintEffect) func(*v1.Node) {
		return func(n *v1.Node) { n.Spec.Taints = []v1.Taint{{Key: "x", Effect: e}} }
	}
	a, b := ready("a", nil), ready("b", nil)
	for name, c := range map[string]struct {
		nodes    []*v1.Node
		load     map[string]int
		selector map[string]string
		want     string
	}{
		"none":               {want: ""},
		"equals go by name":  {nodes: []*v1.Node{b, a}, want: "a"},
		"fewest pods":        {nodes: []*v1.Node{a, b}, load: map[string]int{"a": 2, "b": 1}, want: "b"},
		"full":               {nodes: []*v1.Node{a}, load: map[string]int{"a": 3}, want: ""},
		"selector":           {nodes: []*v1.Node{a, b}, selector: map[string]string{"name": "b"}, want: "b"},
		"NoSchedule":         {nodes: []*v1.Node{ready("a", taint(v1.TaintEffectNoSchedule)), b}, want: "b"},
		"NoExecute":          {nodes: []*v1.Node{ready("a", taint(v1.TaintEffectNoExecute)), b}, want: "b"},
		"PreferNoSchedule":   {nodes: []*v1.Node{ready("a", taint(v1.TaintEffectPreferNoSchedule)), b}, want: "a"},
		"cordoned":           {nodes: []*v1.Node{ready("a", func(n *v1.Node) { n.Spec.Unschedulable = true }), b}, want: "b"},
		"not ready":          {nodes: []*v1.Node{ready("a", func(n *v1.Node) { n.Status.Conditions[0].Status = v1.ConditionUnknown }), b}, want: "b"},
		"without conditions": {nodes: []*v1.Node{ready("a", func(n *v1.Node) { n.Status.Conditions = nil }), b}, want: "b"},
	} {
		p := &v1.Pod{}
		p.Spec.NodeSelector = c.selector
		if got := Pick(p, c.nodes, c.load); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}
