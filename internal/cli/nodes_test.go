package cli

import (
	"context"
	"maps"
	"strings"
	"testing"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/member"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// nodeNamed is a Node of which LoadBalancers say that.
func nodeNamed(name, status string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), Annotations: map[string]string{member.StatusAnnotation: status, "example.com/x": "y"}}}
}

// groupOfNodes is a TargetGroup that the manager made for LoadBalancer api of a namespace.
func groupOfNodes(namespace string, names ...string) *v1alpha1.TargetGroup {
	g := groupOfMachines("api", names...)
	g.Namespace, g.UID, g.Labels[v1alpha1.LabelGeneratedFrom] = namespace, types.UID("uid-of-"+namespace), "Node"
	return g
}

func nodeOf(t *testing.T, h *Hub, name string) *corev1.Node {
	t.Helper()
	n := &corev1.Node{}
	if err := h.client.Get(t.Context(), types.NamespacedName{Name: name}, n); err != nil {
		t.Fatal(err)
	}
	return n
}

// A Node is annotated, and drains from LoadBalancers of all namespaces.
func TestDrainOfNodes(t *testing.T) {
	group := groupOfNodes("blue", "n1", "n2")
	kube := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem}}
	h := drainHub(t, nil, kube, group, groupOfNodes("green", "n1"), nodeNamed("n1", "blue/api=active,green/api=active"), nodeNamed("n2", "blue/api=active"))
	one := Targets{Namespace: "blue", Group: group.Name, Target: "n1"}
	d, err := plan(t, h, one)
	if err != nil || d.Refuse() || strings.Join(d.Groups, " ") != "blue/api-members-0 green/api-members-0" || len(d.Targets) != 2 {
		t.Fatalf("%+v, %v", d, err)
	}
	if still, err := h.DrainTargets(t.Context(), one, false); still != "" || err != nil {
		t.Fatal(still, err)
	}
	if _, is := nodeOf(t, h, "n1").Annotations[clusterv1.DisabledAnnotation]; !is {
		t.Error("it isn't annotated")
	}
	if _, is := nodeOf(t, h, "n2").Annotations[clusterv1.DisabledAnnotation]; is {
		t.Error("another one is")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
	defer cancel()
	if err := d.Follow(ctx, h, one, time.Hour, func(*Drain) {}); err != nil {
		t.Error(err)
	}
	// The manager says that it is out of one of them.
	out := func(status string) *Objects {
		n := nodeOf(t, h, "n1")
		n.Annotations[member.StatusAnnotation] = status
		if err := h.client.Update(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		o := &Objects{}
		for _, namespace := range []string{"blue", "green"} {
			g := groupOfNodes(namespace, "n1")
			g.Spec.Targets[0].State = v1alpha1.TargetDraining
			g.Status = v1alpha1.TargetGroupStatus{
				Targets:    []v1alpha1.MemberStatus{{Name: "n1", UID: "uid-n1", State: stateDrained}},
				Conditions: []metav1.Condition{{Type: v1alpha1.ConditionHealthy, Status: metav1.ConditionTrue, ObservedGeneration: 1}},
			}
			o.TargetGroups = append(o.TargetGroups, g)
		}
		if o.Machines, err = h.lookAtMachines(t.Context(), member.Nodes, "blue"); err != nil {
			t.Fatal(err)
		}
		return o
	}
	d.Judge(out("blue/api=disabled,green/api=disabling"))
	if d.State != DrainDraining || !strings.Contains(d.Message, "the manager has yet to say that it is out") {
		t.Errorf("%s: %s", d.State, d.Message)
	}
	d.Judge(out("blue/api=disabled,green/api=disabled"))
	if d.State != DrainDrained {
		t.Errorf("%s: %s", d.State, d.Message)
	}
	if still, err := h.DrainTargets(t.Context(), one, true); still != "" || err != nil {
		t.Fatal(still, err)
	}
	if _, is := nodeOf(t, h, "n1").Annotations[clusterv1.DisabledAnnotation]; is {
		t.Error("undone, it is annotated still")
	}
	if _, err := plan(t, h, Targets{Namespace: "blue", Group: group.Name, Target: "n9"}); err == nil || !strings.Contains(err.Error(), "kubectl annotate node n9 ") {
		t.Errorf("of one that it hasn't: %v", err)
	}
}

// What LoadBalancers said of Nodes goes, where no Machine is served too; what others wrote stays.
func TestLeaveTakesItOffNodes(t *testing.T) {
	h := drainHub(t, nil, nodeNamed("n1", "blue/api=active,green/api=active"), nodeNamed("n2", "somebody's own"))
	l, err := h.Leave(t.Context(), LeaveOptions{}, func(LeaveLine) {})
	if err != nil || l.State != LeaveDone || len(l.Machines) != 1 || l.Machines[0].String() != "Node n1" || !strings.Contains(l.Message, "0 Machines and 1 Node ") {
		t.Fatalf("%+v, %v", l, err)
	}
	for name, want := range map[string]map[string]string{"n1": {"example.com/x": "y"}, "n2": nodeNamed("n2", "somebody's own").Annotations} {
		if got := nodeOf(t, h, name).Annotations; !maps.Equal(got, want) {
			t.Errorf("%s has %v", name, got)
		}
	}
	if l, err := h.Leave(t.Context(), LeaveOptions{}, func(LeaveLine) {}); err != nil || l.State != LeaveDone || !strings.Contains(l.Message, "nothing to take off") {
		t.Errorf("%+v, %v", l, err)
	}
	// An agent writes to no Node.
	h = drainHub(t, served, client.Object(nodeNamed("n1", "blue/api=active")))
	if l, err := h.Leave(t.Context(), LeaveOptions{Agent: true}, func(LeaveLine) {}); err != nil || len(l.Machines) != 0 {
		t.Errorf("%+v, %v", l, err)
	}
}
