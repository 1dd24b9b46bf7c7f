package agent

import (
	"errors"
	"testing"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/internal/agent/management"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// The hub's word on a Machine counts where it serves the LoadBalancer, and is the one that did.
func TestWhoseWordProves(t *testing.T) {
	looked := &clusterv1.LoadBalancer{Spec: clusterv1.LoadBalancerSpec{ClassName: "edge"}, Status: clusterv1.LoadBalancerStatus{Conditions: []metav1.Condition{{Type: clusterv1.ConditionAccepted, Status: metav1.ConditionTrue}}}}
	other := looked.DeepCopy()
	other.Spec.ClassName = "service"
	proxied := func(class string) (bool, bool) { return class == "edge", true }
	for name, c := range map[string]struct {
		noted, is string
		have      *clusterv1.LoadBalancer
		proves    bool
	}{
		"the hub that served it":              {"one", "one", looked, true},
		"another one":                         {"one", "other", looked, false},
		"none was noted":                      {"", "one", looked, false},
		"it doesn't say who it is":            {"one", "", looked, true},
		"a class without proxies":             {"one", "one", other, false},
		"it has none":                         {"one", "one", nil, false},
		"its manager hasn't looked, or can't": {"one", "one", &clusterv1.LoadBalancer{}, false},
	} {
		l := &clusterv1.LoadBalancer{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{clusterv1.HubAnnotation: c.noted}}}
		if why := (&mirrors{hubUID: c.is, proxied: proxied}).unproven(l, c.have); (why == "") != c.proves {
			t.Errorf("%s: %q", name, why)
		}
	}
}

// A cluster that is its own hub has the manager follow its Machines.
func TestNoHubMirrorsToItself(t *testing.T) {
	if _, err := setupMirrors(nil, nil, Options{}, nil, nil, &Bond{seen: seen{clusterUID: "a", hubUID: "a"}}, nil); !errors.Is(err, errIsHub) {
		t.Error(err)
	}
}

// What is deleted here because another management cluster has it now was deleted by nobody: the hub serves it on.
func TestWhatMovesWasDeletedByNobody(t *testing.T) {
	q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer q.ShutDown()
	for name, c := range map[string]struct {
		annotations map[string]string
		deleted     bool
	}{"deleted": {nil, true}, "moved": {map[string]string{clusterv1.MoveAnnotation: ""}, false}} {
		gone := newObserved[types.NamespacedName]()
		l := &clusterv1.LoadBalancer{ObjectMeta: metav1.ObjectMeta{Namespace: "clusters", Name: name, Annotations: c.annotations}}
		seenHere(gone, func(l *clusterv1.LoadBalancer) (types.NamespacedName, bool) { return management.Key(l), true }).
			Delete(t.Context(), event.TypedDeleteEvent[*clusterv1.LoadBalancer]{Object: l}, q)
		if got := gone.has(management.Key(l)); got != c.deleted {
			t.Errorf("%s: it was seen to be deleted: %v", name, got)
		}
		if woken, _ := q.Get(); woken.NamespacedName != management.Key(l) {
			t.Errorf("%s: %v is woken", name, woken)
		}
	}
}
