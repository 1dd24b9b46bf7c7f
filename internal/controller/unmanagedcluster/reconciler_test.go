package unmanagedcluster

import (
	"context"
	"testing"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	infrav1 "fairlead.dev/fairlead/api/infrastructure/v1beta1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func cluster(spec map[string]any, annotations ...string) *unstructured.Unstructured {
	c := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	c.SetAPIVersion("cluster.x-k8s.io/v1beta2")
	c.SetKind("Cluster")
	c.SetNamespace("ns")
	c.SetName("mine")
	c.SetUID("cluster-uid")
	for _, a := range annotations {
		c.SetAnnotations(map[string]string{a: ""})
	}
	return c
}

func unmanaged(change ...func(*infrav1.UnmanagedCluster)) *infrav1.UnmanagedCluster {
	o := &infrav1.UnmanagedCluster{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "of-mine",
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "cluster.x-k8s.io/v1beta2", Kind: "Cluster", Name: "mine", UID: "cluster-uid"}},
	}}
	for _, f := range change {
		f(o)
	}
	return o
}

// plane is a kind of control planes.
var plane = schema.GroupVersionKind{Group: "controlplane.cluster.x-k8s.io", Version: "v1", Kind: "Plane"}

func planeRef(name string) map[string]any {
	return map[string]any{"apiGroup": plane.Group, "kind": plane.Kind, "name": name}
}

func controlPlane(name string, external bool) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"externalManagedControlPlane": external}}}
	o.SetGroupVersionKind(plane)
	o.SetNamespace("ns")
	o.SetName(name)
	return o
}

func TestUnmanagedClusters(t *testing.T) {
	at := func() map[string]any {
		return map[string]any{"controlPlaneEndpoint": map[string]any{"host": "a.example", "port": int64(6443)}}
	}
	annotated := func(key string) func(*infrav1.UnmanagedCluster) {
		return func(o *infrav1.UnmanagedCluster) { o.Annotations = map[string]string{key: "somebody"} }
	}
	was := func(o *infrav1.UnmanagedCluster) {
		o.Status.Initialization = &infrav1.Initialization{Provisioned: true}
	}
	paused := at()
	paused["paused"] = true
	of := schema.GroupVersionKind{Group: clusterv1.GroupVersion.Group, Version: "v1beta2", Kind: "Cluster"}
	for name, c := range map[string]struct {
		cluster     *unstructured.Unstructured // nil: there is none
		unmanaged   *infrav1.UnmanagedCluster
		provisioned bool
		ready       string // its reason; "": nothing is said
		paused      string
		writes      int
	}{
		"the Cluster has an endpoint":      {cluster(at()), unmanaged(), true, infrav1.ReasonReady, "False", 1},
		"it has none":                      {cluster(map[string]any{}), unmanaged(), false, infrav1.ReasonWaitingForEndpoint, "False", 1},
		"it has half of one":               {cluster(map[string]any{"controlPlaneEndpoint": map[string]any{"host": "a.example"}}), unmanaged(), false, infrav1.ReasonWaitingForEndpoint, "False", 1},
		"its control plane makes one":      {cluster(map[string]any{"controlPlaneRef": planeRef("run-by-others")}), unmanaged(), true, infrav1.ReasonReady, "False", 1},
		"its control plane needs one":      {cluster(map[string]any{"controlPlaneRef": planeRef("of-machines")}), unmanaged(), false, infrav1.ReasonWaitingForEndpoint, "False", 1},
		"its control plane isn't there":    {cluster(map[string]any{"controlPlaneRef": planeRef("to-come")}), unmanaged(), false, infrav1.ReasonWaitingForEndpoint, "False", 1},
		"it has none any more":             {cluster(map[string]any{}), unmanaged(was), true, infrav1.ReasonWaitingForEndpoint, "False", 1},
		"there is no Cluster":              {nil, unmanaged(), false, infrav1.ReasonWaitingForCluster, "False", 1},
		"nobody owns it":                   {cluster(at()), unmanaged(func(o *infrav1.UnmanagedCluster) { o.OwnerReferences = nil }), false, infrav1.ReasonWaitingForCluster, "False", 1},
		"a Cluster of the name owned it":   {cluster(at()), unmanaged(func(o *infrav1.UnmanagedCluster) { o.OwnerReferences[0].UID = "another" }), false, infrav1.ReasonWaitingForCluster, "False", 1},
		"the Cluster is paused":            {cluster(paused), unmanaged(), false, "", "True", 1},
		"the Cluster is paused, annotated": {cluster(at(), clusterv1.PausedAnnotation), unmanaged(), false, "", "True", 1},
		"it is paused":                     {cluster(at()), unmanaged(annotated(clusterv1.PausedAnnotation)), false, "", "True", 1},
		"the Cluster moves":                {cluster(at(), clusterv1.MoveAnnotation), unmanaged(), false, "", "", 0},
		"it moves":                         {cluster(at()), unmanaged(annotated(clusterv1.MoveAnnotation)), false, "", "", 0},
		"somebody else manages it":         {cluster(at()), unmanaged(annotated(ManagedBy)), false, "", "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			scheme, kinds, writes := runtime.NewScheme(), meta.NewDefaultRESTMapper([]schema.GroupVersion{plane.GroupVersion()}), 0
			if err := infrav1.AddToScheme(scheme); err != nil {
				t.Fatal(err)
			}
			scheme.AddKnownTypeWithName(of, &unstructured.Unstructured{})
			kinds.Add(of, meta.RESTScopeNamespace)
			kinds.Add(plane, meta.RESTScopeNamespace)
			scheme.AddKnownTypeWithName(plane, &unstructured.Unstructured{})
			objects := []client.Object{c.unmanaged, controlPlane("run-by-others", true), controlPlane("of-machines", false)}
			if c.cluster != nil {
				objects = append(objects, c.cluster)
			}
			hub := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(c.unmanaged).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
				SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
					writes++
					return c.SubResource(sub).Patch(ctx, o, p, opts...)
				},
			}).Build()
			r := New(Options{Client: hub, Reader: hub, Kinds: kinds})
			for range 3 { // at rest nothing is written
				if result, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(c.unmanaged)}); err != nil || (result.RequeueAfter > 0) != (c.cluster != nil && c.cluster.Object["spec"].(map[string]any)["controlPlaneRef"] != nil && !c.provisioned) {
					t.Fatal(result, err)
				}
			}
			o := unmanaged()
			if err := hub.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
				t.Fatal(err)
			}
			ready, pause := "", ""
			if x := meta.FindStatusCondition(o.Status.Conditions, infrav1.ConditionReady); x != nil {
				ready = x.Reason
			}
			if x := meta.FindStatusCondition(o.Status.Conditions, infrav1.ConditionPaused); x != nil {
				pause = string(x.Status)
			}
			if provisioned := o.Status.Initialization != nil && o.Status.Initialization.Provisioned; provisioned != c.provisioned || ready != c.ready || pause != c.paused || writes != c.writes {
				t.Errorf("provisioned %t, ready %q, paused %q after %d writes", provisioned, ready, pause, writes)
			}
		})
	}
}
