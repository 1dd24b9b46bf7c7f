package node_test

import (
	"fmt"
	"slices"
	"testing"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/agent/node"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"
)

func worker(change ...func(*v1.Node)) *v1.Node {
	n := &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "u", Labels: map[string]string{v1.LabelTopologyZone: "a"}, Annotations: map[string]string{}},
		Status: v1.NodeStatus{
			Addresses:  []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: "10.0.0.1"}},
			Conditions: []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue}},
		},
	}
	for _, c := range change {
		c(n)
	}
	return n
}

func TestTarget(t *testing.T) {
	label := func(v string) func(*v1.Node) {
		return func(n *v1.Node) { n.Labels[v1.LabelNodeExcludeBalancers] = v }
	}
	serving := v1alpha1.Target{Name: "n", UID: "u", Addresses: []string{"10.0.0.1"}, Zone: "a", Ready: ptr.To(true), State: v1alpha1.TargetServing}
	with := func(c func(*v1alpha1.Target)) v1alpha1.Target {
		x := serving
		c(&x)
		return x
	}
	draining := with(func(x *v1alpha1.Target) { x.State = v1alpha1.TargetDraining })
	none := v1alpha1.Target{}
	for _, c := range []struct {
		name string
		n    *v1.Node
		want v1alpha1.Target
	}{
		{"plain", worker(), serving},
		{"cordoned", worker(func(n *v1.Node) {
			n.Spec.Unschedulable = true
			n.Spec.Taints = []v1.Taint{{Key: v1.TaintNodeUnschedulable}}
		}), serving},
		{"not ready", worker(func(n *v1.Node) { n.Status.Conditions[0].Status = v1.ConditionUnknown }), with(func(x *v1alpha1.Target) { x.Ready = ptr.To(false) })},
		{"about to be deleted by the autoscaler", worker(func(n *v1.Node) { n.Spec.Taints = []v1.Taint{{Key: "ToBeDeletedByClusterAutoscaler"}} }), draining},
		{"disabled, empty value", worker(func(n *v1.Node) { n.Annotations[clusterv1.DisabledAnnotation] = "" }), draining},
		{"excluded", worker(label("")), none},
		{"excluded, true", worker(label("true")), none},
		{"excluded, no bool", worker(label("yes")), none},
		{"not excluded", worker(label("false")), serving},
		{"deleting", worker(func(n *v1.Node) { n.DeletionTimestamp = &metav1.Time{} }), none},
		{"no address", worker(func(n *v1.Node) {
			n.Status.Addresses = []v1.NodeAddress{{Type: v1.NodeHostName, Address: "n"}}
		}), none},
		{"internal first, one of each family", worker(func(n *v1.Node) {
			n.Status.Addresses = []v1.NodeAddress{
				{Type: v1.NodeExternalIP, Address: "192.0.2.1"}, {Type: v1.NodeExternalIP, Address: "2001:db8::1"},
				{Type: v1.NodeInternalIP, Address: "10.0.0.1"}, {Type: v1.NodeInternalIP, Address: "10.0.0.2"},
			}
		}), with(func(x *v1alpha1.Target) { x.Addresses = []string{"10.0.0.1", "2001:db8::1"} })},
	} {
		got, why := node.Target(c.n)
		if !equality.Semantic.DeepEqual(got, c.want) || (why == "") != (c.want.Name != "") {
			t.Errorf("%s: %+v, %q", c.name, got, why)
		}
	}
}

// TestPlacementIsStable: whatever nodes come and go, no target moves while it stays, none is lost or
// there twice, no group is too large, and group 0 is there.
func TestPlacementIsStable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		have := map[int][]v1alpha1.Target{}
		for step := range 4 {
			n := rapid.IntRange(0, 400).Draw(t, fmt.Sprint("nodes", step))
			skip := rapid.IntRange(2, 9).Draw(t, fmt.Sprint("skip", step))
			var targets []v1alpha1.Target
			for i := range n {
				if i%skip != 0 {
					targets = append(targets, v1alpha1.Target{Name: fmt.Sprintf("n%03d", i)})
				}
			}
			was := places(have)
			next := map[int][]v1alpha1.Target{}
			for index, spec := range node.Place(have, targets, node.ByHealthz) {
				if len(spec.Targets) > 100 || spec.HealthCheck == nil || len(spec.Targets) == 0 && index != 0 {
					t.Fatalf("group %d has %d targets", index, len(spec.Targets))
				}
				next[index] = spec.Targets
			}
			is := places(next)
			if len(is) != len(targets) {
				t.Fatalf("%d targets are placed as %d", len(targets), len(is))
			}
			if _, ok := next[0]; !ok {
				t.Fatal("no group 0")
			}
			for name, index := range is {
				if before, ok := was[name]; ok && before != index {
					t.Fatalf("%s moved from %d to %d", name, before, index)
				}
			}
			have = next
		}
	})
}

func places(groups map[int][]v1alpha1.Target) map[string]int {
	out := map[string]int{}
	for index, targets := range groups {
		for _, t := range targets {
			out[t.Name] = index
		}
	}
	return out
}

func TestHolesAreFilled(t *testing.T) {
	var first, second []v1alpha1.Target
	for i := range 100 {
		first = append(first, v1alpha1.Target{Name: fmt.Sprintf("a%02d", i)})
	}
	second = append(second, v1alpha1.Target{Name: "b"})
	targets := append(slices.Clone(first[1:]), second...)
	targets = append(targets, v1alpha1.Target{Name: "c"})
	got := places(groups(node.Place(map[int][]v1alpha1.Target{0: first, 1: second}, targets, node.ByHealthz)))
	if got["c"] != 0 || got["b"] != 1 || got["a50"] != 0 {
		t.Errorf("c is in %d, b in %d, a50 in %d", got["c"], got["b"], got["a50"])
	}
}

func groups(specs map[int]v1alpha1.TargetGroupSpec) map[int][]v1alpha1.Target {
	out := map[int][]v1alpha1.Target{}
	for index, s := range specs {
		out[index] = s.Targets
	}
	return out
}

func TestGroupNames(t *testing.T) {
	for name, want := range map[string]bool{"nodes-0": true, "nodes-12": true, "nodes-": false, "nodes-01": false, "nodes--1": false, "nodes-x": false, "other-0": false} {
		if _, ok := node.Index(name); ok != want {
			t.Errorf("%s: %t", name, ok)
		}
	}
}
