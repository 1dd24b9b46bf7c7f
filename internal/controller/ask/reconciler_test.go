package ask

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/controller/fleet"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// A manager asks whom it must believe and hasn't heard of: not who is out, dead, or was heard of. It asks each once, and the next
// manager asks anew.
func TestOnlyWhoWasNotHeardOfIsAsked(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	proxies := map[string]*v1alpha1.Proxy{}
	var objects []client.Object
	for _, name := range []string{"listed", "renewed", "fenced", "dead", "frozen"} {
		p := &v1alpha1.Proxy{
			ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{"theirs": "stays"}}, Spec: v1alpha1.ProxySpec{Pool: "edge"},
			Status: v1alpha1.ProxyStatus{Boot: "b", Phase: v1alpha1.ProxyServing},
		}
		proxies[name], objects = p, append(objects, p)
	}
	proxies["fenced"].Spec.Fenced = &v1alpha1.Fence{By: "somebody"}
	proxies["frozen"].Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionHubChanged, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonHubRestored}}
	patches := 0
	hub := counting{fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build(), &patches}
	known := fleet.New(fleet.Options{Logger: slog.New(slog.DiscardHandler), Now: time.Now})
	lease := func(name string, at int64) *coordinationv1.Lease {
		renewed := metav1.NewMicroTime(time.Unix(at, 0))
		return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{v1alpha1.AnnotationBoot: "b"}}, Spec: coordinationv1.LeaseSpec{RenewTime: &renewed}}
	}
	for name, p := range proxies {
		known.SetProxy(p)
		if name != "dead" {
			known.ListLease(lease(name, 1))
		}
	}
	known.SetLease(lease("renewed", 2))

	asked := func(name string) string {
		p := &v1alpha1.Proxy{}
		if err := hub.Get(t.Context(), client.ObjectKey{Name: name}, p); err != nil {
			t.Fatal(err)
		}
		if p.Annotations["theirs"] != "stays" {
			t.Errorf("annotations of %s are %v", name, p.Annotations)
		}
		return p.Annotations[v1alpha1.AnnotationAsked]
	}
	reconcileAll := func(r *Reconciler) {
		for _, name := range []string{"deleted", "listed", "renewed", "fenced", "dead", "frozen"} {
			if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: name}}); err != nil {
				t.Error(err)
			}
		}
	}
	o := Options{Logger: slog.New(slog.DiscardHandler), Client: hub, Fleet: known}
	reconcileAll(New(o))
	first := asked("listed")
	for name := range proxies {
		if got, want := asked(name) != "", name == "listed" || name == "frozen"; got != want {
			t.Errorf("%s is asked: %v", name, got)
		}
	}
	if first == "" || patches != 2 {
		t.Errorf("asked %q, with %d writes", first, patches)
	}
	if reconcileAll(New(o)); asked("listed") == first {
		t.Error("the next manager asks what was answered already")
	}
	known.SetLease(lease("listed", 2))
	patches = 0
	if reconcileAll(New(o)); patches != 1 {
		t.Errorf("%d writes, and only the frozen one was yet to be heard of", patches)
	}
}

// counting counts patches.
type counting struct {
	client.Client
	patches *int
}

func (c counting) Patch(ctx context.Context, o client.Object, p client.Patch, opts ...client.PatchOption) error {
	*c.patches++
	return c.Client.Patch(ctx, o, p, opts...)
}
