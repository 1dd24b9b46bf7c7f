package endpoint

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/controller/kit"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

var key = types.NamespacedName{Namespace: "ns", Name: "my-cluster"}

// stage is a hub that serves Clusters and Machines, with a reconciler.
func stage(t *testing.T, f interceptor.Funcs, objects ...client.Object) (*Reconciler, client.Client) {
	t.Helper()
	scheme, kinds := runtime.NewScheme(), meta.NewDefaultRESTMapper([]schema.GroupVersion{
		{Group: infrastructure, Version: "v1beta1"}, {Group: controlPlane, Version: "v1beta2"},
	})
	for _, add := range []func(*runtime.Scheme) error{clusterv1.AddToScheme, corev1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	group := schema.GroupVersion{Group: "cluster.x-k8s.io", Version: "v1beta2"}
	for _, kind := range []string{"Cluster", "Machine"} {
		scheme.AddKnownTypeWithName(group.WithKind(kind), &unstructured.Unstructured{})
		scheme.AddKnownTypeWithName(group.WithKind(kind+"List"), &unstructured.UnstructuredList{})
		kinds.Add(group.WithKind(kind), meta.RESTScopeNamespace)
	}
	for _, gvk := range others() {
		scheme.AddKnownTypeWithName(gvk, &unstructured.Unstructured{})
		kinds.Add(gvk, meta.RESTScopeNamespace)
	}
	hub := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&clusterv1.ClusterEndpoint{}, &clusterv1.LoadBalancer{}).
		WithIndex(&v1alpha1.Tenant{}, kit.TenantByNamespace, func(o client.Object) []string { return []string{o.(*v1alpha1.Tenant).NamespaceName()} }).
		WithObjects(objects...).WithInterceptorFuncs(f).Build()
	return New(Options{Logger: slog.New(slog.DiscardHandler), Client: hub, Reader: hub, Kinds: kinds}), hub
}

func clusterWith(host string, port int64, change ...func(*unstructured.Unstructured)) *unstructured.Unstructured {
	c := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{}}}
	c.SetAPIVersion("cluster.x-k8s.io/v1beta2")
	c.SetKind("Cluster")
	c.SetNamespace(key.Namespace)
	c.SetName(key.Name)
	c.SetUID("cluster-uid")
	if host != "" {
		c.Object["spec"] = map[string]any{"controlPlaneEndpoint": map[string]any{"host": host, "port": port}}
	}
	for _, f := range change {
		f(c)
	}
	return c
}

func endpointAt(name, cluster, host string) *clusterv1.ClusterEndpoint {
	return &clusterv1.ClusterEndpoint{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: name, Generation: 1},
		Spec:       clusterv1.ClusterEndpointSpec{Cluster: cluster, Host: host, Port: 6443, Type: clusterv1.ClusterEndpointAPIServer},
	}
}

func machineOf(cluster string) *unstructured.Unstructured {
	m := &unstructured.Unstructured{Object: map[string]any{}}
	m.SetAPIVersion("cluster.x-k8s.io/v1beta2")
	m.SetKind("Machine")
	m.SetNamespace(key.Namespace)
	m.SetName("m")
	m.SetLabels(map[string]string{clusterv1.ClusterNameLabel: cluster})
	return m
}

// What another endpoint may be written over, and what it may not.
func TestWhatIsInUseStays(t *testing.T) {
	secret := func(name string) client.Object {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: name}}
	}
	annotated := func(k, v string) func(*unstructured.Unstructured) {
		return func(c *unstructured.Unstructured) { c.SetAnnotations(map[string]string{k: v}) }
	}
	pausedSpec := func(c *unstructured.Unstructured) { c.Object["spec"].(map[string]any)["paused"] = true }
	denied := interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, k client.ObjectKey, o client.Object, opts ...client.GetOption) error {
		if o.GetObjectKind().GroupVersionKind().Kind == "Secret" {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, k.Name, errors.New("no"))
		}
		return c.Get(ctx, k, o, opts...)
	}}
	for name, c := range map[string]struct {
		cluster *unstructured.Unstructured
		others  []client.Object
		hub     interceptor.Funcs
		host    string
		reason  string
	}{
		"nothing is made from it":              {clusterWith("old.example.com", 6443), nil, interceptor.Funcs{}, "new.example.com", clusterv1.ReasonSurfaced},
		"its kubeconfig":                       {clusterWith("old.example.com", 6443), []client.Object{secret("my-cluster-kubeconfig")}, interceptor.Funcs{}, "old.example.com", clusterv1.ReasonEndpointConflict},
		"another's kubeconfig":                 {clusterWith("old.example.com", 6443), []client.Object{secret("other-kubeconfig")}, interceptor.Funcs{}, "new.example.com", clusterv1.ReasonSurfaced},
		"whether there is one can't be read":   {clusterWith("old.example.com", 6443), nil, denied, "old.example.com", clusterv1.ReasonEndpointConflict},
		"a Machine":                            {clusterWith("old.example.com", 6443), []client.Object{machineOf("my-cluster")}, interceptor.Funcs{}, "old.example.com", clusterv1.ReasonEndpointConflict},
		"another's Machine":                    {clusterWith("old.example.com", 6443), []client.Object{machineOf("other")}, interceptor.Funcs{}, "new.example.com", clusterv1.ReasonSurfaced},
		"accepted":                             {clusterWith("old.example.com", 6443, annotated(clusterv1.AcceptEndpointAnnotation, "new.example.com:6443")), []client.Object{machineOf("my-cluster")}, interceptor.Funcs{}, "new.example.com", clusterv1.ReasonSurfaced},
		"another is accepted":                  {clusterWith("old.example.com", 6443, annotated(clusterv1.AcceptEndpointAnnotation, "third.example.com:6443")), []client.Object{machineOf("my-cluster")}, interceptor.Funcs{}, "old.example.com", clusterv1.ReasonEndpointConflict},
		"what is accepted is no endpoint":      {clusterWith("old.example.com", 6443, annotated(clusterv1.AcceptEndpointAnnotation, "yes")), []client.Object{machineOf("my-cluster")}, interceptor.Funcs{}, "old.example.com", clusterv1.ReasonEndpointConflict},
		"the same":                             {clusterWith("NEW.example.com", 6443), []client.Object{machineOf("my-cluster")}, interceptor.Funcs{}, "NEW.example.com", clusterv1.ReasonSurfaced},
		"paused":                               {clusterWith("", 0, pausedSpec), nil, interceptor.Funcs{}, "", clusterv1.ReasonPending},
		"paused by annotation":                 {clusterWith("", 0, annotated(clusterv1.PausedAnnotation, "")), nil, interceptor.Funcs{}, "", clusterv1.ReasonPending},
		"on its way to another hub":            {clusterWith("", 0, annotated(clusterv1.MoveAnnotation, "")), nil, interceptor.Funcs{}, "", clusterv1.ReasonPending},
		"half an endpoint, of another":         {clusterWith("old.example.com", 0), nil, interceptor.Funcs{}, "old.example.com", clusterv1.ReasonEndpointIncomplete},
		"half an endpoint, which is completed": {clusterWith("new.example.com", 0), nil, interceptor.Funcs{}, "new.example.com", clusterv1.ReasonSurfaced},
	} {
		t.Run(name, func(t *testing.T) {
			e := endpointAt("mine", key.Name, "new.example.com")
			r, hub := stage(t, c.hub, append(c.others, c.cluster, e)...)
			result, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: key})
			if err != nil {
				t.Fatal(err)
			}
			// Nothing tells of a kubeconfig that is deleted, or of a right that is given.
			if (result.RequeueAfter > 0) != (c.reason == clusterv1.ReasonEndpointConflict) {
				t.Errorf("it is looked at again after %s", result.RequeueAfter)
			}
			if err := hub.Get(t.Context(), key, c.cluster); err != nil {
				t.Fatal(err)
			}
			if got := endpointOf(c.cluster); got.Host != c.host || got.Whole() != (c.reason == clusterv1.ReasonSurfaced || c.reason == clusterv1.ReasonEndpointConflict) {
				t.Errorf("the Cluster has %+v", got)
			}
			if err := hub.Get(t.Context(), client.ObjectKeyFromObject(e), e); err != nil {
				t.Fatal(err)
			}
			said := meta.FindStatusCondition(e.Status.Conditions, clusterv1.ConditionSurfaced)
			if said == nil || said.Reason != c.reason || said.ObservedGeneration != 1 || (said.Message == "") != (c.reason == clusterv1.ReasonSurfaced) {
				t.Errorf("it says %+v", said)
			}
		})
	}
}

// A Cluster that somebody changed since it was read isn't written, and nothing is said of it before it is read again.
func TestAChangedClusterIsNotWritten(t *testing.T) {
	changed := false
	r, hub := stage(t, interceptor.Funcs{Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
		if o.GetObjectKind().GroupVersionKind().Kind == "Cluster" && !changed {
			changed = true
			now := clusterWith("", 0)
			if err := c.Get(ctx, key, now); err != nil {
				return err
			}
			if err := unstructured.SetNestedMap(now.Object, map[string]any{"host": "theirs.example.com", "port": int64(6443)}, "spec", "controlPlaneEndpoint"); err != nil {
				return err
			}
			if err := c.Update(ctx, now); err != nil {
				return err
			}
		}
		return c.Patch(ctx, o, p, opts...)
	}}, clusterWith("", 0), endpointAt("mine", key.Name, "new.example.com"), machineOf(key.Name))
	if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: key}); !apierrors.IsConflict(err) {
		t.Fatalf("%v is no conflict", err)
	}
	if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: key}); err != nil {
		t.Fatal(err)
	}
	c := clusterWith("", 0)
	if err := hub.Get(t.Context(), key, c); err != nil || endpointOf(c).Host != "theirs.example.com" {
		t.Errorf("%+v, %v", endpointOf(c), err)
	}
}

// A Cluster has one generated ClusterEndpoint, whatever another's is called and however many there were.
func TestOneIsGenerated(t *testing.T) {
	twice := func(name string) *clusterv1.ClusterEndpoint {
		e := endpointAt(name, key.Name, "old.example.com")
		e.Annotations = map[string]string{clusterv1.GeneratedFromAnnotation: "Cluster", clusterv1.GeneratedForAnnotation: "cluster-uid"}
		return e
	}
	for name, c := range map[string]struct {
		objects []client.Object
		want    string
	}{
		"there is none":           {nil, "my-cluster=new.example.com"},
		"another's has its name":  {[]client.Object{endpointAt("my-cluster", "other", "other.example.com")}, "my-cluster-generated=new.example.com"},
		"there are two":           {[]client.Object{twice("a"), twice("b")}, "a=new.example.com"},
		"somebody made one":       {[]client.Object{twice("a"), endpointAt("mine", key.Name, "new.example.com")}, "mine=new.example.com"},
		"it is there, and is old": {[]client.Object{twice("my-cluster")}, "my-cluster=new.example.com"},
	} {
		t.Run(name, func(t *testing.T) {
			r, hub := stage(t, interceptor.Funcs{}, append(c.objects, clusterWith("new.example.com", 6443))...)
			for range 2 {
				if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: key}); err != nil {
					t.Fatal(err)
				}
			}
			all, err := r.endpoints(t.Context(), key)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for i := range all {
				got = append(got, all[i].Name+"="+all[i].Spec.Host)
				if !meta.IsStatusConditionTrue(all[i].Status.Conditions, clusterv1.ConditionSurfaced) {
					t.Errorf("%s: %+v", all[i].Name, all[i].Status.Conditions)
				}
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("%s, not %s", got, c.want)
			}
			if err := hub.Get(t.Context(), key, clusterWith("", 0)); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// A Cluster that was deleted and made again under its name gets nothing of what mirrored the one before; the same one that an
// applier wiped does. One that has the same endpoint, as one that was restored elsewhere has, keeps what is known of where it came from.
func TestWhatMirroredAnotherClusterIsNotRestored(t *testing.T) {
	infra := refersTo("infrastructureRef", infrastructure, "Metal3Cluster")
	pausedNow := func(c *unstructured.Unstructured) {
		c.SetAnnotations(map[string]string{clusterv1.PausedAnnotation: ""})
	}
	for name, c := range map[string]struct {
		cluster *unstructured.Unstructured
		noted   string // on the mirror
		want    string // the Cluster's host
		mirror  string // host, whose, source, owner, and what is said of it
	}{
		"the same Cluster":                  {clusterWith("", 0), "cluster-uid", "old.example.com", "old.example.com cluster-uid InfraCluster before LegacyEndpoint"},
		"another of its name":               {clusterWith("", 0), "uid-before", "", ""},
		"it isn't said which":               {clusterWith("", 0), "", "", ""},
		"another, which has an endpoint":    {clusterWith("new.example.com", 6443), "uid-before", "new.example.com", "new.example.com cluster-uid Cluster cluster-uid Surfaced"},
		"another, which has the same":       {clusterWith("old.example.com", 6443, infra), "uid-before", "old.example.com", "old.example.com cluster-uid InfraCluster its-uid LegacyEndpoint"},
		"it isn't said which, but the same": {clusterWith("old.example.com", 6443, infra), "", "old.example.com", "old.example.com cluster-uid InfraCluster its-uid LegacyEndpoint"},
		"another, its InfraCluster is gone": {clusterWith("old.example.com", 6443), "uid-before", "old.example.com", "old.example.com cluster-uid InfraCluster cluster-uid LegacyEndpoint"},
		"another, of which nothing's done":  {clusterWith("", 0, pausedNow), "uid-before", "", "old.example.com uid-before InfraCluster before Pending"},
	} {
		t.Run(name, func(t *testing.T) {
			mirror := endpointAt(key.Name, key.Name, "old.example.com")
			mirror.Annotations = map[string]string{clusterv1.GeneratedFromAnnotation: "InfraCluster"}
			mirror.OwnerReferences = []metav1.OwnerReference{{APIVersion: infrastructure + "/v1beta1", Kind: "Metal3Cluster", Name: "mine", UID: "before"}}
			if c.noted != "" {
				mirror.Annotations[clusterv1.GeneratedForAnnotation] = c.noted
			}
			r, hub := stage(t, interceptor.Funcs{}, c.cluster, mirror, metal("old.example.com"))
			for range 2 {
				if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: key}); err != nil {
					t.Fatal(err)
				}
			}
			if err := hub.Get(t.Context(), key, c.cluster); err != nil {
				t.Fatal(err)
			}
			if got := endpointOf(c.cluster).Host; got != c.want {
				t.Errorf("the Cluster has %q, not %q", got, c.want)
			}
			got := ""
			e := &clusterv1.ClusterEndpoint{}
			if err := hub.Get(t.Context(), key, e); client.IgnoreNotFound(err) != nil {
				t.Fatal(err)
			} else if err == nil {
				said := meta.FindStatusCondition(e.Status.Conditions, clusterv1.ConditionSurfaced)
				got = strings.Join([]string{
					e.Spec.Host, e.Annotations[clusterv1.GeneratedForAnnotation], e.Annotations[clusterv1.GeneratedFromAnnotation], string(e.OwnerReferences[0].UID), said.Reason,
				}, " ")
				if len(e.OwnerReferences) != 1 {
					t.Errorf("%+v own it", e.OwnerReferences)
				}
			}
			if got != c.mirror {
				t.Errorf("the mirror is %q, not %q", got, c.mirror)
			}
		})
	}
}

// At rest nothing is written.
func TestNothingIsWrittenAtRest(t *testing.T) {
	writes := 0
	count := interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			writes++
			return c.Patch(ctx, o, p, opts...)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			writes++
			return c.SubResource(sub).Patch(ctx, o, p, opts...)
		},
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			writes++
			return c.Create(ctx, o, opts...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			writes++
			return c.Delete(ctx, o, opts...)
		},
	}
	r, _ := stage(t, count, clusterWith("old.example.com", 6443), endpointAt("a", key.Name, "a.example.com"), endpointAt("b", key.Name, "b.example.com"))
	for i := range 3 {
		if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: key}); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			if writes != 2 {
				t.Errorf("%d writes, not a status each", writes)
			}
			writes = 0
		}
	}
	if writes != 0 {
		t.Errorf("%d writes at rest", writes)
	}
}
