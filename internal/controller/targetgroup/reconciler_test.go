package targetgroup

import (
	"testing"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/controller/fleet"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// A proxy whose hub has changed is asked of a namespace until it follows the hub there, whatever else it waits for.
func TestOneMissingAgentHoldsUpItsOwnNamespaceOnly(t *testing.T) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clusterv1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	const unsaid = "unsaid"
	for name, c := range map[string]struct {
		state   v1alpha1.TargetState
		through string
		held    []string
		asked   bool
	}{
		"frozen":                        {v1alpha1.TargetDraining, "", nil, true},
		"frozen, and nothing drains":    {"", "", nil, false},
		"follows the ledger, not here":  {v1alpha1.TargetDraining, "9", []string{"other", "prod"}, true},
		"follows here, not elsewhere":   {v1alpha1.TargetDraining, "9", []string{"other"}, false},
		"follows, and another is asked": {v1alpha1.TargetDraining, "9", nil, false},
		"has said nothing yet":          {v1alpha1.TargetDraining, unsaid, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			proxies := fleet.New(fleet.Options{Now: time.Now})
			p := &v1alpha1.Proxy{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: v1alpha1.ProxySpec{Pool: "edge"}, Status: v1alpha1.ProxyStatus{
				Boot: "b", Phase: v1alpha1.ProxyServing, Held: c.held, Through: v1alpha1.Through{Addresses: c.through},
				Conditions: []metav1.Condition{{Type: v1alpha1.ConditionHubChanged, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonHubRestored}},
			}}
			if c.through == unsaid { // It is registered, and its first status is on its way.
				p.Status = v1alpha1.ProxyStatus{}
			}
			proxies.SetProxy(p)
			g := &v1alpha1.TargetGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "g"}}
			g.Spec.Targets = []v1alpha1.Target{{Name: "a", State: c.state}}
			r := &Reconciler{Client: fake.NewClientBuilder().WithScheme(scheme).Build(), Fleet: proxies}
			got, err := r.proxies(t.Context(), g)
			if err != nil || (len(got) == 1) != c.asked {
				t.Errorf("%d asked, %v", len(got), err)
			}
		})
	}
}
