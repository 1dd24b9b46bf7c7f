package controller_test

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	controlplanev1 "fairlead.dev/fairlead/api/controlplane/v1beta1"
	infrav1 "fairlead.dev/fairlead/api/infrastructure/v1beta1"
	"fairlead.dev/fairlead/config/rbac"
	fksconfig "fairlead.dev/fairlead/examples/fks-provider/config"
	"fairlead.dev/fairlead/internal/app"
	"fairlead.dev/fairlead/internal/testkit"
	"fairlead.dev/fairlead/internal/testkit/kubetest"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// kubeconfigOf is the Secret with a Cluster's kubeconfig.
func (h *hub) kubeconfigOf(cluster string, kubeconfig []byte) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: h.name, Name: cluster + "-kubeconfig", Labels: map[string]string{clusterv1.ClusterNameLabel: cluster}},
		Type:       "cluster.x-k8s.io/secret", Data: map[string][]byte{"value": kubeconfig},
	}
}

// owned is as Cluster API leaves what a Cluster refers to.
func owned(name string, by *unstructured.Unstructured) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: by.GetNamespace(), Name: name, Labels: map[string]string{clusterv1.ClusterNameLabel: by.GetName()},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: by.GetAPIVersion(), Kind: by.GetKind(), Name: by.GetName(), UID: by.GetUID()}},
	}
}

// external creates a Cluster with an ExternalControlPlane.
func (h *hub) external(name string) (*unstructured.Unstructured, *controlplanev1.ExternalControlPlane) {
	h.t.Helper()
	c := h.newCluster(name, nil)
	if err := unstructured.SetNestedField(c.Object, "ExternalControlPlane", "spec", "controlPlaneRef", "kind"); err != nil {
		h.t.Fatal(err)
	}
	h.eventually("Cluster "+name+" to be created", func(ctx ctx) error { return h.api.Create(ctx, c) })
	x := &controlplanev1.ExternalControlPlane{
		ObjectMeta: owned(name, c),
		Spec:       controlplanev1.ExternalControlPlaneSpec{ControlPlaneEndpoint: &controlplanev1.APIEndpoint{Host: name + ".example.com", Port: 6443}},
	}
	h.create(x)
	return c, x
}

// is waits for a condition of an ExternalControlPlane's present generation, which Cluster API finds initialized or not.
func (h *hub) is(x *controlplanev1.ExternalControlPlane, want string, initialized bool) {
	h.t.Helper()
	kubetest.Eventually(h.t, 2*soon, fmt.Sprintf("ExternalControlPlane %s: %s", x.Name, want), func(ctx ctx) error {
		u := object("controlplane.cluster.x-k8s.io/v1beta1", "ExternalControlPlane", x.Namespace, x.Name, map[string]any{})
		if err := errors.Join(h.api.Get(ctx, client.ObjectKeyFromObject(x), x), h.api.Get(ctx, client.ObjectKeyFromObject(x), u)); err != nil {
			return err
		}
		for _, c := range x.Status.Conditions {
			if c.ObservedGeneration != x.Generation {
				return fmt.Errorf("%s speaks of generation %d, not %d", c.Type, c.ObservedGeneration, x.Generation)
			}
		}
		if got, _, err := unstructured.NestedBool(u.Object, "status", "initialization", "controlPlaneInitialized"); err != nil || got != initialized {
			return fmt.Errorf("initialized: %t, %v", got, err)
		}
		if is, _, err := unstructured.NestedBool(u.Object, "status", "externalManagedControlPlane"); err != nil || !is {
			return fmt.Errorf("managed elsewhere: %t, %v", is, err)
		}
		return condition(x.Status.Conditions, want)
	})
}

// Control planes that somebody else runs, one a real API server that is frozen, stopped, started and exchanged for another.
func TestExternalControlPlanes(t *testing.T) {
	h := newHub(t)
	h.name = "external"
	h.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: h.name}}, clusterCRD(t))
	outside := kubetest.Start(t, testkit.Options{Name: "outside"})
	h.manager(app.LeaderElection{})
	kubeconfig, err := os.ReadFile(outside.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	toHub, err := os.ReadFile(h.control.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}

	// Ten that take connections and say nothing: nobody else waits for them.
	frozen, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = frozen.Close() })
	to := strings.ReplaceAll(string(kubeconfig), outside.APIServerAddress().String(), frozen.Addr().String())
	var hanging []*controlplanev1.ExternalControlPlane
	for i := range 10 {
		c, x := h.external(fmt.Sprint("hangs-", i))
		h.create(h.kubeconfigOf(c.GetName(), []byte(to)))
		hanging = append(hanging, x)
	}

	c, x := h.external("mine")
	_, other := h.external("other")
	h.is(x, "Available=False/KubeconfigForbidden", false)
	if err := rbac.InstallClusterAPI(t.Context(), h.control.RESTConfig()); err != nil {
		t.Fatal(err)
	}
	h.is(x, "Available=False/KubeconfigMissing", false)
	secret := h.kubeconfigOf("mine", kubeconfig)
	h.create(secret)
	h.is(x, "Available=True", true)
	if !strings.HasPrefix(x.Status.Version, "v1.") || x.Status.ClusterUID == "" {
		t.Errorf("the status is %+v", x.Status)
	}
	h.is(hanging[9], "Available=False/Unreachable", false)

	// As Cluster API surfaces its endpoint then; what mirrors it is the control plane's.
	h.change(c, func(o client.Object) {
		at := map[string]any{"host": "mine.example.com", "port": int64(6443)}
		if err := unstructured.SetNestedMap(o.(*unstructured.Unstructured).Object, at, "spec", "controlPlaneEndpoint"); err != nil {
			t.Error(err)
		}
	})
	mirror := h.newEndpoint("mine", "mine", "", 0)
	h.surfaced(mirror, "True/Surfaced")
	if o := mirror.OwnerReferences; mirror.Spec.Host != "mine.example.com" || len(o) != 1 || o[0].UID != x.UID {
		t.Errorf("the generated ClusterEndpoint is %+v", mirror)
	}

	// Frozen, stopped and started: it is initialized all the while, and says what is so now.
	says := func(want string) {
		t.Helper()
		wait(h, x, want, func(x *controlplanev1.ExternalControlPlane) error {
			if c := meta.FindStatusCondition(x.Status.Conditions, controlplanev1.ConditionAvailable); !strings.Contains(c.Message, want) {
				return errors.New(c.Message)
			}
			return nil
		})
	}
	if err := outside.APIServer().Pause(); err != nil {
		t.Fatal(err)
	}
	h.is(x, "Available=False/Unreachable", true)
	says("doesn't answer")
	if err := outside.StopAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	says("refuses connections")
	if err := outside.StartAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.is(x, "Available=True", true)

	// Another cluster's kubeconfig, until somebody says that it is meant.
	first := x.Status.ClusterUID
	h.change(secret, func(o client.Object) { o.(*corev1.Secret).Data["value"] = toHub })
	h.is(x, "Available=False/OtherCluster", true)
	if x.Status.ClusterUID != first {
		t.Errorf("it is taken for %s", x.Status.ClusterUID)
	}
	system := &corev1.Namespace{}
	if err := h.api.Get(t.Context(), client.ObjectKey{Name: metav1.NamespaceSystem}, system); err != nil {
		t.Fatal(err)
	}
	h.change(x, func(o client.Object) { o.(*controlplanev1.ExternalControlPlane).Spec.ClusterUID = string(system.UID) })
	h.is(x, "Available=True", true)

	// A paused Cluster's is left alone; that of a Cluster which is deleted goes with it, and nobody holds it up.
	h.change(c, func(o client.Object) {
		if err := unstructured.SetNestedField(o.(*unstructured.Unstructured).Object, true, "spec", "paused"); err != nil {
			t.Error(err)
		}
	})
	h.is(x, "Paused=True", true)
	h.delete(secret)
	h.change(c, func(o client.Object) {
		unstructured.RemoveNestedField(o.(*unstructured.Unstructured).Object, "spec", "paused")
	})
	h.is(x, "Paused=False", true)
	h.is(x, "Available=False/KubeconfigMissing", true)
	h.is(other, "Available=False/KubeconfigMissing", false)
	h.delete(x)
	h.gone(x)

	h.unmanaged()
	h.examples()
	h.controlPlaneRights()
}

// unmanaged: infrastructure that nobody manages is provisioned when its Cluster has an endpoint, wherever that comes from.
func (h *hub) unmanaged() {
	h.t.Helper()
	c := h.newCluster("unmanaged", nil)
	h.create(c)
	u := &infrav1.UnmanagedCluster{ObjectMeta: owned("unmanaged", c)}
	h.create(u)
	wait(h, u, "to wait", func(u *infrav1.UnmanagedCluster) error {
		return condition(u.Status.Conditions, "Ready=False/WaitingForEndpoint")
	})
	h.create(h.newEndpoint("unmanaged", "unmanaged", "unmanaged.example.com", 6443))
	wait(h, u, "to be provisioned", func(u *infrav1.UnmanagedCluster) error {
		if u.Status.Initialization == nil || !u.Status.Initialization.Provisioned {
			return fmt.Errorf("initialization: %v", u.Status.Initialization)
		}
		return condition(u.Status.Conditions, "Ready=True")
	})
}

// examples are taken by the kinds of Cluster API, too, as they stand.
func (h *hub) examples() {
	h.t.Helper()
	h.create(clusterAPICRD(h.t, "clusterclasses"))
	if err := testkit.Create(h.t.Context(), h.control.RESTConfig(), fksconfig.Manifests); err != nil {
		h.t.Fatal(err)
	}
	for _, file := range []string{"external.yaml", "unmanaged.yaml"} {
		text, err := os.ReadFile("../../examples/cluster-api/" + file)
		if err != nil {
			h.t.Fatal(err)
		}
		for part := range strings.SplitSeq(string(text), "\n---\n") {
			u := &unstructured.Unstructured{}
			if err := yaml.Unmarshal([]byte(part), &u.Object); err != nil {
				h.t.Fatal(err)
			}
			h.eventually(file+": "+u.GetKind()+" to be taken", func(ctx ctx) error {
				return h.api.Create(ctx, u.DeepCopy(), client.DryRunAll, client.FieldValidation(metav1.FieldValidationStrict))
			})
		}
	}
}

// controlPlaneRights: the manager was denied no write, and used each right to write that its role for control planes gives.
func (h *hub) controlPlaneRights() {
	h.t.Helper()
	all, _, err := h.control.Writes(0)
	if err != nil {
		h.t.Fatal(err)
	}
	used := map[string]bool{}
	for _, w := range all {
		if strings.HasSuffix(w.User, ":fairlead-manager") {
			if w.StatusCode == http.StatusForbidden {
				h.t.Errorf("the manager may not %s %s %s", w.Verb, w.Resource, w.Name)
			}
			used[w.Verb+" "+w.Resource] = true
		}
	}
	role := &rbacv1.ClusterRole{}
	if err := h.api.Get(h.t.Context(), client.ObjectKey{Name: "fairlead-manager-control-planes"}, role); err != nil {
		h.t.Fatal(err)
	}
	for _, rule := range role.Rules {
		for _, verb := range rule.Verbs {
			if what := verb + " " + rule.Resources[0]; verb == "patch" && !used[what] {
				h.t.Errorf("the manager may %s, and never does", what)
			}
		}
	}
}
