package agent

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/agent/node"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/event"
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

// What was told of Nodes that all fail is over when they are checked otherwise: under the name that it was told by.
func TestWhatLastsIsOverWhenNodesAreCheckedAtTheirPorts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		scheme := runtime.NewScheme()
		if err := v1alpha1.AddToScheme(scheme); err != nil {
			t.Fatal(err)
		}
		g := &v1alpha1.TargetGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "t", Name: node.GroupName(0)},
			Spec:   node.Place(nil, []v1alpha1.Target{{Name: "n1", UID: "n1"}}, node.ByHealthz)[0],
			Status: v1alpha1.TargetGroupStatus{Targets: []v1alpha1.MemberStatus{{Name: "n1", State: "unhealthy"}}}}
		hub := fake.NewClientBuilder().WithScheme(scheme).WithObjects(g).Build()
		r := &wellness{hub: hub, namespace: "t", events: newRecorder(nil, "x", slog.New(slog.DiscardHandler), newMetrics("t"))}
		look := func(events int) {
			t.Helper()
			if _, err := r.Reconcile(t.Context(), reconcile.Request{}); err != nil || len(r.events.queue) != events {
				t.Fatalf("%d events, %v", len(r.events.queue), err)
			}
		}
		look(0)
		time.Sleep(tellAfter) // of the bubble's clock
		look(1)
		if err := hub.Get(t.Context(), client.ObjectKeyFromObject(g), g); err != nil {
			t.Fatal(err)
		}
		was := g.DeepCopy()
		g.Spec.HealthCheck = node.Place(nil, g.Spec.Targets, node.ByPort)[0].HealthCheck
		g.Annotations = map[string]string{v1alpha1.AnnotationCheckedByPort: node.ByPort.Reason()}
		if err := hub.Update(t.Context(), g); err != nil {
			t.Fatal(err)
		}
		if !turns.Update(event.TypedUpdateEvent[*v1alpha1.TargetGroup]{ObjectOld: was, ObjectNew: g}) {
			t.Error("that it is checked otherwise wakes nobody")
		}
		look(2)
		look(2) // once
		began, over := <-r.events.queue, <-r.events.queue
		if over.Name != began.Name+".over" || over.Reason != clusterv1.ReasonAsExpected || !strings.Contains(over.Note, v1alpha1.ReasonCheckedByPort) {
			t.Errorf("after %s: %+v", began.Name, over)
		}
	})
}
