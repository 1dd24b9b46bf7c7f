package endpoint

import (
	"context"
	"strings"
	"testing"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/internal/build"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// Where nobody may look after Clusters' endpoints each LoadBalancer that would publish one says so, once, and what was published stays.
func TestWhereNobodyLooksTheLoadBalancerSaysSo(t *testing.T) {
	says := func(status metav1.ConditionStatus, reason string) func(*clusterv1.LoadBalancer) {
		return func(l *clusterv1.LoadBalancer) {
			meta.SetStatusCondition(&l.Status.Conditions, metav1.Condition{Type: clusterv1.ConditionEndpointPublished, Status: status, Reason: reason, ObservedGeneration: 1})
		}
	}
	plane := role(clusterv1.RoleControlPlane)
	for name, c := range map[string]struct {
		l    *clusterv1.LoadBalancer
		want string
	}{
		"of a control plane":          {balancer(frontName, plane, served), "Unknown Forbidden"},
		"named by its Cluster":        {balancer(frontName, served), "Unknown Forbidden"},
		"that waited":                 {balancer(frontName, plane, says(metav1.ConditionFalse, clusterv1.ReasonPending)), "Unknown Forbidden"},
		"that is published":           {balancer(frontName, plane, says(metav1.ConditionTrue, clusterv1.ReasonPublished)), "True Published"},
		"of workers":                  {balancer(frontName, role(clusterv1.RoleWorkload)), ""},
		"of workers by now":           {balancer(frontName, role(clusterv1.RoleWorkload), says(metav1.ConditionUnknown, clusterv1.ReasonForbidden)), ""},
		"of no role, named by nobody": {balancer("workers"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			writes := 0
			r, here := stage(t, interceptor.Funcs{SubResourcePatch: func(ctx context.Context, w client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
				writes++
				return w.SubResource(sub).Patch(ctx, o, p, opts...)
			}}, clusterWith("", 0, names), c.l)
			for range 2 {
				if err := r.Untended(t.Context(), clusterv1.ReasonForbidden, "Apply it."); err != nil {
					t.Fatal(err)
				}
			}
			l := &clusterv1.LoadBalancer{}
			if err := here.Get(t.Context(), client.ObjectKeyFromObject(c.l), l); err != nil {
				t.Fatal(err)
			}
			got := ""
			if said := meta.FindStatusCondition(l.Status.Conditions, clusterv1.ConditionEndpointPublished); said != nil {
				got = string(said.Status) + " " + said.Reason
				if said.Reason == clusterv1.ReasonForbidden && said.Message != "Apply it." {
					t.Errorf("it says %q", said.Message)
				}
			}
			if got != c.want || writes > 1 {
				t.Errorf("it says %q after %d writes, not %q", got, writes, c.want)
			}
			if p := build.Unpublished(l); p != nil {
				t.Errorf("it isn't ready for it: %+v", p)
			}
		})
	}
}

// With the rights the condition is what came of its endpoint.
func TestOnceSomebodyLooksItIsSaid(t *testing.T) {
	r, here := stage(t, interceptor.Funcs{}, clusterWith("", 0, names), balancer(frontName, served))
	if err := r.Untended(t.Context(), clusterv1.ReasonForbidden, "Apply it."); err != nil {
		t.Fatal(err)
	}
	rest(t, r)
	if got := strings.Join(shows(t, here), ", "); !strings.HasSuffix(got, "Published") {
		t.Error(got)
	}
}
