package cli

import (
	"context"
	"errors"
	"strings"
	"testing"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/machines"
	"fairlead.dev/fairlead/internal/member"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// machineNamed is a Machine with a state of the LoadBalancer api's.
func machineNamed(name string, state member.State, annotations map[string]string) *unstructured.Unstructured {
	m := ofClusterAPI("Machine", name, member.Annotate(annotations, "api", member.Decision{State: state, Hook: true}, "", false))
	m.SetUID(types.UID("uid-" + name))
	return m
}

// groupOfMachines is a TargetGroup that the manager made for a LoadBalancer.
func groupOfMachines(loadBalancer string, names ...string) *v1alpha1.TargetGroup {
	g := &v1alpha1.TargetGroup{ObjectMeta: metav1.ObjectMeta{
		Namespace: "clusters", Name: machines.GroupName(loadBalancer, 0), UID: types.UID("uid-of-" + loadBalancer), Generation: 1,
		Labels: map[string]string{v1alpha1.LabelFor: loadBalancer, v1alpha1.LabelGeneratedFrom: "Machine"},
	}}
	for _, n := range names {
		g.Spec.Targets = append(g.Spec.Targets, v1alpha1.Target{Name: n, UID: "uid-" + n, Addresses: []string{"10.0.0.1"}, State: v1alpha1.TargetServing})
	}
	return g
}

// drainHub serves Machines and Clusters, if kinds say so, and has those objects.
func drainHub(t *testing.T, kinds []string, objects ...client.Object) *Hub {
	t.Helper()
	h := leaveHub(t)
	scheme := h.client.Scheme()
	for _, add := range []func() error{func() error { return v1alpha1.AddToScheme(scheme) }, func() error { return clusterv1.AddToScheme(scheme) }} {
		if err := add(); err != nil {
			t.Fatal(err)
		}
	}
	mapper := meta.NewDefaultRESTMapper(nil)
	for _, kind := range kinds {
		mapper.Add(clusterAPI.WithKind(kind), meta.RESTScopeNamespace)
	}
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Node"), meta.RESTScopeRoot)
	mapper.Add(v1alpha1.GroupVersion.WithKind("TargetGroup"), meta.RESTScopeNamespace)
	mapper.Add(clusterv1.GroupVersion.WithKind("LoadBalancer"), meta.RESTScopeNamespace)
	h.client = fake.NewClientBuilder().WithScheme(scheme).WithRESTMapper(mapper).WithObjects(objects...).Build()
	return h
}

// plan reads what a drain needs, and plans it.
func plan(t *testing.T, h *Hub, targets Targets) (Drain, error) {
	t.Helper()
	o, err := h.Look(t.Context(), targets.Namespace)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Machines(t.Context(), o, targets); err != nil {
		return Drain{}, err
	}
	return PlanDrain(o, targets)
}

func annotationsOf(t *testing.T, h *Hub, name string) map[string]string {
	t.Helper()
	m := ofClusterAPI("Machine", name, nil)
	if err := h.client.Get(t.Context(), client.ObjectKeyFromObject(m), m); err != nil {
		t.Fatal(err)
	}
	return m.GetAnnotations()
}

var served = []string{"Machine", "Cluster"}

// The targets of a group that the manager makes are Machines: they are annotated, and the group stays as it is.
func TestDrainOfMachinesIsAnnotatedOnThem(t *testing.T) {
	group := groupOfMachines("api", "m1", "m2")
	h := drainHub(t, served, group, groupOfMachines("apps", "m1"), ofClusterAPI("Cluster", "prod", nil), machineNamed("m1", member.Active, nil), machineNamed("m2", member.Active, nil))
	one := Targets{Namespace: "clusters", Group: group.Name, Target: "m1"}
	d, err := plan(t, h, one)
	if err != nil || d.Refuse() || strings.Join(d.Groups, " ") != "clusters/api-members-0 clusters/apps-members-0" || len(d.Targets) != 2 {
		t.Fatalf("%+v, %v", d, err)
	}
	drained := func(want string) {
		t.Helper()
		got := ""
		for _, name := range []string{"m1", "m2"} {
			if _, is := annotationsOf(t, h, name)[clusterv1.DisabledAnnotation]; is {
				got += name + " "
			}
		}
		after := &v1alpha1.TargetGroup{}
		if err := h.client.Get(t.Context(), client.ObjectKeyFromObject(group), after); err != nil {
			t.Fatal(err)
		}
		if strings.TrimSpace(got) != want || after.Spec.Targets[0].State != v1alpha1.TargetServing || len(after.Annotations) > 0 {
			t.Errorf("annotated are %q, want %q; the group has %v, %+v", got, want, after.Annotations, after.Spec.Targets)
		}
	}
	drained("")
	for _, c := range []struct {
		targets Targets
		undo    bool
		want    string
	}{{one, false, "m1"}, {one, false, "m1"}, {one, true, ""}, {one, true, ""}, {Targets{Namespace: "clusters", Group: group.Name}, false, "m1 m2"}, {one, true, "m2"}} {
		if still, err := h.DrainTargets(t.Context(), c.targets, c.undo); err != nil || still != "" {
			t.Fatalf("%q, %v", still, err)
		}
		drained(c.want)
	}
}

// Where the manager would undo it or never see it, a drain is turned down before anything is written, and says what to do.
func TestDrainOfMachinesThatCantBe(t *testing.T) {
	group := groupOfMachines("api", "m1")
	one := Targets{Namespace: "clusters", Group: group.Name, Target: "m1"}
	prod, m1 := ofClusterAPI("Cluster", "prod", nil), machineNamed("m1", member.Active, nil)
	another := m1.DeepCopy()
	another.SetUID("another")
	for name, c := range map[string]struct {
		kinds   []string
		objects []client.Object
		targets Targets
		says    string
	}{
		"no Machines are served":  {nil, nil, one, "ask the management cluster of Cluster API"},
		"the Machine isn't there": {served, []client.Object{prod}, one, "no Machine clusters/m1 of UID uid-m1"},
		"another one is there":    {served, []client.Object{prod, another}, one, "no Machine clusters/m1 of UID uid-m1"},
		"it was never served":     {served, []client.Object{prod, m1}, Targets{Namespace: "clusters", Group: group.Name, Target: "m2"}, "kubectl annotate machine m2 -n clusters"},
	} {
		h := drainHub(t, c.kinds, append(c.objects, group)...)
		if _, err := plan(t, h, c.targets); !errors.Is(err, ErrTarget) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	paused := map[string]string{clusterv1.PausedAnnotation: ""}
	for name, objects := range map[string][]client.Object{
		"it is paused":         {prod, machineNamed("m1", member.Active, paused)},
		"its Cluster is":       {ofClusterAPI("Cluster", "prod", paused), m1},
		"it moves to another":  {prod, machineNamed("m1", member.Active, map[string]string{clusterv1.MoveAnnotation: ""})},
		"its Cluster moves to": {ofClusterAPI("Cluster", "prod", map[string]string{clusterv1.MoveAnnotation: ""}), m1},
	} {
		d, err := plan(t, drainHub(t, served, append(objects, group)...), one)
		if err != nil || !d.Refuse() || !strings.Contains(d.Message, "Machine m1: it") || !strings.Contains(d.Fix, "End that first") {
			t.Errorf("%s: %+v, %v", name, d, err)
		}
	}
}

// An undo says what has a Machine take no connection all the same.
func TestUndoOfAMachineThatStaysOut(t *testing.T) {
	disabled := func(more ...string) map[string]string {
		out := map[string]string{clusterv1.DisabledAnnotation: ""}
		for _, key := range more {
			out[key] = ""
		}
		return out
	}
	leaving := machineNamed("m1", member.Disabled, disabled())
	now := metav1.Now()
	leaving.SetDeletionTimestamp(&now)
	leaving.SetFinalizers([]string{"a"})
	for want, m := range map[string]*unstructured.Unstructured{
		"Machine m1 is being deleted":                     leaving,
		"Machine m1 does so once this ends: it is paused": machineNamed("m1", member.Disabled, disabled(clusterv1.PausedAnnotation)),
	} {
		group := groupOfMachines("api", "m1")
		h := drainHub(t, served, group, ofClusterAPI("Cluster", "prod", nil), m)
		still, err := h.DrainTargets(t.Context(), Targets{Namespace: "clusters", Group: group.Name, Target: "m1"}, true)
		if _, is := annotationsOf(t, h, "m1")[clusterv1.DisabledAnnotation]; err != nil || still != want || is {
			t.Errorf("%q, %v, want %q", still, err, want)
		}
	}
}

// How far a drain of a Machine is: by the manager's word on its target, and then on itself. What is said of an earlier drain that was
// undone is waited for.
func TestDrainOfAMachineGoesOn(t *testing.T) {
	group := groupOfMachines("api", "m1", "m2")
	m1 := machineNamed("m1", member.Active, nil)
	o := &Objects{TargetGroups: []*v1alpha1.TargetGroup{group}, Machines: []*unstructured.Unstructured{m1, machineNamed("m2", member.Active, nil)}}
	d, err := PlanDrain(o, Targets{Namespace: "clusters", Group: group.Name, Target: "m1"})
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		do    func()
		state DrainState
		says  string
	}{
		{func() {}, DrainDraining, "m1: the manager has yet to have it drain"},
		{func() { group.Generation, group.Spec.Targets[0].State = 2, v1alpha1.TargetDraining }, DrainDraining, "m1: the manager has yet to say how far it is"},
		{func() {
			group.Status.Targets = []v1alpha1.MemberStatus{{Name: "m1", UID: "uid-m1", State: stateDraining, OpenConnections: 2}}
			meta.SetStatusCondition(&group.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionHealthy, Status: metav1.ConditionTrue, ObservedGeneration: 2})
		}, DrainDraining, "m1: 2 open connections"},
		{func() { group.Status.Targets[0].State, group.Status.Targets[0].OpenConnections = stateDrained, 0 }, DrainDraining, "m1: the manager has yet to say that it is out of LoadBalancer api"},
		{func() { o.Machines[0] = machineNamed("m1", member.Disabled, nil) }, DrainDrained, "every proxy has let go"},
		{func() { o.Machines, group.Spec.Targets = o.Machines[1:], group.Spec.Targets[1:] }, DrainUnknown, "gone from the hub"},
	} {
		step.do()
		if d.Judge(o); d.State != step.state || !strings.Contains(d.Message, step.says) || d.State == DrainDraining && d.Fix == "" {
			t.Errorf("%s %q %q, want %s %q", d.State, d.Message, d.Fix, step.state, step.says)
		}
	}

	h := drainHub(t, served, groupOfMachines("api", "m1"), machineNamed("m1", member.Disabled, nil))
	ctx, cancel := context.WithTimeout(t.Context(), 3*lookAgain)
	defer cancel()
	_, err = h.DrainTargets(ctx, Targets{Namespace: "clusters", Group: "api-members-0", Target: "m1"}, false)
	if _, is := annotationsOf(t, h, "m1")[clusterv1.DisabledAnnotation]; is || err == nil || !strings.Contains(err.Error(), "an earlier drain was undone") {
		t.Errorf("annotated %v: %v", is, err)
	}
}
