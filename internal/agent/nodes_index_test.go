package agent

import (
	"maps"
	"slices"
	"testing"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Anybody who may write in the namespace may name a group so.
func TestAGroupOfAnAbsurdIndexCostsNothing(t *testing.T) {
	have := map[int][]v1alpha1.Target{0: nil, 2_000_000_000: nil}
	got := slices.Sorted(maps.Keys(indices(have, 6)))
	if !slices.Equal(got, []int{0, 1, 2, 3, 2_000_000_000}) {
		t.Errorf("looks at groups %v", got)
	}
}

// Why, and since when, a Node drains decides until when: a change of that alone has a round begin too.
func TestAChangeOfWhyANodeDrainsIsOne(t *testing.T) {
	at := func(disabled bool, taints ...v1.Taint) *v1.Node {
		n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Annotations: map[string]string{}}, Spec: v1.NodeSpec{Taints: taints}}
		n.Status.Addresses = []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: "10.0.0.1"}}
		if disabled {
			n.Annotations[clusterv1.DisabledAnnotation] = ""
		}
		return n
	}
	doomed := func(value string) v1.Taint { return v1.Taint{Key: "ToBeDeletedByClusterAutoscaler", Value: value} }
	for _, c := range []struct {
		name string
		a, b *v1.Node
		same bool
	}{
		{"nothing", at(false, doomed("1700000000")), at(false, doomed("1700000000")), true},
		{"another taint", at(false), at(false, v1.Taint{Key: "k"}), true},
		{"the taint comes", at(false), at(false, doomed("")), false},
		{"the taint comes beside a person's word", at(true), at(true, doomed("")), true},
		{"a person's word goes, the taint stays", at(true, doomed("")), at(false, doomed("")), false},
		{"a person's word goes as the taint comes", at(true), at(false, doomed("")), false},
		{"its time", at(false, doomed("1700000000")), at(false, doomed("1700000001")), false},
		{"it says a time now", at(false, doomed("soon")), at(false, doomed("1700000000")), false},
	} {
		if sameTarget(c.a, c.b) != c.same || sameTarget(c.b, c.a) != c.same {
			t.Errorf("%s: the same: %t", c.name, !c.same)
		}
	}
}
