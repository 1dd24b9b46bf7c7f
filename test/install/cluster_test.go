package install_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/app"
	"fairlead.dev/fairlead/internal/testkit"
	"fairlead.dev/fairlead/internal/testkit/kubetest"
	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/yaml"
)

// soon bounds waits; it is never a claim.
const soon = 60 * time.Second

// cluster is a control plane that holds Pods to their namespaces' rules, and a client that may do everything.
type cluster struct {
	*testkit.ControlPlane
	api client.Client
}

func start(t *testing.T, name string) *cluster {
	t.Helper()
	ctrllog.SetLogger(logr.Discard()) // else controller-runtime complains, with a stack, that nobody did
	c := &cluster{ControlPlane: kubetest.Start(t, testkit.Options{Name: name, PodSecurity: true, PriorityAndFairness: true})}
	scheme, err := app.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	if c.api, err = client.New(c.RESTConfig(), client.Options{Scheme: scheme}); err != nil {
		t.Fatal(err)
	}
	return c
}

// apply applies objects in their order as `kubectl apply --server-side` does, and once more without writing them: a field that
// isn't known, or that the API server changes, is an error.
func (c *cluster) apply(t *testing.T, objects []*unstructured.Unstructured) {
	t.Helper()
	for _, o := range objects {
		what := fmt.Sprintf("%s %s in %s", o.GetKind(), o.GetName(), c.Name())
		kubetest.Eventually(t, soon, "applying "+what, func(ctx context.Context) error {
			err := c.api.Apply(ctx, client.ApplyConfigurationFromUnstructured(o.DeepCopy()), client.FieldOwner("kubectl"))
			if apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) {
				t.Fatalf("%s: %v", what, err)
			}
			return err // a kind whose definition was applied just now isn't served yet
		})
	}
	for _, o := range objects {
		before := c.get(t, o)
		again := client.ApplyConfigurationFromUnstructured(o.DeepCopy())
		if err := c.api.Apply(t.Context(), again, client.FieldOwner("kubectl"), client.DryRunAll); err != nil {
			t.Errorf("applying %s %s to %s again: %v", o.GetKind(), o.GetName(), c.Name(), err)
		}
		if after := c.get(t, o); after.GetGeneration() != before.GetGeneration() {
			t.Errorf("%s %s changes when it is applied again", o.GetKind(), o.GetName())
		}
	}
}

func (c *cluster) get(t *testing.T, o *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(o.GroupVersionKind())
	if err := c.api.Get(t.Context(), client.ObjectKeyFromObject(o), u); err != nil {
		t.Fatal(err)
	}
	return u
}

// create creates what a text says.
func (c *cluster) create(t *testing.T, text string) {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
		t.Fatal(err)
	}
	if err := c.api.Create(t.Context(), u); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

// account makes a ServiceAccount, and returns its kubeconfig; one that is there already is taken as it is.
func (c *cluster) account(t *testing.T, namespace, name string) string {
	t.Helper()
	for _, o := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}},
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}},
	} {
		if err := c.api.Create(t.Context(), o); client.IgnoreAlreadyExists(err) != nil {
			t.Fatal(err)
		}
	}
	path, err := c.ServiceAccountKubeconfig(t.Context(), namespace, name)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// template is the Pod that a Deployment or DaemonSet of these objects makes.
func template(t *testing.T, objects []*unstructured.Unstructured, kind string) (types.NamespacedName, corev1.PodTemplateSpec) {
	t.Helper()
	for _, o := range objects {
		if o.GetKind() != kind {
			continue
		}
		w := appsv1.Deployment{} // a DaemonSet's template is at the same place
		spec, _, err := unstructured.NestedMap(o.Object, "spec", "template")
		if err == nil {
			err = runtime.DefaultUnstructuredConverter.FromUnstructured(spec, &w.Spec.Template)
		}
		if err != nil {
			t.Fatal(err)
		}
		return client.ObjectKeyFromObject(o), w.Spec.Template
	}
	t.Fatalf("no %s", kind)
	return types.NamespacedName{}, corev1.PodTemplateSpec{}
}

// admits checks that the namespace takes such Pods. Only its rules are asked: nothing is started.
func (c *cluster) admits(t *testing.T, namespace string, p corev1.PodTemplateSpec) {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: p.ObjectMeta, Spec: p.Spec}
	pod.Namespace, pod.Name = namespace, "one"
	kubetest.Eventually(t, soon, "namespace "+namespace+" to let in the Pod", func(ctx context.Context) error {
		err := c.api.Create(ctx, pod.DeepCopy(), client.DryRunAll)
		if apierrors.IsForbidden(err) {
			return err // for as long as the namespace's account is not made; else this says what isn't allowed
		}
		if err != nil {
			t.Fatal(err)
		}
		return nil
	})
}
