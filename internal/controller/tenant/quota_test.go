package tenant

import (
	"strings"
	"testing"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestResourceQuotaLeavesRoomAboveTheTenantsQuota(t *testing.T) {
	many, none := int32(200), int32(0)
	for _, c := range []struct {
		name  string
		quota *v1alpha1.TenantQuota
		want  map[string]int64
	}{
		{"no quota: what an agent doesn't need is bounded", nil, map[string]int64{countLeases: 10}},
		{"quota", &v1alpha1.TenantQuota{LoadBalancers: &many, Targets: &many, Addresses: &many}, map[string]int64{countLeases: 10, countLoadBalancers: 410, countTargetGroups: 210}},
		{"nothing allowed", &v1alpha1.TenantQuota{LoadBalancers: &none, Targets: &none}, map[string]int64{countLeases: 10, countLoadBalancers: 10, countTargetGroups: 10}},
	} {
		tn := &v1alpha1.Tenant{Spec: v1alpha1.TenantSpec{Namespace: "prod", Quota: c.quota}}
		got := resourceQuota(tn)
		if got.Namespace != "prod" || len(got.Spec.Hard) != len(c.want) {
			t.Errorf("%s: %+v", c.name, got)
		}
		for name, n := range got.Spec.Hard {
			if n.Value() != c.want[string(name)] {
				t.Errorf("%s: %s is %s, want %d", c.name, name, n.String(), c.want[string(name)])
			}
		}
	}
}

// More targets than the quota allows are served, and the Tenant says so until there are fewer, or more are allowed.
func TestTargetsBeyondTheQuotaAreTold(t *testing.T) {
	two := int32(2)
	tn := &v1alpha1.Tenant{ObjectMeta: metav1.ObjectMeta{Name: "prod-eu", Generation: 3}, Spec: v1alpha1.TenantSpec{Quota: &v1alpha1.TenantQuota{Targets: &two}}}
	for _, step := range []struct {
		targets int32
		want    metav1.ConditionStatus // empty: no condition
	}{{2, ""}, {3, metav1.ConditionTrue}, {2, metav1.ConditionFalse}, {9, metav1.ConditionTrue}} {
		tn.Status = describe(facts{tenant: tn, owned: true, usage: v1alpha1.TenantUsage{Targets: step.targets}})
		c := meta.FindStatusCondition(tn.Status.Conditions, clusterv1.ConditionDegraded)
		switch {
		case c == nil && step.want != "":
			t.Fatalf("%d targets: no condition", step.targets)
		case c == nil:
		case c.Status != step.want:
			t.Fatalf("%d targets: %+v", step.targets, c)
		case c.Status == metav1.ConditionTrue && (c.Reason != clusterv1.ReasonQuotaExceeded || !strings.Contains(c.Message, "spec.quota.targets") || c.ObservedGeneration != 3):
			t.Fatalf("%+v", c)
		}
		if !meta.IsStatusConditionTrue(tn.Status.Conditions, v1alpha1.ConditionReady) {
			t.Fatalf("%d targets: not ready", step.targets)
		}
	}
}
