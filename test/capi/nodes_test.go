package capi_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/config/rbac"
	"fairlead.dev/fairlead/internal/member"
	"fairlead.dev/fairlead/internal/testkit/kubetest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// nodes are of the hub, behind load balancers: one that a proxy serves, and one of foo-provider's. Clients of each lose nothing while
// one Node is disabled for a while, and another one deleted.
func nodes(h *hub) {
	const namespace, role = "nodes", "example.com/role"
	if err := rbac.InstallNodes(h.t.Context(), h.RESTConfig()); err != nil {
		h.t.Fatal(err)
	}
	h.operators(namespace, "127.79.70.0/24", dataPlanes[0])
	h.create(&v1alpha1.LoadBalancerClass{ObjectMeta: metav1.ObjectMeta{Name: "nodes-foo"}, Spec: foo.serve(h, "nodes-foo")})
	at := map[string]netip.Addr{"node-a": netip.MustParseAddr("127.77.70.10"), "node-b": netip.MustParseAddr("127.77.70.11"), "node-c": netip.MustParseAddr("127.77.70.12")}
	names := []string{}
	for name, address := range at {
		names = append(names, address.String())
		h.create(&corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{role: "edge"}},
			Status:     corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address.String()}}},
		})
	}
	var balancers []*balancer
	for _, class := range []string{namespace, "nodes-foo"} {
		l := overHeldMembers(namespace)
		l.Name, l.Spec.ClassName, l.Spec.ClusterName, l.Spec.Role, l.Spec.MachineHooks = class, class, "", clusterv1.RoleWorkload, nil
		l.Spec.TargetKind = &clusterv1.KindReference{Kind: "Node"}
		l.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{role: "edge"}}
		b := &balancer{LoadBalancer: l}
		h.create(l)
		b.at = h.served(l)
		balancers, names = append(balancers, b), append(names, b.at.Addr().String())
	}
	cert, key, err := serving(nil, names...)
	if err != nil {
		h.t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		h.t.Fatal(err)
	}
	roots, fronts := x509.NewCertPool(), map[string]*front{}
	roots.AppendCertsFromPEM(cert)
	behind := startAnswering(h.t)
	for name, address := range at {
		if fronts[name], err = startFront(name, netip.AddrPortFrom(address, apiServerPort), behind, pair); err != nil {
			h.t.Fatal(err)
		}
		h.t.Cleanup(fronts[name].crash)
	}
	has := func(active ...string) {
		h.t.Helper()
		for _, b := range balancers {
			h.sendsTo(b.LoadBalancer, active)
		}
	}
	more := func() {
		h.t.Helper()
		for _, b := range balancers {
			b.visitor.more(quiet)
		}
	}
	has("node-a", "node-b", "node-c")
	for _, b := range balancers {
		b.visitor = startVisitor(h.t, "https://"+b.at.String(), &tls.Config{RootCAs: roots})
	}
	more()

	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-a"}}
	disable := func(value string) {
		h.t.Helper()
		patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%s}}}`, clusterv1.DisabledAnnotation, value)
		if err := h.api.Patch(h.t.Context(), node, client.RawPatch(types.MergePatchType, patch)); err != nil {
			h.t.Fatal(err)
		}
	}
	disable(`"maintenance"`)
	has("node-b", "node-c")
	for _, b := range balancers { // what is there may end now
		h.says(node, b.LoadBalancer, member.Disabled)
	}
	fronts["node-a"].crash()
	more()
	if fronts["node-a"], err = startFront("node-a", netip.AddrPortFrom(at["node-a"], apiServerPort), behind, pair); err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(fronts["node-a"].crash)
	disable("null")
	has("node-a", "node-b", "node-c")
	more()

	if err := h.api.Delete(h.t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-b"}}); err != nil {
		h.t.Fatal(err)
	}
	has("node-a", "node-c")
	kubetest.Eventually(h.t, soon, "the Node that is gone to be no target", func(ctx context.Context) error { return h.noTarget(ctx, namespace, "node-b") })
	fronts["node-b"].crash()
	more()
	for _, b := range balancers {
		b.visitor.leave()
		h.t.Logf("Nodes behind %s: %s", b.Name, b.visitor)
		if n := b.visitor.failed(); n > 0 {
			h.t.Errorf("%d requests to %s were lost", n, b.Name)
		}
		if err := h.api.Delete(h.t.Context(), b.LoadBalancer); err != nil {
			h.t.Fatal(err)
		}
	}
	wait(h.t, h.api, node, soon, "to have nothing of load balancers any more", func(n *corev1.Node) error {
		if a := n.Annotations[member.StatusAnnotation]; a != "" {
			return fmt.Errorf("it says %s", a)
		}
		return nil
	})
}

// sendsTo waits until a load balancer's active targets are those.
func (h *hub) sendsTo(l *clusterv1.LoadBalancer, active []string) {
	h.t.Helper()
	wait(h.t, h.api, l, soon, "to send to "+strings.Join(active, ", "), func(l *clusterv1.LoadBalancer) error {
		has := slices.Sorted(slices.Values(l.Status.ActiveTargets))
		if !slices.Equal(has, active) {
			return fmt.Errorf("its active targets are %v: %+v", has, l.Status.Targets)
		}
		return nil
	})
}

// says waits until a Node's annotation has its state for a load balancer.
func (h *hub) says(n *corev1.Node, l *clusterv1.LoadBalancer, s member.State) {
	h.t.Helper()
	wait(h.t, h.api, n, soon, "to be "+string(s)+" for "+l.Name, func(n *corev1.Node) error {
		if a := n.Annotations[member.StatusAnnotation]; !strings.Contains(a, l.Namespace+"/"+l.Name+"="+string(s)) {
			return fmt.Errorf("it says %q", a)
		}
		return nil
	})
}

// noTarget is an error while a TargetGroup of a namespace has a target of that name.
func (h *hub) noTarget(ctx context.Context, namespace, name string) error {
	list := &v1alpha1.TargetGroupList{}
	if err := h.api.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return err
	}
	for _, g := range list.Items {
		for _, t := range g.Spec.Targets {
			if t.Name == name {
				return fmt.Errorf("TargetGroup %s has it, %s", g.Name, t.State)
			}
		}
	}
	return nil
}
