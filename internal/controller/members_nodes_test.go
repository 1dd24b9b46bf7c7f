package controller_test

import (
	"errors"
	"fmt"
	"maps"
	"strings"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/config/rbac"
	"fairlead.dev/fairlead/internal/member"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// nodesOf is a scene without a Cluster: its LoadBalancer has those of the hub's Nodes as targets that have the label role of its name.
func (h *hub) nodesOf(addresses string) *fleetOf {
	h.t.Helper()
	pool := h.newPool(addresses)
	pool.Spec.Use = &v1alpha1.PoolUse{NamespaceSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: "kubernetes.io/metadata.name", Operator: metav1.LabelSelectorOpIn, Values: []string{h.name, h.name + "-too"}},
	}}}
	h.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: h.name}}, pool, h.newClass())
	f := &fleetOf{hub: h, proxy: h.proxy("edge"), lb: h.overNodes(h.name)}
	f.proxy.beat()
	h.create(f.lb)
	return f
}

func (h *hub) overNodes(namespace string) *clusterv1.LoadBalancer {
	return &clusterv1.LoadBalancer{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "api"},
		Spec: clusterv1.LoadBalancerSpec{
			ClassName: h.name, TargetKind: &clusterv1.KindReference{Kind: "Node"}, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"role": h.name}},
			Ports: []clusterv1.Port{{Port: 443, TargetPort: 30443, Protocol: clusterv1.ProtocolTCP}},
		},
	}
}

// node makes a Node that is ready, with an address.
func (f *fleetOf) node(name string) *corev1.Node {
	f.t.Helper()
	f.next++
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"role": f.name}}}
	f.create(n)
	f.eventually("Node "+name+" to be ready", func(ctx ctx) error {
		if err := f.api.Get(ctx, client.ObjectKeyFromObject(n), n); err != nil {
			return err
		}
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: name}, {Type: corev1.NodeInternalIP, Address: fmt.Sprintf("10.0.1.%d", f.next)}}
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		return f.api.Status().Update(ctx, n)
	})
	return n
}

// changed changes a Node.
func (f *fleetOf) changed(n *corev1.Node, change func(*corev1.Node)) {
	f.t.Helper()
	f.change(n, func(o client.Object) { change(o.(*corev1.Node)) })
}

// noted waits until a Node's annotation says so of LoadBalancers; "": nothing.
func (f *fleetOf) noted(n *corev1.Node, want string) {
	f.t.Helper()
	f.until(fmt.Sprintf("Node %s to say %q", n.Name, want), func(ctx ctx) error {
		if err := f.api.Get(ctx, client.ObjectKeyFromObject(n), n); err != nil {
			return err
		}
		if got := n.Annotations[member.StatusAnnotation]; got != want {
			return fmt.Errorf("it says %q", got)
		}
		return nil
	})
}

// drainsOpen waits until the status says of a target that the proxy has connections to it.
func (f *fleetOf) drainsOpen(name, state string) {
	f.t.Helper()
	f.until(name+" to drain", func(ctx ctx) error {
		if err := f.api.Get(ctx, client.ObjectKeyFromObject(f.lb), f.lb); err != nil {
			return err
		}
		for _, t := range f.lb.Status.Targets {
			if t.Name == name && t.State == state && t.Reason == member.ReasonDraining && strings.Contains(t.Message, "open connections") {
				return nil
			}
		}
		return fmt.Errorf("%+v", f.lb.Status.Targets)
	})
}

// nodesBehind: Nodes come and go behind two LoadBalancers of one name. Nobody holds them; each is drained, whyever it leaves.
func nodesBehind(f *fleetOf) {
	n1, n2, n3 := f.node("n1"), f.node("n2"), f.node("n3")
	f.followed("False/Forbidden")
	if err := rbac.InstallNodes(f.t.Context(), f.control.RESTConfig()); err != nil {
		f.t.Fatal(err)
	}
	f.followed("True/AsExpected")
	f.states("n1=active", "n2=active", "n3=active")
	f.says("Programmed=True", "Degraded=False")
	if f.lb.Status.TargetKind != "Node" || f.lb.Status.TargetSelector != "role="+f.name {
		f.t.Errorf("targets are %s by %s", f.lb.Status.TargetKind, f.lb.Status.TargetSelector)
	}
	f.noted(n1, f.name+"/api=active")
	f.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: f.name + "-too"}})
	f.proxy.also = []string{f.name + "-too"}
	other := f.overNodes(f.name + "-too")
	f.create(other)
	f.noted(n1, f.name+"-too/api=active,"+f.name+"/api=active")

	f.proxy.busy = map[string]int64{"n1": 1}
	f.changed(n1, func(n *corev1.Node) { n.Annotations[clusterv1.DisabledAnnotation] = "" })
	f.drainsOpen("n1", string(member.Disabling))
	f.proxy.busy = nil
	f.states("n1=disabled", "n2=active", "n3=active")
	f.changed(n1, func(n *corev1.Node) { delete(n.Annotations, clusterv1.DisabledAnnotation) })
	f.states("n1=active", "n2=active", "n3=active")

	f.proxy.busy = map[string]int64{"n1": 1}
	f.changed(n1, func(n *corev1.Node) { delete(n.Labels, "role") })
	f.drainsOpen("n1", string(member.Removing))
	f.proxy.busy = nil
	f.states("n2=active", "n3=active")
	f.places("n2=Serving", "n3=Serving")
	f.noted(n1, "")
	f.changed(n1, func(n *corev1.Node) {
		n.Labels = map[string]string{"role": f.name, corev1.LabelNodeExcludeBalancers: ""}
	})
	f.changed(n2, func(n *corev1.Node) { n.Labels[corev1.LabelNodeExcludeBalancers] = "" })
	f.states("n3=active")
	for _, n := range []*corev1.Node{n1, n2} {
		f.changed(n, func(n *corev1.Node) { delete(n.Labels, corev1.LabelNodeExcludeBalancers); n.Spec.Unschedulable = true })
	}
	f.states("n1=active", "n2=active", "n3=active")
	f.places("n1=Serving", "n2=Serving", "n3=Serving")
	endOfNodes(f, other, n1, n2, n3)
}

// doomedNodes: one that the autoscaler is about to take away is drained while another serves; where all are, all serve.
func doomedNodes(f *fleetOf) {
	n1, n2, n3 := f.node("d1"), f.node("d2"), f.node("d3")
	f.states("d1=active", "d2=active", "d3=active")
	doom := func(on bool, all ...*corev1.Node) {
		for _, n := range all {
			f.changed(n, func(n *corev1.Node) {
				if n.Spec.Taints = nil; on {
					n.Spec.Taints = []corev1.Taint{{Key: member.ScaleDownTaint, Value: "1", Effect: corev1.TaintEffectNoSchedule}}
				}
			})
		}
	}
	doom(true, n1)
	f.states("d1=removed", "d2=active", "d3=active")
	doom(true, n2, n3)
	f.until("all to be left in", func(ctx ctx) error {
		if err := f.has(ctx, "d1=active", "d2=active", "d3=active"); err != nil {
			return err
		}
		for _, t := range f.lb.Status.Targets {
			if t.Reason != member.ReasonLastActive {
				return fmt.Errorf("%+v", t)
			}
		}
		return nil
	})
	doom(false, n1, n2, n3)
	f.until("all to be wanted", func(ctx ctx) error {
		if err := f.has(ctx, "d1=active", "d2=active", "d3=active"); err != nil || f.lb.Status.Targets[2].Reason != "" {
			return errors.Join(err, fmt.Errorf("%+v", f.lb.Status.Targets))
		}
		return nil
	})
}

// lostNodes: nothing holds a Node. One that is gone drains in its TargetGroup, and one of its name that comes is another.
func lostNodes(f *fleetOf) {
	f.node("l1")
	f.node("l2")
	n3 := f.node("l3")
	f.states("l1=active", "l2=active", "l3=active")
	f.proxy.busy = map[string]int64{"l3": 1}
	f.delete(n3)
	f.gone(n3)
	f.places("l1=Serving", "l2=Serving", "l3=Draining")
	f.states("l1=active", "l2=active")
	again := f.node("l3")
	f.states("l1=active", "l2=active", "l3=active")
	if have, err := f.placed(f.t.Context()); err != nil || have["l3"].UID != string(again.UID) || again.UID == n3.UID {
		f.t.Errorf("%+v, %v", have["l3"], err)
	}
	f.delete(again)
	f.places("l1=Serving", "l2=Serving", "l3=Draining")
	f.proxy.busy = nil
	f.places("l1=Serving", "l2=Serving")
}

// wrongNodes: a selector that says nothing, or a Cluster, adds nobody and takes nobody out.
func wrongNodes(f *fleetOf) {
	f.node("w1")
	f.node("w2")
	f.states("w1=active", "w2=active")
	selects := func(s *metav1.LabelSelector, cluster string) {
		f.change(f.lb, func(o client.Object) {
			spec := &o.(*clusterv1.LoadBalancer).Spec
			spec.Selector, spec.ClusterName = s, cluster
		})
	}
	right := f.lb.Spec.Selector
	selects(&metav1.LabelSelector{}, "")
	f.followed("False/Invalid")
	third := f.node("w4")
	f.places("w1=Serving", "w2=Serving")
	selects(right, "prod")
	f.followed("False/Invalid")
	f.says("Degraded=True/Invalid")
	f.places("w1=Serving", "w2=Serving")
	f.noted(third, "")
	selects(right, "")
	f.followed("True/AsExpected")
	f.states("w1=active", "w2=active", "w4=active")
	f.delete(third)
	f.places("w1=Serving", "w2=Serving")
}

// endOfNodes: a LoadBalancer that is deleted is spoken of by no Node any more.
func endOfNodes(f *fleetOf, other *clusterv1.LoadBalancer, nodes ...*corev1.Node) {
	f.delete(other)
	f.gone(other)
	for _, n := range nodes {
		f.noted(n, f.name+"/api=active")
	}
	f.delete(f.lb)
	f.until("the LoadBalancer to be gone, and what was made for it", func(ctx ctx) error {
		for _, o := range []client.Object{f.lb, &v1alpha1.TargetGroup{ObjectMeta: metav1.ObjectMeta{Namespace: f.name, Name: "api-members-0"}}} {
			if err := f.api.Get(ctx, client.ObjectKeyFromObject(o), o); client.IgnoreNotFound(err) != nil || err == nil {
				return errors.Join(err, fmt.Errorf("%T is there", o))
			}
		}
		return nil
	})
	for _, n := range nodes {
		f.noted(n, "")
		f.delete(n)
	}
}

// turnedToNodes: a LoadBalancer over Machines comes to send to Nodes, and back: each serves until one of the others does, and is drained
// then; no Machine stays held.
func turnedToNodes(f *fleetOf) {
	m := f.machine("a1", "prod")
	f.states("a1=active")
	f.proxy.busy = map[string]int64{"a1": 1}
	before := f.lb.Spec.DeepCopy()
	f.change(f.lb, func(o client.Object) {
		spec := &o.(*clusterv1.LoadBalancer).Spec
		spec.ClusterName, spec.TargetKind, spec.Selector = "", &clusterv1.KindReference{Kind: "Node"}, &metav1.LabelSelector{MatchLabels: map[string]string{"role": f.name}}
	})
	f.followed("False/StandsStill")
	f.places("a1=Serving")
	n := f.node("turned-1")
	f.states("turned-1=active")
	f.places("a1=Draining", "turned-1=Serving")
	if held, err := f.hooked(f.t.Context(), m); err != nil || !held {
		f.t.Errorf("it isn't held while a proxy has connections to it: %v, %v", m.GetAnnotations(), err)
	}
	f.proxy.busy = nil
	f.unhooks(m)
	f.places("turned-1=Serving")
	f.until("the Machine to say nothing", func(ctx ctx) error {
		if err := f.api.Get(ctx, client.ObjectKeyFromObject(m), m); err != nil || m.GetAnnotations()[member.StatusAnnotation] != "" {
			return errors.Join(err, fmt.Errorf("%v", m.GetAnnotations()))
		}
		return nil
	})
	f.change(f.lb, func(o client.Object) { o.(*clusterv1.LoadBalancer).Spec = *before })
	f.states("a1=active")
	f.places("a1=Serving")
	f.noted(n, "")
	f.delete(n)
}

// nodeRightsTaken: where the manager may not read Nodes any more, it says so and leaves all as it is, until it may again.
func nodeRightsTaken(f *fleetOf) {
	f.node("r1")
	n := f.node("r2")
	f.states("r1=active", "r2=active")
	b := &rbacv1.ClusterRoleBinding{}
	if err := f.api.Get(f.t.Context(), client.ObjectKey{Name: "fairlead-nodes"}, b); err != nil {
		f.t.Fatal(err)
	}
	f.delete(b.DeepCopy())
	f.followed("False/Forbidden")
	f.delete(n)
	f.change(f.lb, func(o client.Object) {
		o.(*clusterv1.LoadBalancer).Spec.IdleTimeout = &metav1.Duration{Duration: 1 << 36}
	})
	f.followed("False/Forbidden") // of the new generation
	f.places("r1=Serving", "r2=Serving")
	f.create(&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: b.Name, Labels: maps.Clone(b.Labels)}, RoleRef: b.RoleRef, Subjects: b.Subjects})
	f.followed("True/AsExpected")
	f.states("r1=active")
	f.places("r1=Serving")
}
