package rbac_test

import (
	"reflect"
	"testing"

	"fairlead.dev/fairlead/config/rbac"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
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
