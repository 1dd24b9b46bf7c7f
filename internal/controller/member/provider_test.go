package member

import (
	"context"
	"testing"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/controller/providerkind"
	rules "fairlead.dev/fairlead/internal/member"
	"fairlead.dev/fairlead/provider/contract"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// object that says this.
type saying struct{ status *contract.Status }

func (s saying) Members(context.Context, *clusterv1.LoadBalancer, *v1alpha1.LoadBalancerClass) (*providerkind.Members, string, error) {
	if s.status == nil {
		return nil, "it isn't there", nil
	}
	return &providerkind.Members{Name: "FooLoadBalancer shop/web", Status: *s.status}, "", nil
}

// A provider's word counts where it is of the TargetGroup as the target stands in it, of that target, and plain.
func TestWhatAProviderSees(t *testing.T) {
	g := &v1alpha1.TargetGroup{
		ObjectMeta: metav1.ObjectMeta{Name: "web-members-0", UID: "g", Generation: 7},
		Spec:       v1alpha1.TargetGroupSpec{Targets: []v1alpha1.Target{{Name: "a", UID: "1", Addresses: []string{"10.0.0.1"}}, {Name: "b", UID: "2", Addresses: []string{"10.0.0.2"}, State: v1alpha1.TargetDraining}}},
	}
	status := func(generation int64, targets ...clusterv1.TargetStatus) *contract.Status {
		return &contract.Status{Targets: targets, Observed: &contract.Observed{TargetGroups: []contract.ObservedTargetGroup{{Name: g.Name, UID: string(g.UID), Generation: generation}}}}
	}
	target := func(name, address, state string) clusterv1.TargetStatus {
		return clusterv1.TargetStatus{Name: name, Address: address, State: state}
	}
	other := status(7, target("b", "10.0.0.2", contract.StateRemoved))
	other.Observed.TargetGroups[0].UID = "another"
	for name, tt := range map[string]struct {
		status *contract.Status
		at     int
		want   rules.Sight
	}{
		"no object":           {nil, 1, rules.Sight{}},
		"an older provider":   {&contract.Status{Targets: []clusterv1.TargetStatus{target("b", "10.0.0.2", contract.StateRemoved)}}, 1, rules.Sight{}},
		"removed":             {status(7, target("b", "10.0.0.2", contract.StateRemoved)), 1, rules.Sight{Gone: true}},
		"removed, as it was":  {status(5, target("b", "10.0.0.2", contract.StateRemoved)), 1, rules.Sight{Gone: true}},
		"removed before":      {status(4, target("b", "10.0.0.2", contract.StateRemoved)), 1, rules.Sight{}},
		"of another group":    {other, 1, rules.Sight{}},
		"disabled":            {status(7, target("b", "10.0.0.2", contract.StateDisabled)), 1, rules.Sight{Gone: true}},
		"removing":            {status(7, target("b", "10.0.0.2", contract.StateRemoving)), 1, rules.Sight{}},
		"of another address":  {status(7, target("b", "10.0.0.9", contract.StateRemoved)), 1, rules.Sight{}},
		"of two of that name": {status(7, target("b", "10.0.0.2", contract.StateRemoved), target("b", "10.0.0.2", contract.StateActive)), 1, rules.Sight{}},
		"nothing of it":       {status(7), 1, rules.Sight{}},
		"active":              {status(7, target("a", "10.0.0.1", contract.StateActive)), 0, rules.Sight{Live: 1, Healthy: 1}},
		"unhealthy":           {status(7, target("a", "10.0.0.1", contract.StateUnhealthy)), 0, rules.Sight{Live: 1, Unhealthy: 1}},
		"adding":              {status(7, target("a", "10.0.0.1", contract.StateAdding)), 0, rules.Sight{Live: 1}},
		"active before":       {status(4, target("a", "10.0.0.1", contract.StateActive)), 0, rules.Sight{}},
	} {
		t.Run(name, func(t *testing.T) {
			by := &provided{of: &clusterv1.LoadBalancer{}, all: saying{tt.status}}
			sees, err := by.sees(t.Context(), g, func(*v1alpha1.Target) entry { return entry{generation: 5} })
			if err != nil {
				t.Fatal(err)
			}
			got := sees(tt.at)
			if got.By == "" || !got.Gone && tt.at == 1 && got.Waits == "" {
				t.Errorf("it doesn't say who speaks, or what is waited for: %+v", got)
			}
			if got.By, got.Waits, got.Why = "", "", ""; got.Gone != tt.want.Gone || got.Live != tt.want.Live || got.Healthy != tt.want.Healthy || got.Unhealthy != tt.want.Unhealthy {
				t.Errorf("it sees %+v, not %+v", got, tt.want)
			}
		})
	}
}
