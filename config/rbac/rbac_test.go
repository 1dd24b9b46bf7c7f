package rbac_test

import (
	"maps"
	"reflect"
	"slices"
	"testing"

	"fairlead.dev/fairlead/config/rbac"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// One cluster may be hub and tenant: what both sides install under one name is the same, whichever is applied last.
func TestOneClusterMayBeHubAndTenant(t *testing.T) {
	hub, err := rbac.Hub()
	if err != nil {
		t.Fatal(err)
	}
	tenant, err := rbac.Tenant()
	if err != nil {
		t.Fatal(err)
	}
	type name struct{ kind, namespace, name string }
	named := func(o *unstructured.Unstructured) name { return name{o.GetKind(), o.GetNamespace(), o.GetName()} }
	is := map[name]*unstructured.Unstructured{}
	for _, o := range hub {
		is[named(o)] = o
	}
	both := 0
	for _, o := range tenant {
		if h := is[named(o)]; h != nil {
			both++
			if !reflect.DeepEqual(h.Object, o.Object) {
				t.Errorf("%v is one thing in the hub, and another in a tenant's cluster", named(o))
			}
		}
	}
	if both == 0 {
		t.Error("they share not even the namespace")
	}
}

// What every hub gets reads no Secret, writes no Node and names no kinds by *; what only some hubs need is applied by itself.
func TestNobodyReadsSecretsUnlessAsked(t *testing.T) {
	of := func(name string, read func() ([]*unstructured.Unstructured, error)) (all []string) {
		objects, err := read()
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range objects {
			rules, _, err := unstructured.NestedSlice(o.Object, "rules")
			if err != nil {
				continue // no role
			}
			for _, r := range rules {
				resources, _, err := unstructured.NestedStringSlice(r.(map[string]any), "resources")
				if err != nil {
					t.Fatalf("%s: %s: %v", name, o.GetName(), err)
				}
				all = append(all, resources...)
			}
		}
		return all
	}
	for name, read := range map[string]func() ([]*unstructured.Unstructured, error){"hub": rbac.Hub, "cluster-api": rbac.ClusterAPI} {
		if slices.Contains(of(name, read), "nodes") {
			t.Errorf("a role of %s is for Nodes", name)
		}
	}
	if all := of("nodes", rbac.Nodes); !slices.Contains(all, "nodes") || slices.Contains(all, "secrets") {
		t.Errorf("for Nodes, the resources are %v", all)
	}
	for name, read := range map[string]func() ([]*unstructured.Unstructured, error){"hub": rbac.Hub, "tenant": rbac.Tenant} {
		all := of(name, read)
		if !slices.Contains(all, "leases") {
			t.Fatalf("%s: the resources are %v", name, all)
		}
		for _, what := range []string{"secrets", "*"} {
			if slices.Contains(all, what) {
				t.Errorf("a role of %s is for the resource %q", name, what)
			}
		}
	}
	if all := of("cluster-api", rbac.ClusterAPI); !slices.Contains(all, "secrets") {
		t.Errorf("with Cluster API, the resources are %v", all)
	}
}

// In a management cluster the agent may do with Clusters and their endpoints what the manager may in a hub, and no more.
func TestTheAgentMayDoWhatTheManagerMayWithClusters(t *testing.T) {
	of := func(read func() ([]*unstructured.Unstructured, error), roles ...string) map[string]bool {
		objects, err := read()
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]bool{}
		for _, o := range objects {
			if o.GetKind() != "ClusterRole" || !slices.Contains(roles, o.GetName()) {
				continue
			}
			role := &rbacv1.ClusterRole{}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, role); err != nil {
				t.Fatal(err)
			}
			for _, r := range role.Rules {
				for _, group := range r.APIGroups {
					for _, resource := range r.Resources {
						for _, verb := range r.Verbs {
							out[verb+" "+resource+"."+group] = true
						}
					}
				}
			}
		}
		return out
	}
	want := of(rbac.Hub, "fairlead-manager-cluster-api", "fairlead-manager-control-planes")
	maps.Copy(want, of(rbac.ClusterAPI, "fairlead-cluster-api"))
	if got := of(rbac.Management, "fairlead-management-endpoints"); len(got) == 0 || !maps.Equal(got, want) {
		t.Errorf("the agent may %v, the manager %v", slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
	}
}
