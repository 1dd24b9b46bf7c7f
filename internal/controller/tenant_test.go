package controller_test

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/app"
	"fairlead.dev/fairlead/internal/testkit"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// writes returns a function that reads the write requests since now.
func (h *hub) writes() func() []testkit.Write {
	h.t.Helper()
	_, offset, err := h.control.Writes(0)
	if err != nil {
		h.t.Fatal(err)
	}
	return func() []testkit.Write {
		h.t.Helper()
		all, _, err := h.control.Writes(offset)
		if err != nil {
			h.t.Fatal(err)
		}
		return all
	}
}

// tenantLife: a Tenant's namespace, its agent's rights, its agent's word, and its end.
func tenantLife(h *hub) {
	h.manager(app.LeaderElection{})
	h.stage("192.0.2.120/30")
	tn := &v1alpha1.Tenant{ObjectMeta: metav1.ObjectMeta{Name: h.name}}
	wait(h, tn, "no agent", func(t *v1alpha1.Tenant) error {
		return condition(t.Status.Conditions, "AgentConnected=False/AgentNeverSeen")
	})
	h.rights()
	h.mended()

	now := metav1.NewMicroTime(time.Now())
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: h.name, Name: v1alpha1.AgentLease, Annotations: map[string]string{
		v1alpha1.AnnotationClusterUID: "cluster-a", v1alpha1.AnnotationVersion: "v1",
	}}, Spec: coordinationv1.LeaseSpec{RenewTime: &now}}
	h.create(lease)
	wait(h, tn, "connected", func(t *v1alpha1.Tenant) error {
		if t.Status.ClusterUID != "cluster-a" || t.Status.AgentVersion != "v1" {
			return fmt.Errorf("status %+v", t.Status)
		}
		return condition(t.Status.Conditions, "AgentConnected=True")
	})
	h.bound(tn, lease)

	p := h.proxy("1")
	p.catchUp()
	l := h.loadBalancer("web", 80)
	h.waitFor(l, "AddressGranted=True")
	address := h.address(l)
	h.change(l, func(o client.Object) { o.GetAnnotations()[v1alpha1.AnnotationHeldUntil] = "2100-01-01T00:00:00Z" })
	h.change(lease, func(o client.Object) {
		o.(*coordinationv1.Lease).Spec.RenewTime = &metav1.MicroTime{Time: now.Add(time.Second)}
	})
	wait(h, tn, "missing Services", func(t *v1alpha1.Tenant) error {
		if m := meta.FindStatusCondition(t.Status.Conditions, v1alpha1.ConditionReady).Message; !strings.Contains(m, "Services are missing in the cluster, for nobody was seen to delete them: web.") {
			return errors.New(m)
		}
		return nil
	})
	h.delete(tn)
	wait(h, tn, "held", func(t *v1alpha1.Tenant) error {
		return heldBy(t.Status.Conditions, "LoadBalancers of this Tenant are served on: web.")
	})
	h.change(tn, func(client.Object) { tn.Spec.Suspend = true })
	h.gone(l)
	wait(h, address, "Releasing", isReleasing)
	wait(h, tn, "deleting", func(t *v1alpha1.Tenant) error { return condition(t.Status.Conditions, "Ready=False/Deleting") })
	p.catchUp()
	h.gone(address)
	h.gone(tn)
	h.gone(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: h.name}})
	h.gone(&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "fairlead-tenant-" + h.name}})
}

// bound: a Tenant is its first cluster's, whoever else asks, until a person binds it anew.
func (h *hub) bound(tn *v1alpha1.Tenant, lease *coordinationv1.Lease) {
	h.t.Helper()
	both := func(t *v1alpha1.Tenant) error {
		c := meta.FindStatusCondition(t.Status.Conditions, v1alpha1.ConditionAgentConnected)
		for _, part := range []string{"cluster-a", "cluster-b", "kubectl annotate tenant " + h.name + " --overwrite fairlead.dev/cluster-uid=cluster-b"} {
			if !strings.Contains(c.Message, part) {
				return fmt.Errorf("no %q in %q", part, c.Message)
			}
		}
		if t.Status.ClusterUID != "cluster-a" {
			return fmt.Errorf("bound to %s", t.Status.ClusterUID)
		}
		return nil
	}
	h.change(lease, func(o client.Object) {
		o.GetAnnotations()[v1alpha1.AnnotationRefused] = "cluster-b " + time.Now().UTC().Format(time.RFC3339)
	})
	wait(h, tn, "another asks", func(t *v1alpha1.Tenant) error {
		return errors.Join(condition(t.Status.Conditions, "AgentConnected=True/OtherCluster"), both(t))
	})
	// An agent that doesn't ask first.
	h.change(lease, func(o client.Object) { o.GetAnnotations()[v1alpha1.AnnotationClusterUID] = "cluster-b" })
	wait(h, tn, "other cluster", func(t *v1alpha1.Tenant) error {
		return errors.Join(condition(t.Status.Conditions, "AgentConnected=False/OtherCluster"), both(t))
	})
	h.change(tn, func(o client.Object) {
		o.SetAnnotations(map[string]string{v1alpha1.AnnotationClusterUID: "cluster-b"})
	})
	wait(h, tn, "bound anew", func(t *v1alpha1.Tenant) error {
		if t.Status.ClusterUID != "cluster-b" {
			return fmt.Errorf("bound to %s", t.Status.ClusterUID)
		}
		return condition(t.Status.Conditions, "AgentConnected=True/AgentConnected")
	})
}

// mended: what somebody makes of an agent's rights is put back.
func (h *hub) mended() {
	h.t.Helper()
	other := []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "mallory"}}
	binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: h.name, Name: v1alpha1.AgentServiceAccount}}
	h.change(binding, func(client.Object) { binding.Subjects = other })
	cluster := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "fairlead-tenant-" + h.name}}
	h.change(cluster, func(client.Object) { cluster.Subjects = other })
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "fairlead-tenant-" + h.name}}
	h.change(role, func(client.Object) { role.Rules = nil })
	wait(h, binding, "mended", func(b *rbacv1.RoleBinding) error { return isAgent(b.Subjects) })
	wait(h, cluster, "mended", func(b *rbacv1.ClusterRoleBinding) error { return isAgent(b.Subjects) })
	wait(h, role, "mended", func(r *rbacv1.ClusterRole) error {
		if len(r.Rules) != 3 {
			return fmt.Errorf("rules %v", r.Rules)
		}
		return nil
	})
	counts := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: h.name, Name: "fairlead"}}
	h.change(counts, func(client.Object) { counts.Spec.Hard = nil })
	wait(h, counts, "mended", func(q *corev1.ResourceQuota) error {
		if len(q.Spec.Hard) == 0 {
			return errors.New("it bounds nothing")
		}
		return nil
	})
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: h.name, Name: v1alpha1.AgentServiceAccount}}
	h.delete(account)
	wait(h, account, "back", func(*corev1.ServiceAccount) error { return nil })
}

func isAgent(subjects []rbacv1.Subject) error {
	if len(subjects) != 1 || subjects[0].Name != v1alpha1.AgentServiceAccount {
		return fmt.Errorf("subjects %v", subjects)
	}
	return nil
}

// rights: an agent may do its work in its own namespace, and nothing else.
func (h *hub) rights() {
	h.t.Helper()
	who := "system:serviceaccount:" + h.name + ":" + v1alpha1.AgentServiceAccount
	for _, c := range []struct {
		verb, group, resource, namespace, name string
		allowed                                bool
	}{
		{"create", "cluster.x-k8s.io", "loadbalancers", h.name, "", true},
		{"patch", "cluster.x-k8s.io", "loadbalancers", h.name, "x", true},
		{"watch", "cluster.x-k8s.io", "loadbalancers", h.name, "", true},
		{"patch", "cluster.x-k8s.io", "loadbalancers/status", h.name, "x", false},
		{"patch", "cluster.x-k8s.io", "loadbalancers", "default", "x", false},
		{"create", "cluster.x-k8s.io", "loadbalancers", "default", "", false},
		{"create", "fairlead.dev", "targetgroups", "default", "", false},
		{"delete", "fairlead.dev", "targetgroups", "default", "x", false},
		{"create", "coordination.k8s.io", "leases", v1alpha1.SystemNamespace, "", false},
		{"update", "coordination.k8s.io", "leases", v1alpha1.SystemNamespace, v1alpha1.AgentLease, false},
		{"create", "fairlead.dev", "proxyreports", h.name, "", false},
		{"patch", "fairlead.dev", "targetgroups", h.name, "x", true},
		{"update", "coordination.k8s.io", "leases", h.name, v1alpha1.AgentLease, true},
		{"update", "coordination.k8s.io", "leases", h.name, "other", false},
		{"get", "", "namespaces", "", metav1.NamespaceSystem, true},
		{"get", "", "namespaces", "", h.name, false},
		{"get", "fairlead.dev", "tenants", "", h.name, true},
		{"get", "fairlead.dev", "tenants", "", "other", false},
		{"watch", "fairlead.dev", "loadbalancerclasses", "", "", true},
		{"get", "fairlead.dev", "addresses", "", "192.0.2.1", false},
		{"get", "", "secrets", h.name, "x", false},
	} {
		resource, sub := c.resource, ""
		if resource == "loadbalancers/status" {
			resource, sub = "loadbalancers", "status"
		}
		h.eventually(fmt.Sprintf("the agent's right to %s %s to be %v", c.verb, c.resource, c.allowed), func(ctx ctx) error {
			r := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: who, Groups: []string{"system:serviceaccounts"}, ResourceAttributes: &authorizationv1.ResourceAttributes{
				Verb: c.verb, Group: c.group, Resource: resource, Subresource: sub, Namespace: c.namespace, Name: c.name,
			}}}
			if err := h.api.Create(ctx, r); err != nil {
				return err
			}
			if r.Status.Allowed != c.allowed {
				return fmt.Errorf("it is %v", r.Status.Allowed)
			}
			return nil
		})
	}
}

// namespaceTaken: a namespace that is somebody else's is left alone, until it is handed over.
func namespaceTaken(h *hub) {
	h.manager(app.LeaderElection{})
	n := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: h.name}}
	h.create(n)
	tn := &v1alpha1.Tenant{ObjectMeta: metav1.ObjectMeta{Name: h.name}}
	h.create(tn)
	wait(h, tn, "taken", func(t *v1alpha1.Tenant) error { return condition(t.Status.Conditions, "Ready=False/NamespaceTaken") })
	h.change(n, func(o client.Object) { o.SetLabels(map[string]string{v1alpha1.LabelTenant: h.name}) })
	wait(h, tn, "handed over", func(t *v1alpha1.Tenant) error { return condition(t.Status.Conditions, "Ready=True") })
	h.delete(tn)
	h.gone(tn)
	if err := h.api.Get(h.t.Context(), client.ObjectKeyFromObject(n), n); err != nil || n.DeletionTimestamp != nil {
		h.t.Errorf("a namespace that was handed over goes with its Tenant: %v", err)
	}
}

// targets: members that are not plainly active, as the proxies say.
func targets(h *hub) {
	h.manager(app.LeaderElection{})
	h.create(h.newPool("192.0.2.128/30"), h.newClass())
	h.tenant()
	g := h.newTargetGroup("10.0.0.1", "10.0.0.2")
	g.Spec.Targets = append(g.Spec.Targets, v1alpha1.Target{Name: "node-x", UID: "uid-x"})
	h.create(g)
	p := h.proxy("1")
	p.catchUp()
	l := h.loadBalancer("web", 80)
	h.waitFor(l, "AddressGranted=True")
	p.sick = []v1alpha1.ReportedMember{{TargetGroup: g.Name, GroupUID: string(g.UID), Target: "node-0", TargetUID: "uid-0", Address: "10.0.0.1", Check: "TCP:30080", State: v1alpha1.ReportedUnhealthy, Message: "connection refused"}}
	p.catchUp()
	states := func(want string) func(*v1alpha1.TargetGroup) error {
		return func(g *v1alpha1.TargetGroup) error {
			got := g.Status.Members
			for _, m := range g.Status.Targets {
				got += fmt.Sprintf(" %s=%s", m.Name, m.State)
			}
			if got != want {
				return fmt.Errorf("%s, not %s", got, want)
			}
			return nil
		}
	}
	wait(h, g, "unhealthy", states("1/3 node-0=unhealthy node-x=waiting"))
	if err := condition(g.Status.Conditions, "Healthy=False/MembersUnhealthy"); err != nil {
		h.t.Error(err)
	}
	p.sick = nil
	p.catchUp()
	h.change(g, func(o client.Object) { o.(*v1alpha1.TargetGroup).Spec.Targets[1].State = v1alpha1.TargetDraining })
	wait(h, g, "draining", states("1/3 node-1=draining node-x=waiting"))
	p.catchUp()
	wait(h, g, "drained", states("1/3 node-1=drained node-x=waiting"))

	h.change(g, func(o client.Object) { o.(*v1alpha1.TargetGroup).Spec.Targets[0].Addresses = []string{"192.168.0.1"} })
	wait(h, g, "not allowed", func(g *v1alpha1.TargetGroup) error {
		return condition(g.Status.Conditions, "Accepted=False/TargetNotAllowed")
	})
	h.change(g, func(o client.Object) { o.(*v1alpha1.TargetGroup).Spec.Targets[1].Addresses = []string{"192.168.0.2"} })
	h.waitFor(l, "Degraded=True/TargetNotAllowed")
	wait(h, g, "none allowed", func(g *v1alpha1.TargetGroup) error {
		if !strings.HasPrefix(g.Status.Members, "0/") {
			return fmt.Errorf("%s targets are active", g.Status.Members)
		}
		return nil
	})
	h.change(g, func(o client.Object) { o.(*v1alpha1.TargetGroup).Spec.Targets[1].Addresses = []string{"10.0.0.2"} })
	h.waitFor(l, "Degraded=False")
}
