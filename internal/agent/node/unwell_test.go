package node_test

import (
	"testing"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/agent/node"
)

func group(members int, notable ...v1alpha1.MemberStatus) *v1alpha1.TargetGroup {
	return &v1alpha1.TargetGroup{
		Spec:   v1alpha1.TargetGroupSpec{Targets: make([]v1alpha1.Target, members)},
		Status: v1alpha1.TargetGroupStatus{Targets: notable},
	}
}

func TestUnwell(t *testing.T) {
	sick := func(name, why string) v1alpha1.MemberStatus {
		return v1alpha1.MemberStatus{Name: name, State: "unhealthy", Message: why}
	}
	drains := v1alpha1.MemberStatus{Name: "d", State: "draining"}
	for _, c := range []struct {
		name   string
		groups []*v1alpha1.TargetGroup
		want   string
	}{
		{"none", nil, ""},
		{"empty", []*v1alpha1.TargetGroup{group(0)}, ""},
		{"well", []*v1alpha1.TargetGroup{group(2)}, ""},
		{"one is well", []*v1alpha1.TargetGroup{group(2, sick("a", "refused"))}, ""},
		{"one of another group is well", []*v1alpha1.TargetGroup{group(1, sick("a", "refused")), group(1)}, ""},
		{"all drain", []*v1alpha1.TargetGroup{group(1, drains)}, ""},
		{"all are sick", []*v1alpha1.TargetGroup{group(2, sick("a", "refused"), sick("b", "")), group(0)}, "no target passes its health check (a: refused; b)"},
		{"sick but for one that drains", []*v1alpha1.TargetGroup{group(2, sick("a", "refused"), drains)}, "no target passes its health check (a: refused)"},
		{"many", []*v1alpha1.TargetGroup{group(4, sick("a", "x"), sick("b", "y"), sick("c", "z"), sick("d", "z"))}, "no target passes its health check (a: x; b: y; and 2 more)"},
	} {
		if got, _ := node.Unwell(c.groups); got != c.want {
			t.Errorf("%s: %q, wanted %q", c.name, got, c.want)
		}
	}
}
