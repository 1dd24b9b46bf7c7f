package member

import (
	"testing"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	rules "fairlead.dev/fairlead/internal/member"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/event"
)

// Nodes write their status all the time: only what a LoadBalancer would act upon wakes it.
func TestWhatOfANodeIsOfInterest(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*corev1.Node)
		want   bool
	}{
		"a heartbeat":          {change: func(n *corev1.Node) { n.ResourceVersion, n.Status.Conditions[0].LastHeartbeatTime = "2", metav1.Now() }},
		"an image":             {change: func(n *corev1.Node) { n.Status.Images = []corev1.ContainerImage{{}} }},
		"a cordon":             {change: func(n *corev1.Node) { n.Spec.Unschedulable = true }},
		"another's annotation": {change: func(n *corev1.Node) { n.Annotations["example.com/x"] = "y" }},
		"another's taint":      {change: func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: "example.com/x"}} }},
		"a condition beside":   {change: func(n *corev1.Node) { n.Status.Conditions[1].Status = corev1.ConditionTrue }},
		"is it ready":          {change: func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionUnknown }, want: true},
		"an address": {change: func(n *corev1.Node) {
			n.Status.Addresses = []corev1.NodeAddress{{Type: "InternalIP", Address: "10.0.0.1"}}
		}, want: true},
		"a label":               {change: func(n *corev1.Node) { n.Labels = map[string]string{"role": "edge"} }, want: true},
		"an annotation of ours": {change: func(n *corev1.Node) { n.Annotations[clusterv1.DisabledAnnotation] = "" }, want: true},
		"a state taken off":     {change: func(n *corev1.Node) { delete(n.Annotations, rules.StatusAnnotation) }, want: true},
		"the autoscaler":        {change: func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: rules.ScaleDownTaint}} }, want: true},
		"another of its name":   {change: func(n *corev1.Node) { n.UID = "2" }, want: true},
		"its deletion":          {change: func(n *corev1.Node) { n.DeletionTimestamp = &metav1.Time{} }, want: true},
	} {
		n := &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "1", ResourceVersion: "1", Annotations: map[string]string{rules.StatusAnnotation: "ns/api=active"}},
			Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
				{Type: corev1.NodeReady, Status: corev1.ConditionTrue}, {Type: corev1.NodeDiskPressure, Status: corev1.ConditionFalse},
			}},
		}
		next := n.DeepCopy()
		c.change(next)
		if OfInterest.Update(event.UpdateEvent{ObjectOld: n, ObjectNew: next}) != c.want {
			t.Errorf("%s: %t", name, !c.want)
		}
	}
}

// A Node wakes those that select it, in whatever namespace, and those that it speaks of, be they there or not.
func TestWhomANodeWakes(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := clusterv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	of := func(namespace, kind, role string) *clusterv1.LoadBalancer {
		return &clusterv1.LoadBalancer{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "api"}, Spec: clusterv1.LoadBalancerSpec{
			TargetKind: &clusterv1.KindReference{Kind: kind}, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"role": role}},
		}}
	}
	all := of("all", "Node", "edge")
	all.Spec.Selector = &metav1.LabelSelector{}
	r := &Reconciler{Options: Options{Client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(of("blue", "Node", "edge"), of("green", "Node", "db"), of("groups", "TargetGroup", "edge"), of("machines", "Machine", "edge"), all).Build()}}
	got := map[string]bool{}
	for _, x := range r.OfNode(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: "n", Labels: map[string]string{"role": "edge"}, Annotations: map[string]string{rules.StatusAnnotation: "gone/api=active,odd=active"},
	}}) {
		got[x.String()] = true
	}
	if len(got) != 2 || !got["blue/api"] || !got["gone/api"] {
		t.Errorf("%v", got)
	}
}
