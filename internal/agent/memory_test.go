package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/internal/agent/service"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

var key = types.NamespacedName{Namespace: "default", Name: "web"}

func at(version string) *v1.Service {
	return &v1.Service{ObjectMeta: metav1.ObjectMeta{ResourceVersion: version}}
}

func TestMemoryHoldsUntilTheCacheShows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory[string]()
		if _, _, ok := m.pending(key, nil); ok {
			t.Error("it knows what was never written")
		}
		m.wrote(key, "x", "100")
		for _, cached := range []string{"9", "99"} {
			if what, wait, ok := m.pending(key, at(cached)); !ok || what != "x" || wait != unseen {
				t.Errorf("at %s: %q, %s, %t", cached, what, wait, ok)
			}
		}
		if _, _, ok := m.pending(key, nil); !ok {
			t.Error("an object that the cache doesn't have yet is forgotten")
		}
		if _, _, ok := m.pending(key, at("100")); ok {
			t.Error("it isn't forgotten when the cache has it")
		}
		m.wrote(key, "x", "100")
		if _, _, ok := m.pending(key, at("no number")); ok {
			t.Error("versions that are no numbers hold something up")
		}
		m.wrote(key, "x", "100")
		time.Sleep(unseen) // of the bubble's clock
		if _, _, ok := m.pending(key, nil); ok {
			t.Error("it holds for ever")
		}
	})
}

func TestRetryingPacesEachKeyAndIsQuietAtTheEnd(t *testing.T) {
	fails := errors.New("away")
	r := newRetrying(reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
		return reconcile.Result{}, fails
	}), "test", slog.New(slog.DiscardHandler))
	req := reconcile.Request{NamespacedName: key}
	last := time.Duration(0)
	for i := range 20 {
		result, err := r.Reconcile(t.Context(), req)
		if err != nil || result.RequeueAfter < last || result.RequeueAfter > retryMost {
			t.Fatalf("try %d: %+v, %v", i, result, err)
		}
		last = result.RequeueAfter
	}
	if last != retryMostOfFew {
		t.Errorf("one alone ends at %s", last)
	}
	for i := range 5 * retryRate {
		many := reconcile.Request{NamespacedName: types.NamespacedName{Name: fmt.Sprint(i)}}
		if _, err := r.Reconcile(t.Context(), many); err != nil {
			t.Fatal(err)
		}
	}
	if result, _ := r.Reconcile(t.Context(), req); result.RequeueAfter != retryMost {
		t.Errorf("one of many ends at %s", result.RequeueAfter)
	}
	if result, _ := r.Reconcile(t.Context(), reconcile.Request{}); result.RequeueAfter != retryFirst {
		t.Errorf("another key waits %s", result.RequeueAfter)
	}
	stopping, cancel := context.WithCancel(t.Context())
	cancel()
	if result, err := r.Reconcile(stopping, req); err != nil || !result.IsZero() {
		t.Errorf("while stopping: %+v, %v", result, err)
	}
}

func TestHubProblem(t *testing.T) {
	resource := schema.GroupResource{Group: "cluster.x-k8s.io", Resource: "loadbalancers"}
	for _, c := range []struct {
		name    string
		err     error
		failing time.Duration
		reason  string
		retry   time.Duration
		tell    bool
	}{
		{"what can't become true is told at once", apierrors.NewInvalid(clusterv1.GroupVersion.WithKind("LoadBalancer").GroupKind(), "x", nil), 0, clusterv1.ReasonInvalid, refusedRetry, true},
		{"an API server that just came back", apierrors.NewForbidden(resource, "x", nil), time.Second, service.ReasonHubRefuses, refusedRetry, false},
		{"no rights", apierrors.NewForbidden(resource, "x", nil), tellAfter, service.ReasonHubRefuses, refusedRetry, true},
		{"no credentials that it knows", apierrors.NewUnauthorized("x"), tellAfter, service.ReasonHubRefuses, refusedRetry, true},
		{"away for a moment", errors.New("refused"), time.Second, service.ReasonHubUnreachable, 0, false},
		{"away", errors.New("refused"), tellAfter, service.ReasonHubUnreachable, 0, true},
		{"too many ask", apierrors.NewTooManyRequests("x", 1), tellAfter, service.ReasonHubUnreachable, 0, true},
		{"nobody behind a load balancer", apierrors.NewGenericServerResponse(http.StatusBadGateway, "patch", resource, "x", "", 0, true), tellAfter, service.ReasonHubUnreachable, 0, true},
		{"not ready", apierrors.NewServiceUnavailable("x"), tellAfter, service.ReasonHubUnreachable, 0, true},
		{"too slow", apierrors.NewTimeoutError("x", 1), tellAfter, service.ReasonHubUnreachable, 0, true},
		{"a webhook that is dead for a moment", apierrors.NewInternalError(errors.New("x")), time.Second, service.ReasonHubRefuses, answeredRetry, false},
		{"a webhook that is dead", apierrors.NewInternalError(errors.New("x")), tellAfter, service.ReasonHubRefuses, answeredRetry, true},
		{"a field that it doesn't know", apierrors.NewBadRequest("x"), tellAfter, service.ReasonHubRefuses, answeredRetry, true},
		{"more than it takes", apierrors.NewRequestEntityTooLargeError("x"), tellAfter, service.ReasonHubRefuses, answeredRetry, true},
	} {
		p, retry, tell := hubProblem(fmt.Errorf("writing: %w", c.err), c.failing)
		if p.Reason != c.reason || retry != c.retry || tell != c.tell || p.Message == "" || !p.Refuses {
			t.Errorf("%s: %+v, %s, %t", c.name, p, retry, tell)
		}
	}
}

func TestSoonest(t *testing.T) {
	for _, c := range [][3]time.Duration{{0, 0, 0}, {0, 2, 2}, {2, 0, 2}, {1, 2, 1}, {2, 1, 1}} {
		if got := soonest(c[0], c[1]); got != c[2] {
			t.Errorf("%d, %d: %d", c[0], c[1], got)
		}
	}
}

func TestNodesAreKeptSlim(t *testing.T) {
	n := &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n", ManagedFields: []metav1.ManagedFieldsEntry{{}}},
		Spec:       v1.NodeSpec{PodCIDR: "x", Taints: []v1.Taint{{Key: "k"}}},
		Status: v1.NodeStatus{
			Images:     []v1.ContainerImage{{SizeBytes: 1}},
			Addresses:  []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: "10.0.0.1"}},
			Conditions: []v1.NodeCondition{{Type: v1.NodeDiskPressure}, {Type: v1.NodeReady, Status: v1.ConditionTrue, Message: "m"}},
		},
	}
	before := n.DeepCopy()
	if _, err := slimNode(n); err != nil {
		t.Fatal(err)
	}
	if len(n.ManagedFields) > 0 || len(n.Status.Images) > 0 || len(n.Status.Conditions) != 1 || n.Status.Conditions[0].Message != "" {
		t.Errorf("%+v", n)
	}
	if !sameTarget(before, n) {
		t.Error("the target is another one")
	}
}
