package externalcontrolplane

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	controlplanev1 "fairlead.dev/fairlead/api/controlplane/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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

// stage is a hub that serves Clusters, with a reconciler and one ExternalControlPlane of a Cluster.
func stage(t *testing.T, f interceptor.Funcs, objects ...client.Object) (*Reconciler, client.Client) {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(controlplanev1.AddToScheme(scheme), corev1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	of := schema.GroupVersionKind{Group: clusterv1.GroupVersion.Group, Version: "v1beta2", Kind: "Cluster"}
	scheme.AddKnownTypeWithName(of, &unstructured.Unstructured{})
	kinds := meta.NewDefaultRESTMapper(nil)
	kinds.Add(of, meta.RESTScopeNamespace)
	hub := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&controlplanev1.ExternalControlPlane{}).WithObjects(objects...).WithInterceptorFuncs(f).Build()
	r := New(Options{Logger: slog.New(slog.DiscardHandler), Client: hub, Reader: hub, Kinds: kinds})
	t.Cleanup(r.rounds.stop)
	return r, hub
}

func cluster(change ...func(*unstructured.Unstructured)) *unstructured.Unstructured {
	c := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{}}}
	c.SetAPIVersion("cluster.x-k8s.io/v1beta2")
	c.SetKind("Cluster")
	c.SetNamespace("ns")
	c.SetName("mine")
	c.SetUID("cluster-uid")
	for _, f := range change {
		f(c)
	}
	return c
}

func external(change ...func(*controlplanev1.ExternalControlPlane)) *controlplanev1.ExternalControlPlane {
	o := &controlplanev1.ExternalControlPlane{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "of-mine", UID: "uid", Generation: 1,
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "cluster.x-k8s.io/v1beta2", Kind: "Cluster", Name: "mine", UID: "cluster-uid"}},
	}}
	for _, f := range change {
		f(o)
	}
	return o
}

// Whose it is, and when it is left alone.
func TestWhenItIsAsked(t *testing.T) {
	paused := func(c *unstructured.Unstructured) { c.Object["spec"] = map[string]any{"paused": true} }
	moving := func(c *unstructured.Unstructured) { c.SetAnnotations(map[string]string{clusterv1.MoveAnnotation: ""}) }
	annotated := func(o *controlplanev1.ExternalControlPlane) {
		o.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
	}
	for name, c := range map[string]struct {
		objects []client.Object
		asked   bool
		says    string // Available, Paused
	}{
		"it is a Cluster's":         {[]client.Object{cluster(), external()}, true, "- False"},
		"it is nobody's":            {[]client.Object{cluster(), external(func(o *controlplanev1.ExternalControlPlane) { o.OwnerReferences = nil })}, false, "WaitingForCluster False"},
		"its Cluster is gone":       {[]client.Object{external()}, false, "WaitingForCluster False"},
		"another has its name":      {[]client.Object{cluster(func(c *unstructured.Unstructured) { c.SetUID("another") }), external()}, false, "WaitingForCluster False"},
		"its Cluster is paused":     {[]client.Object{cluster(paused), external()}, false, "- True"},
		"it is paused":              {[]client.Object{cluster(), external(annotated)}, false, "- True"},
		"its Cluster moves":         {[]client.Object{cluster(moving), external()}, false, "- -"},
		"its Cluster moves, paused": {[]client.Object{cluster(moving, paused), external()}, false, "- -"},
	} {
		t.Run(name, func(t *testing.T) {
			r, hub := stage(t, interceptor.Funcs{}, c.objects...)
			key := client.ObjectKeyFromObject(external())
			if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: key}); err != nil {
				t.Fatal(err)
			}
			r.rounds.mu.Lock()
			asked := r.rounds.all[key] != nil
			r.rounds.mu.Unlock()
			if asked != c.asked {
				t.Errorf("asked: %t", asked)
			}
			o := external()
			if err := hub.Get(t.Context(), key, o); err != nil {
				t.Fatal(err)
			}
			words := []string{"-", "-"}
			if got := reason(o); got != "" {
				words[0] = got
			}
			if p := meta.FindStatusCondition(o.Status.Conditions, controlplanev1.ConditionPaused); p != nil {
				words[1] = string(p.Status)
			}
			if got := strings.Join(words, " "); got != c.says {
				t.Errorf("it says %s, not %s", got, c.says)
			}
		})
	}
}

// What is found in the Secret, before anybody is asked.
func TestSecrets(t *testing.T) {
	secret := func(label string, data map[string][]byte) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "mine-kubeconfig", Labels: map[string]string{clusterv1.ClusterNameLabel: label}}, Data: data}
	}
	fails := func(err error) interceptor.Funcs {
		return interceptor.Funcs{Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return err
		}}
	}
	for name, c := range map[string]struct {
		hub    interceptor.Funcs
		secret *corev1.Secret
		reason string // "": nothing is found
		says   string
	}{
		"there is none":      {interceptor.Funcs{}, secret("mine", nil), controlplanev1.ReasonKubeconfigMissing, "no Secret mine-kubeconfig"},
		"it may not be read": {fails(apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "mine-kubeconfig", nil)), nil, controlplanev1.ReasonKubeconfigForbidden, "config/rbac/cluster-api"},
		"the hub is away":    {fails(errors.New("away")), nil, "", ""},
		"another Cluster's":  {interceptor.Funcs{}, secret("other", map[string][]byte{"value": kubeconfig(t, nil)}), controlplanev1.ReasonKubeconfigInvalid, `cluster.x-k8s.io/cluster-name=mine, which is "other"`},
		"without a label":    {interceptor.Funcs{}, secret("", map[string][]byte{"value": kubeconfig(t, nil)}), controlplanev1.ReasonKubeconfigInvalid, `which is ""`},
		"another key":        {interceptor.Funcs{}, secret("mine", map[string][]byte{"kubeconfig": kubeconfig(t, nil)}), controlplanev1.ReasonKubeconfigInvalid, "key value: "},
		"garbage":            {interceptor.Funcs{}, secret("mine", map[string][]byte{"value": []byte("users: " + hidden)}), controlplanev1.ReasonKubeconfigInvalid, "key value: it doesn't parse"},
	} {
		t.Run(name, func(t *testing.T) {
			var objects []client.Object
			if c.secret != nil && c.reason != controlplanev1.ReasonKubeconfigMissing {
				objects = append(objects, c.secret)
			}
			r, _ := stage(t, c.hub, objects...)
			switch got := r.probe(t.Context(), "ns", "mine"); {
			case got == nil && c.reason != "":
				t.Error("nothing is found")
			case got != nil && (got.Reason != c.reason || !strings.Contains(got.Message, c.says) || strings.Contains(got.Message, hidden)):
				t.Errorf("found %+v", *got)
			}
		})
	}
}

// Which cluster is meant is the first that was reached, or what the spec says; and once initialized it stays so.
func TestJudge(t *testing.T) {
	const a, b = "uid-a", "uid-b"
	reached := func(uid string) Found {
		return Found{Reason: controlplanev1.ReasonAvailable, Version: "v1.37.0", ClusterUID: uid}
	}
	down := found(controlplanev1.ReasonUnreachable, "It is away.")
	for name, c := range map[string]struct {
		spec  string
		found []Found
		says  string
		uid   string
		ever  bool
	}{
		"never reached":              {"", []Found{down}, controlplanev1.ReasonUnreachable, "", false},
		"reached":                    {"", []Found{reached(a)}, controlplanev1.ReasonAvailable, a, true},
		"away, once reached":         {"", []Found{reached(a), down}, controlplanev1.ReasonUnreachable, a, true},
		"another one":                {"", []Found{reached(a), reached(b)}, controlplanev1.ReasonOtherCluster, a, true},
		"another one and back":       {"", []Found{reached(a), reached(b), reached(a)}, controlplanev1.ReasonAvailable, a, true},
		"not the one that was meant": {b, []Found{reached(a)}, controlplanev1.ReasonOtherCluster, "", false},
		"the other one is meant":     {b, []Found{reached(b)}, controlplanev1.ReasonAvailable, b, true},
	} {
		t.Run(name, func(t *testing.T) {
			o := external(func(o *controlplanev1.ExternalControlPlane) { o.Spec.ClusterUID = c.spec })
			for _, f := range c.found {
				judge(o, f)
			}
			ever := o.Status.Initialization != nil && o.Status.Initialization.ControlPlaneInitialized
			if reason(o) != c.says || o.Status.ClusterUID != c.uid || ever != c.ever || (o.Status.Version != "") != c.ever {
				t.Errorf("the status is %+v", o.Status)
			}
			if is := meta.IsStatusConditionTrue(o.Status.Conditions, controlplanev1.ConditionAvailable); is != (c.says == controlplanev1.ReasonAvailable) {
				t.Errorf("available: %t", is)
			}
		})
	}
	// Somebody says that the other one is meant, once it was refused.
	o := external()
	judge(o, reached(a))
	judge(o, reached(b))
	o.Spec.ClusterUID = b
	if judge(o, reached(b)); reason(o) != controlplanev1.ReasonAvailable || o.Status.ClusterUID != b {
		t.Errorf("the status is %+v", o.Status)
	}
}

// At rest nothing is written, however often it is looked at.
func TestNothingIsWrittenAtRest(t *testing.T) {
	writes := 0
	r, _ := stage(t, interceptor.Funcs{SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
		writes++
		return c.SubResource(sub).Patch(ctx, o, p, opts...)
	}}, cluster(), external())
	for range 5 {
		if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(external())}); err != nil {
			t.Fatal(err)
		}
		r.rounds.running.Wait()
	}
	if writes != 2 { // that it is external and not paused; then what is found
		t.Errorf("%d writes", writes)
	}
}
