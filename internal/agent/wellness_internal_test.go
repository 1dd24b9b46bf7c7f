package agent

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/agent/node"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// The next agent tells what lasts under the name that the one before had for it, so that it is not told again.
func TestWhatLastsHasOneNameForAllAgents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		scheme := runtime.NewScheme()
		if err := v1alpha1.AddToScheme(scheme); err != nil {
			t.Fatal(err)
		}
		since := metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
		g := &v1alpha1.TargetGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "t", Name: node.GroupName(0)},
			Spec:   v1alpha1.TargetGroupSpec{Targets: []v1alpha1.Target{{Name: "n1"}}},
			Status: v1alpha1.TargetGroupStatus{Targets: []v1alpha1.MemberStatus{{Name: "n1", State: "unhealthy", Since: &since}}}}
		hub := fake.NewClientBuilder().WithScheme(scheme).WithObjects(g).Build()
		var names []string
		for range 2 {
			r := &wellness{hub: hub, namespace: "t", events: newRecorder(nil, "x", slog.New(slog.DiscardHandler), newMetrics("t"))}
			first, err := r.Reconcile(t.Context(), reconcile.Request{})
			if err != nil || first.RequeueAfter != tellAfter || len(r.events.queue) > 0 {
				t.Fatalf("at once: %+v, %v, %d events", first, err, len(r.events.queue))
			}
			time.Sleep(first.RequeueAfter) // of the bubble's clock
			for range 2 {
				if _, err := r.Reconcile(t.Context(), reconcile.Request{}); err != nil {
					t.Fatal(err)
				}
			}
			if len(r.events.queue) != 1 {
				t.Fatalf("%d events", len(r.events.queue))
			}
			names = append(names, (<-r.events.queue).Name)
		}
		if names[0] != names[1] {
			t.Errorf("told as %q", names)
		}
	})
}
