package app

import (
	"maps"
	"slices"
	"strings"
	"testing"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Tenants write TargetGroups by the thousand, each with as many annotations as the API server lets them: none of that stays
// in the manager's memory but that the group takes no new connections.
func TestManagersKeepNoAnnotationsOfTargetGroups(t *testing.T) {
	much := strings.Repeat("x", 100_000)
	g := &v1alpha1.TargetGroup{ObjectMeta: metav1.ObjectMeta{
		Name: "nodes", Labels: map[string]string{"app": "web"}, ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl"}},
		Annotations: map[string]string{clusterv1.DisabledAnnotation: much, "fairlead.dev/other": much, "example.com/other": much},
	}}
	options := managerCache()
	transform := options.DefaultTransform
	for o, by := range options.ByObject {
		if _, ok := o.(*v1alpha1.TargetGroup); ok {
			transform = by.Transform
		}
	}
	if _, err := transform(g); err != nil {
		t.Fatal(err)
	}
	if kept := slices.Collect(maps.Keys(g.Annotations)); !slices.Equal(kept, []string{clusterv1.DisabledAnnotation}) || len(g.Annotations[kept[0]]) > 0 {
		t.Errorf("it keeps %q", kept)
	}
	if len(g.ManagedFields) > 0 || g.Labels["app"] != "web" {
		t.Errorf("it keeps %v, and of labels %v", g.ManagedFields, g.Labels)
	}
	plain := &v1alpha1.TargetGroup{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"example.com/other": much}}}
	if _, err := transform(plain); err != nil || len(plain.Annotations) > 0 {
		t.Errorf("it keeps %d annotations, %v", len(plain.Annotations), err)
	}
}
