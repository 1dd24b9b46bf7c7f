package cli

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/controller/kit"
	"fairlead.dev/fairlead/internal/member"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

var clusterAPI = schema.GroupVersion{Group: "cluster.x-k8s.io", Version: "v1beta2"}

func ofClusterAPI(kind, name string, annotations map[string]string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(clusterAPI.WithKind(kind))
	u.SetNamespace("clusters")
	u.SetName(name)
	u.SetAnnotations(annotations)
	u.SetLabels(map[string]string{member.ClusterNameLabel: "prod"})
	return u
}

// hookedBy has annotations with a hook and a state of the LoadBalancer api.
func hookedBy(annotations map[string]string) map[string]string {
	return member.Annotate(annotations, "api", member.Decision{State: member.Active, Hook: true}, "", false)
}

func leaveHub(t *testing.T, objects ...client.Object) *Hub {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{coordinationv1.AddToScheme, clusterv1.AddToScheme, corev1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	mapper := meta.NewDefaultRESTMapper(nil)
	for _, kind := range []string{"Machine", "Cluster"} {
		mapper.Add(clusterAPI.WithKind(kind), meta.RESTScopeNamespace)
		scheme.AddKnownTypeWithName(clusterAPI.WithKind(kind), &unstructured.Unstructured{})
		scheme.AddKnownTypeWithName(clusterAPI.WithKind(kind+"List"), &unstructured.UnstructuredList{})
	}
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Node"), meta.RESTScopeRoot)
	mapper.Add(clusterv1.GroupVersion.WithKind("LoadBalancer"), meta.RESTScopeNamespace)
	mapper.Add(coordinationv1.SchemeGroupVersion.WithKind("Lease"), meta.RESTScopeNamespace)
	return &Hub{client: fake.NewClientBuilder().WithScheme(scheme).WithRESTMapper(mapper).WithObjects(objects...).Build(), clock: &clock{}}
}

func leadership(holder string, ago time.Duration) *coordinationv1.Lease {
	at := metav1.NewMicroTime(time.Now().Add(-ago))
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.SystemNamespace, Name: managerLease},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, RenewTime: &at},
	}
}

func TestLeave(t *testing.T) {
	theirs := map[string]string{"example.com/x": "y"}
	prod := ofClusterAPI("Cluster", "prod", nil)
	paused := ofClusterAPI("Cluster", "prod", map[string]string{clusterv1.PausedAnnotation: ""})
	m1, clean := ofClusterAPI("Machine", "m1", hookedBy(theirs)), ofClusterAPI("Machine", "clean", theirs)
	m2 := ofClusterAPI("Machine", "m2", hookedBy(map[string]string{clusterv1.PausedAnnotation: ""}))
	for name, c := range map[string]struct {
		objects []client.Object
		options LeaveOptions
		state   LeaveState
		want    string // state of each Machine that carried something
		says    string
	}{
		"nothing is there":         {nil, LeaveOptions{}, LeaveDone, "", "0 Machines"},
		"what is clean":            {[]client.Object{prod, clean}, LeaveOptions{}, LeaveDone, "", "0 Machines"},
		"all of it":                {[]client.Object{prod, clean, m1}, LeaveOptions{}, LeaveDone, "m1=Done", "1 Machine"},
		"a Cluster that is gone":   {[]client.Object{m1}, LeaveOptions{}, LeaveDone, "m1=Done", "1 Machine"},
		"a dry run":                {[]client.Object{prod, m1, m2}, LeaveOptions{DryRun: true}, LeavePlanned, "m1=Planned m2=Left", ""},
		"a Machine is paused":      {[]client.Object{prod, m1, m2}, LeaveOptions{}, LeaveLeft, "m1=Done m2=Left", "clusters/m2: it is paused"},
		"its Cluster is":           {[]client.Object{paused, m1}, LeaveOptions{}, LeaveLeft, "m1=Left", "its Cluster is paused"},
		"paused ones, too":         {[]client.Object{paused, m1, m2}, LeaveOptions{Paused: true}, LeaveDone, "m1=Done m2=Done", "2 Machines"},
		"a manager leads":          {[]client.Object{prod, m1, leadership("a", time.Second)}, LeaveOptions{}, LeaveRefused, "", "manager a leads"},
		"a dry run while one does": {[]client.Object{prod, m1, leadership("a", time.Second)}, LeaveOptions{DryRun: true}, LeaveRefused, "m1=Planned", "manager a leads"},
		"though one does":          {[]client.Object{prod, m1, leadership("a", time.Second)}, LeaveOptions{Force: true}, LeaveDone, "m1=Done", "1 Machine"},
		"it has stopped":           {[]client.Object{prod, m1, leadership("", time.Second)}, LeaveOptions{}, LeaveDone, "m1=Done", "1 Machine"},
		"it is silent":             {[]client.Object{prod, m1, leadership("a", time.Hour)}, LeaveOptions{}, LeaveDone, "m1=Done", "1 Machine"},
	} {
		t.Run(name, func(t *testing.T) {
			var objects []client.Object
			for _, o := range c.objects {
				objects = append(objects, o.DeepCopyObject().(client.Object))
			}
			h := leaveHub(t, objects...)
			told := 0
			l, err := h.Leave(t.Context(), c.options, func(LeaveLine) { told++ })
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, m := range l.Machines {
				got = append(got, m.Name+"="+string(m.State))
				have := ofClusterAPI("Machine", m.Name, nil)
				if err := h.client.Get(t.Context(), client.ObjectKeyFromObject(have), have); err != nil {
					t.Fatal(err)
				}
				if carries := len(written(member.Machines, have)) > 0; carries == (m.State == LeaveDone) {
					t.Errorf("%s is %s and carries %v", m.Name, m.State, have.GetAnnotations())
				}
				if m.Name == "m1" && have.GetAnnotations()["example.com/x"] != "y" {
					t.Errorf("%s lost what is somebody else's: %v", m.Name, have.GetAnnotations())
				}
			}
			if l.State != c.state || strings.Join(got, " ") != c.want || !strings.Contains(l.Message, c.says) || told != len(got) {
				t.Errorf("%s %v, %q, told %d", l.State, got, l.Message, told)
			}
			if (l.State == LeaveRefused || l.State == LeaveLeft) != (l.Fix != "") {
				t.Errorf("its fix is %q", l.Fix)
			}
			var text strings.Builder
			if err := l.WriteText(&text); err != nil || !strings.Contains(text.String(), l.Message) {
				t.Errorf("%v\n%s", err, text.String())
			}
		})
	}
}

// The label goes where a manager alone gave it.
func TestLabelOfAManager(t *testing.T) {
	for name, c := range map[string]struct {
		by    []string
		label bool
		want  bool
	}{
		"a manager": {[]string{kit.FieldManager}, true, true}, "a person": {[]string{"kubectl"}, true, false},
		"both": {[]string{"capi-kubeadmcontrolplane", kit.FieldManager}, true, false}, "nobody knows": {nil, true, false}, "none": {nil, false, false},
	} {
		m := ofClusterAPI("Machine", "m", nil)
		if c.label {
			m.SetLabels(map[string]string{member.NameLabel: "api"})
		}
		fields := []metav1.ManagedFieldsEntry{{Manager: "other", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{}}`)}, {Manager: "empty"}}
		for _, who := range c.by {
			fields = append(fields, metav1.ManagedFieldsEntry{Manager: who, FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:labels":{"f:` + member.NameLabel + `":{}}}}`)})
		}
		m.SetManagedFields(fields)
		if got := written(member.Machines, m); (len(got) == 1 && got[0] == labelOf+member.NameLabel) != c.want || !c.want && len(got) > 0 {
			t.Errorf("%s: %v", name, got)
		}
	}
	m := ofClusterAPI("Machine", "m", hookedBy(nil))
	if got, want := written(member.Machines, m), slices.Sorted(maps.Keys(hookedBy(nil))); !slices.Equal(got, want) {
		t.Errorf("%v, not %v", got, want)
	}
}
