package endpoint

import (
	"context"
	"errors"
	"slices"
	"testing"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// changed writes an object as a change leaves it.
func changed[T client.Object](t *testing.T, here client.Client, o T, of client.ObjectKey, change func(T)) {
	t.Helper()
	if err := here.Get(t.Context(), of, o); err != nil {
		t.Fatal(err)
	}
	change(o)
	if err := here.Update(t.Context(), o); err != nil {
		t.Fatal(err)
	}
}

// pause, unpause and wipe change a Cluster; wipe as an applier does that knows of no endpoint.
func pause(c *unstructured.Unstructured) {
	names(c)
	a := c.GetAnnotations()
	a[clusterv1.PausedAnnotation] = ""
	c.SetAnnotations(a)
}

func unpause(c *unstructured.Unstructured) { names(c) }

func wipe(c *unstructured.Unstructured) {
	unstructured.RemoveNestedField(c.Object, "spec", "controlPlaneEndpoint")
}

// unsaid takes the status of the generated ClusterEndpoint away.
func unsaid(t *testing.T, here client.Client) {
	t.Helper()
	e := endpointAt(key.Name, key.Name, "")
	if err := here.Get(t.Context(), key, e); err != nil {
		t.Fatal(err)
	}
	e.Status = clusterv1.ClusterEndpointStatus{}
	if err := here.Status().Update(t.Context(), e); err != nil {
		t.Fatal(err)
	}
}

// kubeconfig is the Secret that a control plane makes of its Cluster's endpoint.
func kubeconfig() client.Object {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name + "-kubeconfig"}}
}

// An endpoint that was generated and never reached the Cluster is nobody's yet: the Cluster gets what its LoadBalancer has by then.
// One that the Cluster had is restored, whatever the LoadBalancer has by then.
func TestWhatTheClusterHadIsRestoredAndNothingElse(t *testing.T) {
	front := client.ObjectKey{Namespace: key.Namespace, Name: frontName}
	for name, c := range map[string]struct {
		// refused: the Cluster's endpoint can't be written at first.
		refused bool
		// meanwhile happens before the LoadBalancer is granted another address.
		meanwhile func(t *testing.T, r *Reconciler, here client.Client)
		want      string
	}{
		"never written": {true, nil, "192.0.2.8"},
		"never written, and paused for a while": {true, func(t *testing.T, r *Reconciler, here client.Client) {
			changed(t, here, clusterWith("", 0), key, pause)
			rest(t, r)
			changed(t, here, clusterWith("", 0), key, unpause)
		}, "192.0.2.8"},
		"never written, with a Machine that waits for it": {true, func(t *testing.T, _ *Reconciler, here client.Client) {
			if err := here.Create(t.Context(), machineOf(key.Name)); err != nil {
				t.Fatal(err)
			}
		}, "192.0.2.8"},
		"never written, and not served for a while": {true, func(t *testing.T, r *Reconciler, here client.Client) {
			l := balancer(frontName)
			if err := here.Get(t.Context(), front, l); err != nil {
				t.Fatal(err)
			}
			l.Status = clusterv1.LoadBalancerStatus{}
			if err := here.Status().Update(t.Context(), l); err != nil {
				t.Fatal(err)
			}
			rest(t, r)
			wantShown(t, here, "Cluster -", frontName+" ControlPlane - Pending")
		}, "192.0.2.8"},
		"had": {false, nil, "192.0.2.7"},
		"had, and wiped while paused": {false, func(t *testing.T, r *Reconciler, here client.Client) {
			changed(t, here, clusterWith("", 0), key, pause)
			changed(t, here, clusterWith("", 0), key, wipe)
			rest(t, r)
			changed(t, here, clusterWith("", 0), key, unpause)
		}, "192.0.2.7"},
		"had, and moved, which takes no status along": {false, func(t *testing.T, _ *Reconciler, here client.Client) {
			unsaid(t, here)
		}, "192.0.2.7"},
		"had, and the manager died before it said so": {false, func(t *testing.T, _ *Reconciler, here client.Client) {
			unsaid(t, here)
			changed(t, here, balancer(frontName), front, func(l *clusterv1.LoadBalancer) { l.Spec.Endpoint = nil })
			if err := here.Create(t.Context(), kubeconfig()); err != nil {
				t.Fatal(err)
			}
		}, "192.0.2.7"},
	} {
		for where, hub := range map[string]Elsewhere{"the hub's": nil, "another hub's": &hubSays{}} {
			t.Run(name+", "+where, func(t *testing.T) {
				refuse := c.refused
				r, here := stage(t, interceptor.Funcs{Patch: func(ctx context.Context, w client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
					if refuse && o.GetObjectKind().GroupVersionKind().Kind == "Cluster" {
						return errors.New("refused")
					}
					return w.Patch(ctx, o, p, opts...)
				}}, clusterWith("", 0, names), balancer(frontName, served))
				r.Elsewhere = hub
				if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: key}); (err != nil) != c.refused {
					t.Fatal(err)
				}
				refuse = false
				if c.meanwhile != nil {
					c.meanwhile(t, r, here)
				}
				if !c.refused {
					changed(t, here, clusterWith("", 0), key, wipe)
				}
				l := balancer(frontName)
				if err := here.Get(t.Context(), front, l); err != nil {
					t.Fatal(err)
				}
				l.Status.Addresses = nil
				onAddress("192.0.2.8")(l)
				served(l)
				if err := here.Status().Update(t.Context(), l); err != nil {
					t.Fatal(err)
				}
				rest(t, r)
				if got := shows(t, here)[:2]; !slices.Equal(got, []string{"Cluster " + c.want + ":6443", "ClusterEndpoint " + c.want + ":6443 from LoadBalancer of LoadBalancer"}) {
					t.Errorf("%q, not %s", got, c.want)
				}
			})
		}
	}
}
