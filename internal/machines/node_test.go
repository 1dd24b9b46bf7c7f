package machines

import (
	"reflect"
	"slices"
	"testing"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/member"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// node is a Node as a kubelet keeps it.
func node(change ...func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: "n", UID: "u", ResourceVersion: "1", Labels: map[string]string{corev1.LabelTopologyZone: "z", "role": "edge"},
			Annotations:   map[string]string{member.StatusAnnotation: "ns/api=active", "example.com/cni": "x"},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubelet"}},
		},
		Spec: corev1.NodeSpec{PodCIDR: "10.1.0.0/24", Taints: []corev1.Taint{{Key: "example.com/other", Effect: corev1.TaintEffectNoSchedule}}},
		Status: corev1.NodeStatus{
			Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.1"}, {Type: corev1.NodeHostName, Address: "n"}},
			Conditions: []corev1.NodeCondition{
				{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse}, {Type: corev1.NodeReady, Status: corev1.ConditionTrue},
			},
			Images: []corev1.ContainerImage{{Names: []string{"a"}, SizeBytes: 1}},
		},
	}
	for _, f := range change {
		f(n)
	}
	return n
}

func readiness(s corev1.ConditionStatus) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Status.Conditions[1].Status = s }
}

func TestReadNode(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*corev1.Node)
		holds  func(m Machine) bool
	}{
		"plain": {func(*corev1.Node) {}, func(m Machine) bool {
			return m.Ready == "True" && m.Zone == "z" && len(m.Addresses) == 2 && m.Cause == ""
		}},
		"not ready":    {readiness(corev1.ConditionFalse), func(m Machine) bool { return m.Ready == "False" }},
		"not heard of": {readiness(corev1.ConditionUnknown), func(m Machine) bool { return m.Ready == "False" }},
		"says nothing": {func(n *corev1.Node) { n.Status.Conditions = nil }, func(m Machine) bool { return m.Ready == "False" }},
		"scaled down":  {func(n *corev1.Node) { n.Spec.Taints[0].Key = member.ScaleDownTaint }, func(m Machine) bool { return m.Cause == member.ScaleDown }},
		"cordoned":     {func(n *corev1.Node) { n.Spec.Unschedulable = true }, func(m Machine) bool { return reflect.DeepEqual(m, ReadNode(node())) }},
		"disabled":     {func(n *corev1.Node) { n.Annotations[clusterv1.DisabledAnnotation] = "" }, func(m Machine) bool { return m.Disabled() }},
		"is deleted":   {func(n *corev1.Node) { n.DeletionTimestamp = &metav1.Time{} }, func(m Machine) bool { return m.Deleting }},
		"paused, moved": {func(n *corev1.Node) {
			n.Annotations[clusterv1.PausedAnnotation] = ""
			n.Annotations[clusterv1.MoveAnnotation] = ""
		}, func(m Machine) bool { return m.Still() == "" }},
	} {
		n := node(c.change)
		read := ReadNode(n)
		if !c.holds(read) {
			t.Errorf("%s: %+v", name, read)
		}
		if n.Annotations["example.com/cni"] != "x" {
			t.Errorf("%s: what it was read from is changed", name)
		}
		if trimmed := Trim(n); !reflect.DeepEqual(ReadNode(trimmed), read) || trimmed.Status.Images != nil || trimmed.ResourceVersion != "1" {
			t.Errorf("%s: trimmed it reads as %+v", name, ReadNode(trimmed))
		}
	}
}

// ofNodes are facts of a LoadBalancer that has Nodes as its targets: all of them active, as proxies and their annotations say.
func ofNodes(names ...string) Facts {
	var all []Machine
	for _, name := range names {
		all = append(all, Machine{
			Name: name, UID: "uid-" + name, Labels: map[string]string{"role": "edge"}, Annotations: map[string]string{member.StatusAnnotation: "ns/api=active,other/api=removing"},
			Addresses: []member.Address{{Type: "InternalIP", Value: "10.0.0." + name}}, Ready: "True",
		})
	}
	f := facts(all...)
	f.Kind, f.LoadBalancer.Spec.ClusterName = member.Nodes, ""
	f.Shared = Held(f.Kind, f.LoadBalancer)
	f.Selects = func(m *Machine) bool { return m.Labels["role"] == "edge" }
	f.Groups[0].Object.Labels = map[string]string{v1alpha1.LabelGeneratedFrom: "Node"}
	return f
}

func TestPlansOfNodes(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Facts)
		want   []string
		// status is the annotation of the first Node.
		status string
		rests  bool
	}{
		"at rest":      {want: []string{"0:1=Serving", "0:2=Serving"}, rests: true},
		"another kind": {change: func(f *Facts) { f.Groups[0].Object.Labels[v1alpha1.LabelGeneratedFrom] = "Machine" }, want: []string{"0:1=Serving", "0:2=Serving"}},
		"disabled": {
			change: func(f *Facts) { f.Machines[0].Annotations[clusterv1.DisabledAnnotation] = "" }, want: []string{"0:1=Draining", "0:2=Serving"}, status: "ns/api=disabling,other/api=removing",
		},
		"unselected":      {change: func(f *Facts) { f.Machines[0].Labels = nil }, want: []string{"0:1=Draining", "0:2=Serving"}, status: "ns/api=removing,other/api=removing"},
		"is gone":         {change: func(f *Facts) { f.Machines = f.Machines[1:] }, want: []string{"0:1=Draining", "0:2=Serving"}},
		"all gone":        {change: func(f *Facts) { f.Machines = nil }, want: []string{"0:1=Serving", "0:2=Serving"}, rests: true},
		"scaled down":     {change: func(f *Facts) { f.Machines[0].Cause = member.ScaleDown }, want: []string{"0:1=Draining", "0:2=Serving"}, status: "ns/api=removing,other/api=removing"},
		"all scaled down": {change: func(f *Facts) { f.Machines[0].Cause, f.Machines[1].Cause = member.ScaleDown, member.ScaleDown }, want: []string{"0:1=Serving", "0:2=Serving"}, rests: true},
		"made again": {
			change: func(f *Facts) { f.Machines[0].UID, f.Machines[0].Annotations = "new", nil }, want: []string{"0:1=Serving", "0:2=Serving"}, status: "ns/api=adding",
		},
		"not ready, and checked": {change: func(f *Facts) { f.Machines[0].Ready = "False" }, want: []string{"0:1=Serving", "0:2=Serving"}, rests: true},
		"another's state alone": {
			change: func(f *Facts) {
				f.Machines[0].Annotations, f.Machines[0].Labels = map[string]string{member.StatusAnnotation: "other/api=active"}, nil
				f.Groups[0].Object.Spec.Targets = f.Groups[0].Object.Spec.Targets[1:]
			}, want: []string{"0:2=Serving"}, rests: true,
		},
	} {
		f := ofNodes("1", "2")
		if c.change != nil {
			c.change(&f)
		}
		if Missing(f) != "" {
			f.Shared.Frozen = Missing(f)
		}
		p := Make(f)
		if got := placed(p); !slices.Equal(got, c.want) || p.Changes(f) == c.rests {
			t.Errorf("%s: %v, changes: %t", name, got, p.Changes(f))
		}
		if c.status != "" {
			if got := p.Members[0].Annotations(f.LoadBalancer)[member.StatusAnnotation]; got != c.status {
				t.Errorf("%s: it is noted as %q", name, got)
			}
		}
		for _, m := range p.Members {
			if m.Hook || m.Kind != member.Nodes {
				t.Errorf("%s: %+v", name, m)
			}
		}
	}
	f := ofNodes("1", "2")
	f.Unchecked, f.Machines[0].Ready = true, "False"
	if got := Make(f).Groups[0][0].Ready; got == nil || *got {
		t.Error("one that isn't ready doesn't say so where nobody checks it")
	}
	// One that is gone goes once nobody sends to it, or after a while.
	f = ofNodes("1", "2")
	f.Machines, f.Groups[0].Object.Spec.Targets[0].State = f.Machines[1:], v1alpha1.TargetDraining
	f.Groups[0].Proxies[0].Through.TargetGroups = 0
	if got := placed(Make(f)); len(got) != 2 {
		t.Errorf("%v, though a proxy has yet to stop", got)
	}
	f.Waited = func(string) time.Duration { return DefaultMaxWait }
	if got := placed(Make(f)); len(got) != 1 {
		t.Errorf("%v", got)
	}
}
