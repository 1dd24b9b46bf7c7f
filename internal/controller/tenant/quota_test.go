package tenant

import (
	"testing"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
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
