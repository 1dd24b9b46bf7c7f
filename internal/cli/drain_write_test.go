package cli

import (
	"context"
	"testing"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// hubOf is a hub that has g. looked is called at each look at it, with the one that is there.
func hubOf(t *testing.T, g *v1alpha1.TargetGroup, looked func(client.WithWatch, *v1alpha1.TargetGroup)) *Hub {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return &Hub{client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(g).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			err := c.Get(ctx, key, o, opts...)
			if g, ok := o.(*v1alpha1.TargetGroup); ok && err == nil && looked != nil {
				looked(c, g.DeepCopy())
			}
			return err
		},
	}).Build()}
}

func groupIn(t *testing.T, h *Hub) *v1alpha1.TargetGroup {
	t.Helper()
	g := &v1alpha1.TargetGroup{}
	if err := h.client.Get(t.Context(), client.ObjectKey{Namespace: "prod", Name: "databases"}, g); err != nil {
		t.Fatal(err)
	}
	return g
}

func databases() *v1alpha1.TargetGroup {
	return &v1alpha1.TargetGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "databases"},
		Spec:       v1alpha1.TargetGroupSpec{Targets: []v1alpha1.Target{{Name: "db-1", UID: "1"}, {Name: "db-2", UID: "2", State: v1alpha1.TargetServing}}},
	}
}

// All targets of a person's group are told in spec, whose generation tells this drain from an earlier one; and an undo takes
// away the annotation of whoever drained the group by that.
func TestDrainOfAGroupIsWrittenToItsSpec(t *testing.T) {
	all := Targets{Namespace: "prod", Group: "databases"}
	h := hubOf(t, databases(), nil)
	if _, err := h.DrainTargets(t.Context(), all, false); err != nil {
		t.Fatal(err)
	}
	for _, x := range groupIn(t, h).Spec.Targets {
		if x.State != v1alpha1.TargetDraining {
			t.Errorf("%s is %q", x.Name, x.State)
		}
	}
	g := groupIn(t, h)
	g.Annotations = map[string]string{clusterv1.DisabledAnnotation: "true"}
	if err := h.client.Update(t.Context(), g); err != nil {
		t.Fatal(err)
	}
	if _, err := h.DrainTargets(t.Context(), all, true); err != nil {
		t.Fatal(err)
	}
	g = groupIn(t, h)
	for i := range g.Spec.Targets {
		if g.Drains(i) {
			t.Errorf("undone, %s drains: %q, %v", g.Spec.Targets[i].Name, g.Spec.Targets[i].State, g.Annotations)
		}
	}
}

// The spec of an agent's group is its agent's. That it drains is annotated once the manager speaks of no earlier drain.
func TestDrainOfAnAgentsGroupWaitsForTheEndOfAnEarlierOne(t *testing.T) {
	g := databases()
	g.Labels = map[string]string{v1alpha1.LabelTargets: v1alpha1.TargetsNodes}
	g.Status.Targets = []v1alpha1.MemberStatus{{Name: "db-1", UID: "1", State: stateDrained}}
	looks := 0
	h := hubOf(t, g, func(c client.WithWatch, g *v1alpha1.TargetGroup) {
		if g.Status.Targets == nil {
			return
		}
		if g.Drains(0) {
			t.Error("annotated while the manager speaks of an earlier drain")
		}
		if looks++; looks < 3 {
			return
		}
		g.Status.Targets = nil
		if err := c.Update(t.Context(), g); err != nil {
			t.Error(err)
		}
	})
	if _, err := h.DrainTargets(t.Context(), Targets{Namespace: "prod", Group: "databases"}, false); err != nil {
		t.Fatal(err)
	}
	if g := groupIn(t, h); !g.Drains(0) || g.Spec.Targets[0].State != "" || looks < 3 {
		t.Errorf("after %d looks: %v, %q", looks, g.Annotations, g.Spec.Targets[0].State)
	}
	if _, err := h.DrainTargets(t.Context(), Targets{Namespace: "prod", Group: "databases"}, true); err != nil || groupIn(t, h).Drains(0) {
		t.Errorf("undone, it drains: %v", err)
	}
}
