package managed

import (
	"context"
	"errors"
	"testing"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

func clusterWith(content map[string]any) *Cluster {
	u := &unstructured.Unstructured{Object: content}
	u.SetGroupVersionKind(ClusterKind.WithVersion("v1beta2"))
	u.SetNamespace("default")
	u.SetName("c")
	u.SetUID("cluster-uid")
	return &Cluster{u}
}

// owned is a stand-in for a provider's object.
func owned(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name + "-uid")}}
}

func TestOf(t *testing.T) {
	c := clusterWith(map[string]any{})
	kinds := meta.NewDefaultRESTMapper([]schema.GroupVersion{{Group: ClusterKind.Group, Version: "v1beta2"}})
	kinds.Add(ClusterKind.WithVersion("v1beta2"), meta.RESTScopeNamespace)
	reader := fake.NewClientBuilder().WithScheme(runtime.NewScheme()).WithObjects(c.object).Build()
	for name, tc := range map[string]struct {
		refs []metav1.OwnerReference
		want bool
	}{
		"nobody owns it":                  {nil, false},
		"its Cluster does":                {[]metav1.OwnerReference{{APIVersion: "cluster.x-k8s.io/v1beta2", Kind: "Cluster", Name: "c", UID: "cluster-uid"}}, true},
		"in another version":              {[]metav1.OwnerReference{{APIVersion: "cluster.x-k8s.io/v1beta1", Kind: "Cluster", Name: "c", UID: "cluster-uid"}}, true},
		"one that is no more":             {[]metav1.OwnerReference{{APIVersion: "cluster.x-k8s.io/v1beta2", Kind: "Cluster", Name: "gone", UID: "cluster-uid"}}, false},
		"one that had the name before":    {[]metav1.OwnerReference{{APIVersion: "cluster.x-k8s.io/v1beta2", Kind: "Cluster", Name: "c", UID: "before"}}, false},
		"another group's kind of Cluster": {[]metav1.OwnerReference{{APIVersion: "example.com/v1", Kind: "Cluster", Name: "c", UID: "cluster-uid"}}, false},
	} {
		o := owned("o")
		o.OwnerReferences = tc.refs
		got, err := Of(t.Context(), reader, kinds, o)
		if err != nil || (got != nil) != tc.want {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

func TestInfrastructureProvisioned(t *testing.T) {
	ref := map[string]any{"infrastructureRef": map[string]any{"kind": "FKSCluster", "name": "c"}}
	for name, tc := range map[string]struct {
		content map[string]any
		want    bool
	}{
		"there is none":              {map[string]any{}, true},
		"not yet":                    {map[string]any{"spec": ref}, false},
		"as v1beta2 says":            {map[string]any{"spec": ref, "status": map[string]any{"initialization": map[string]any{"infrastructureProvisioned": true}}}, true},
		"as v1beta1 says":            {map[string]any{"spec": ref, "status": map[string]any{"infrastructureReady": true}}, true},
		"it isn't as the API has it": {map[string]any{"spec": map[string]any{"infrastructureRef": "x"}}, false},
	} {
		if got := clusterWith(tc.content).InfrastructureProvisioned(); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestEndpoint(t *testing.T) {
	with := func(e map[string]any) *Cluster {
		return clusterWith(map[string]any{"spec": map[string]any{"controlPlaneEndpoint": e}})
	}
	if e, ok := with(map[string]any{"host": "10.0.0.1", "port": int64(6443)}).Endpoint(); !ok || e != (clusterv1.Endpoint{Host: "10.0.0.1", Port: 6443}) {
		t.Errorf("it is %v, %v", e, ok)
	}
	for _, half := range []map[string]any{nil, {"host": "10.0.0.1"}, {"port": int64(6443)}, {"host": "10.0.0.1", "port": "6443"}, {"host": "10.0.0.1", "port": int64(70000)}} {
		if e, ok := with(half).Endpoint(); ok {
			t.Errorf("%v is the endpoint %v", half, e)
		}
	}
}

func TestHolds(t *testing.T) {
	annotated := func(key string) *corev1.ConfigMap {
		o := owned("o")
		o.Annotations = map[string]string{key: ""}
		return o
	}
	paused := clusterWith(map[string]any{"spec": map[string]any{"paused": true}})
	moving := clusterWith(map[string]any{"metadata": map[string]any{"annotations": map[string]any{MoveAnnotation: ""}}})
	if why := Holds(owned("o"), clusterWith(map[string]any{})); why != "" {
		t.Errorf("nothing holds it, and it says %q", why)
	}
	if why := Holds(owned("o"), nil); why != "" {
		t.Errorf("without a Cluster it says %q", why)
	}
	for name, why := range map[string]string{
		"its annotation": Holds(annotated(PausedAnnotation), nil), "its move": Holds(annotated(MoveAnnotation), nil),
		"its Cluster": Holds(owned("o"), paused), "its Cluster's move": Holds(owned("o"), moving),
	} {
		if why == "" {
			t.Errorf("%s doesn't hold it", name)
		}
	}
}

func TestPublish(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clusterv1.AddToScheme(scheme), corev1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	writes := 0
	c := fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			writes++
			return c.Create(ctx, o, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			writes++
			return c.Patch(ctx, o, p, opts...)
		},
	}).Build()
	publish := func(owner client.Object, host string, want int) *clusterv1.ClusterEndpoint {
		t.Helper()
		writes = 0
		if err := Publish(t.Context(), c, owner, "c", clusterv1.Endpoint{Host: host, Port: 6443}); err != nil {
			t.Fatal(err)
		}
		if writes != want {
			t.Errorf("%d writes, not %d", writes, want)
		}
		e := &clusterv1.ClusterEndpoint{}
		if err := c.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: EndpointName("ConfigMap", owner.GetName())}, e); err != nil {
			t.Fatal(err)
		}
		return e
	}
	e := publish(owned("o"), "10.0.0.1", 1)
	ref := metav1.GetControllerOf(e)
	if e.Spec != (clusterv1.ClusterEndpointSpec{Cluster: "c", Host: "10.0.0.1", Port: 6443, Type: clusterv1.ClusterEndpointExternalControlPlane}) ||
		e.Labels[clusterv1.ClusterNameLabel] != "c" || ref == nil || ref.UID != "o-uid" || ref.Kind != "ConfigMap" {
		t.Errorf("it is %+v", e)
	}
	publish(owned("o"), "10.0.0.1", 0) // at rest
	e.Spec.Primary, e.Labels["mine"] = true, "yes"
	if err := c.Update(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	restored := owned("o")
	restored.UID = "another"
	e = publish(restored, "10.0.0.2", 1)
	if ref := metav1.GetControllerOf(e); e.Spec.Host != "10.0.0.2" || !e.Spec.Primary || e.Labels["mine"] != "yes" || ref.UID != "another" {
		t.Errorf("after a restore it is %+v", e)
	}
	theirs := &clusterv1.ClusterEndpoint{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: EndpointName("ConfigMap", "p")}}
	if err := c.Create(t.Context(), theirs); err != nil {
		t.Fatal(err)
	}
	writes = 0
	var taken *Taken
	if err := Publish(t.Context(), c, owned("p"), "c", clusterv1.Endpoint{Host: "10.0.0.1", Port: 6443}); !errors.As(err, &taken) || writes != 0 {
		t.Errorf("somebody else's is overwritten: %v, %d writes", err, writes)
	}
}
