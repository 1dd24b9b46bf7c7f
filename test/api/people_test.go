package api_test

import (
	"fmt"
	"testing"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	controlplanev1 "fairlead.dev/fairlead/api/controlplane/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	infrav1 "fairlead.dev/fairlead/api/infrastructure/v1beta1"
	"fairlead.dev/fairlead/config/rbac"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// testPeople: the roles for people let them do what is theirs, and nothing else; who has none of them may do nothing.
func testPeople(t *testing.T, h *hub) {
	ctx := t.Context()
	if err := rbac.InstallHub(ctx, h.config); err != nil {
		t.Fatal(err)
	}
	mine, theirs := h.namespace(t), h.namespace(t)
	group := func(name string) []rbacv1.Subject {
		return []rbacv1.Subject{{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: name}}
	}
	role := func(name string) rbacv1.RoleRef {
		return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name}
	}
	for _, o := range []client.Object{
		&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "test-operators"}, RoleRef: role("fairlead-operator"), Subjects: group("operators")},
		&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: mine, Name: "people"}, RoleRef: role("fairlead-tenant-admin"), Subjects: group("people")},
		&v1alpha1.Address{ObjectMeta: metav1.ObjectMeta{Name: "192.0.2.77"}, Spec: v1alpha1.AddressSpec{Address: "192.0.2.77", Pool: "p", Phase: v1alpha1.AddressGranted}},
		proxyOf("px-people"), reportOf(mine, "px-people"), reportOf(theirs, "px-people"),
		&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: mine, Name: v1alpha1.AgentLease}},
		&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: theirs, Name: v1alpha1.AgentLease}},
	} {
		if err := h.typed.Create(ctx, o); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := h.typed.Delete(testEnd(t), o); client.IgnoreNotFound(err) != nil {
				t.Error(err)
			}
		})
	}
	as := func(groups ...string) client.Client {
		path, err := h.control.UserKubeconfig("somebody-of-"+fmt.Sprint(groups), groups...)
		return clientOf(t, path, err)
	}
	operator, tenant, nobody := as("operators"), as("people"), as("others")
	lb := func(namespace string) client.Object {
		return &clusterv1.LoadBalancer{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "people"}}
	}
	tg := func(namespace string) client.Object {
		return &v1alpha1.TargetGroup{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "people"}}
	}
	named := func(o client.Object, namespace, name string) client.Object {
		o.SetNamespace(namespace)
		o.SetName(name)
		return o
	}
	pool := &v1alpha1.AddressPool{ObjectMeta: metav1.ObjectMeta{Name: "people"}, Spec: v1alpha1.AddressPoolSpec{Ranges: []string{"198.51.100.0/24"}}}
	class := &v1alpha1.LoadBalancerClass{ObjectMeta: metav1.ObjectMeta{Name: "people"}, Spec: v1alpha1.LoadBalancerClassSpec{Proxy: &v1alpha1.ClassProxy{Pool: "edge"}}}
	endpoint := &clusterv1.ClusterEndpoint{
		ObjectMeta: metav1.ObjectMeta{Namespace: mine, Name: "people"},
		Spec:       clusterv1.ClusterEndpointSpec{Cluster: "a", Host: "a.example", Port: 6443, Type: clusterv1.ClusterEndpointAPIServer},
	}
	external, unmanaged := named(&controlplanev1.ExternalControlPlane{}, mine, "people"), named(&infrav1.UnmanagedCluster{}, mine, "people")
	address, proxy := named(&v1alpha1.Address{}, "", "192.0.2.77"), named(&v1alpha1.Proxy{}, "", "px-people")
	label := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`))
	fence := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"fenced":{"by":"me","reason":"test"}}}`))
	status := client.RawPatch(types.MergePatchType, []byte(`{"status":{"conditions":[]}}`))
	copyOf := func(o client.Object) client.Object { return o.DeepCopyObject().(client.Object) }
	create := func(o client.Object) func(client.Client) error {
		return func(c client.Client) error { return c.Create(ctx, copyOf(o)) }
	}
	patch := func(o client.Object, p client.Patch) func(client.Client) error {
		return func(c client.Client) error { return c.Patch(ctx, copyOf(o), p) }
	}
	remove := func(o client.Object) func(client.Client) error {
		return func(c client.Client) error { return c.Delete(ctx, copyOf(o)) }
	}
	say := func(o client.Object) func(client.Client) error {
		return func(c client.Client) error { return c.Status().Patch(ctx, copyOf(o), status) }
	}
	list := func(l client.ObjectList, o ...client.ListOption) func(client.Client) error {
		return func(c client.Client) error { return c.List(ctx, l.DeepCopyObject().(client.ObjectList), o...) }
	}
	get := func(o client.Object) func(client.Client) error {
		return func(c client.Client) error { return c.Get(ctx, client.ObjectKeyFromObject(o), copyOf(o)) }
	}
	// In this order: what is deleted is there.
	for _, x := range []struct {
		what             string
		do               func(client.Client) error
		operator, tenant bool
	}{
		{"make a LoadBalancer", create(lb(mine)), false, true},
		{"make another's LoadBalancer", create(lb(theirs)), true, false},
		{"make a TargetGroup", create(tg(mine)), false, true},
		{"make another's TargetGroup", create(tg(theirs)), true, false},
		{"change a LoadBalancer", patch(lb(mine), label), true, true},
		{"change another's LoadBalancer", patch(lb(theirs), label), true, false},
		{"make a ClusterEndpoint", create(endpoint), true, false},
		{"change a ClusterEndpoint", patch(endpoint, label), true, false},
		{"write a ClusterEndpoint's status", say(endpoint), false, false},
		{"delete a ClusterEndpoint", remove(endpoint), true, false},
		{"make an ExternalControlPlane", create(external), true, false},
		{"write an ExternalControlPlane's status", say(external), false, false},
		{"make an UnmanagedCluster", create(unmanaged), true, false},
		{"write an UnmanagedCluster's status", say(unmanaged), false, false},
		{"make an UnmanagedClusterTemplate", create(named(&infrav1.UnmanagedClusterTemplate{}, mine, "people")), true, false},
		{"write a LoadBalancer's status", say(lb(mine)), false, false},
		{"write a TargetGroup's status", say(tg(mine)), false, false},
		{"read reports", list(&v1alpha1.ProxyReportList{}, client.InNamespace(mine)), true, true},
		{"read another's reports", list(&v1alpha1.ProxyReportList{}, client.InNamespace(theirs)), true, false},
		{"write a report", patch(reportOf(mine, "px-people"), label), false, false},
		{"read the agent's Lease", get(named(&coordinationv1.Lease{}, mine, v1alpha1.AgentLease)), true, true},
		{"read another's agent's Lease", get(named(&coordinationv1.Lease{}, theirs, v1alpha1.AgentLease)), true, false},
		{"write the agent's Lease", patch(named(&coordinationv1.Lease{}, mine, v1alpha1.AgentLease), label), false, false},
		{"read Secrets", list(&corev1.SecretList{}, client.InNamespace(mine)), false, false},
		{"read all LoadBalancers", list(&clusterv1.LoadBalancerList{}), true, false},
		{"read the ledger", list(&v1alpha1.AddressList{}), true, false},
		{"read Tenants", list(&v1alpha1.TenantList{}), true, false},
		{"read proxies", list(&v1alpha1.ProxyList{}), true, false},
		{"make a pool", create(pool), true, false},
		{"write a pool's status", say(pool), false, false},
		{"delete a pool", remove(pool), true, false},
		{"make a class", create(class), true, false},
		{"delete a class", remove(class), true, false},
		{"make a Tenant", create(named(&v1alpha1.Tenant{}, "", "people")), true, false},
		{"change a Tenant", patch(named(&v1alpha1.Tenant{}, "", "people"), label), true, false},
		{"write a Tenant's status", say(named(&v1alpha1.Tenant{}, "", "people")), false, false},
		{"delete a Tenant", remove(named(&v1alpha1.Tenant{}, "", "people")), true, false},
		{"make an Address", create(&v1alpha1.Address{ObjectMeta: metav1.ObjectMeta{Name: "192.0.2.78"}, Spec: v1alpha1.AddressSpec{Address: "192.0.2.78", Pool: "p", Phase: v1alpha1.AddressGranted}}), false, false},
		{"note on an Address", patch(address, label), true, false},
		{"delete an Address", remove(address), true, false},
		{"fence a proxy", patch(proxy, fence), true, false},
		{"write a proxy's status", say(proxy), false, false},
		{"delete a proxy", remove(proxy), true, false},
		{"bind a role", create(&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: mine, Name: "more"}, RoleRef: role("cluster-admin"), Subjects: group("people")}), false, false},
		{"delete a namespace", remove(named(&corev1.Namespace{}, "", theirs)), false, false},
		{"delete a LoadBalancer", remove(lb(mine)), false, true},
		{"delete another's LoadBalancer", remove(lb(theirs)), true, false},
	} {
		if err := x.do(nobody); !apierrors.IsForbidden(err) {
			t.Errorf("anybody may %s: %v", x.what, err)
		}
		for who, may := range map[string]bool{"operator": x.operator, "tenant": x.tenant} {
			c := map[string]client.Client{"operator": operator, "tenant": tenant}[who]
			if who == "operator" && !may && x.tenant {
				continue // he may too; the tenant does
			}
			switch err := x.do(c); {
			case may && err != nil:
				t.Errorf("the %s may not %s: %v", who, x.what, err)
			case !may && !apierrors.IsForbidden(err):
				t.Errorf("the %s may %s: %v", who, x.what, err)
			}
		}
	}
}
