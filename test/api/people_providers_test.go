package api_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"fairlead.dev/fairlead/config/rbac"
	fksconfig "fairlead.dev/fairlead/examples/fks-provider/config"
	fooconfig "fairlead.dev/fairlead/examples/foo-provider/config"
	"fairlead.dev/fairlead/internal/testkit"
	"fairlead.dev/fairlead/internal/testkit/kubetest"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// testPeopleOfProviders: objects of providers' kinds are written by whoever has the role that gathers what providers bring, where he has it, and by
// nobody else who has a role of ours.
func testPeopleOfProviders(t *testing.T, h *hub) {
	ctx := t.Context()
	if err := errors.Join(rbac.InstallHub(ctx, h.config), testkit.Create(ctx, h.config, fooconfig.Manifests), testkit.Create(ctx, h.config, fksconfig.Manifests)); err != nil {
		t.Fatal(err)
	}
	mine, theirs := h.namespace(t), h.namespace(t)
	role := func(name string) rbacv1.RoleRef {
		return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name}
	}
	group := func(name string) []rbacv1.Subject {
		return []rbacv1.Subject{{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: name}}
	}
	const gathers = "fairlead-provider-operator"
	people := map[string]client.Client{}
	for name, binding := range map[string]client.Object{
		"hub's operator":                 &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "test-provider-operators"}, RoleRef: role(gathers)},
		"operator of Clusters here":      &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: mine, Name: "operators"}, RoleRef: role(gathers)},
		"tenant":                         &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: mine, Name: "tenant"}, RoleRef: role("fairlead-tenant-admin")},
		"operator of Fairlead's alone":   &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "test-plain-operators"}, RoleRef: role("fairlead-operator")},
		"somebody whom nobody bound yet": nil,
	} {
		switch b := binding.(type) {
		case *rbacv1.ClusterRoleBinding:
			b.Subjects = group(name)
		case *rbacv1.RoleBinding:
			b.Subjects = group(name)
		}
		if binding != nil {
			if err := h.typed.Create(ctx, binding); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := h.typed.Delete(testEnd(t), binding); client.IgnoreNotFound(err) != nil {
					t.Error(err)
				}
			})
		}
		path, err := h.control.UserKubeconfig("one", name)
		people[name] = clientOf(t, path, err)
	}
	in := func(namespace, version, kind string, spec map[string]any) *unstructured.Unstructured {
		u := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
		u.SetAPIVersion(version)
		u.SetKind(kind)
		u.SetNamespace(namespace)
		u.SetName("people")
		return u
	}
	const infrastructure, controlPlane = "infrastructure.cluster.x-k8s.io/v1beta1", "controlplane.cluster.x-k8s.io/v1beta1"
	versioned := map[string]any{"version": "v1.37.0"}
	template := map[string]any{"template": map[string]any{"spec": map[string]any{}}}
	label := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`))
	status := client.RawPatch(types.MergePatchType, []byte(`{"status":{"conditions":[]}}`))
	for _, kind := range []struct {
		version, name string
		spec          map[string]any
	}{
		{infrastructure, "FooLoadBalancer", map[string]any{}}, {infrastructure, "FooLoadBalancerTemplate", template},
		{infrastructure, "FKSCluster", map[string]any{}}, {infrastructure, "FKSClusterTemplate", template},
		{controlPlane, "FKSControlPlane", versioned}, {controlPlane, "FKSControlPlaneTemplate", template},
	} {
		kubetest.Eventually(t, time.Minute, kind.name+" to be theirs", func(ctx context.Context) error { // the role is gathered by then
			return people["hub's operator"].List(ctx, listOf(in(mine, kind.version, kind.name, nil)), client.InNamespace(theirs))
		})
		for who, c := range people {
			for namespace, may := range map[string]bool{
				mine:   who == "hub's operator" || who == "operator of Clusters here",
				theirs: who == "hub's operator",
			} {
				o := in(namespace, kind.version, kind.name, kind.spec)
				for _, do := range []struct {
					what string
					may  bool
					f    func() error
				}{
					{"make", may, func() error { return c.Create(ctx, o.DeepCopy()) }},
					{"change", may, func() error { return c.Patch(ctx, o.DeepCopy(), label) }},
					{"write the status of", false, func() error { return c.Status().Patch(ctx, o.DeepCopy(), status) }},
					{"list", may, func() error { return c.List(ctx, listOf(o), client.InNamespace(namespace)) }},
					{"delete", may, func() error { return c.Delete(ctx, o.DeepCopy()) }},
				} {
					if kind.spec["template"] != nil && do.what == "write the status of" {
						continue // it has none
					}
					switch err := do.f(); {
					case do.may && err != nil:
						t.Errorf("the %s may not %s a %s of %s: %v", who, do.what, kind.name, namespace, err)
					case !do.may && !apierrors.IsForbidden(err):
						t.Errorf("the %s may %s a %s: %v", who, do.what, kind.name, err)
					}
				}
			}
		}
	}
}

func listOf(u *unstructured.Unstructured) *unstructured.UnstructuredList {
	l := &unstructured.UnstructuredList{}
	l.SetAPIVersion(u.GetAPIVersion())
	l.SetKind(u.GetKind() + "List")
	return l
}
