package capi_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	controlplanev1 "fairlead.dev/fairlead/api/controlplane/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/testkit"
	"fairlead.dev/fairlead/internal/testkit/kubetest"
	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	capiv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
)

const (
	firstRelease, nextRelease = "v0.1.0", "v0.1.1"
	image                     = "registry.example/fairlead:"
	// clusters is the namespace that is moved.
	clusters = "clusters"
)

// Cluster API's own command installs Fairlead, upgrades it, moves what it serves to another management cluster, and takes it away. Beside it
// are the kinds of Cluster API's core, without its programs, and of cert-manager those two that the command tries at each init.
func TestClusterctl(t *testing.T) {
	c := newClusterctl(t)
	from, to := management(t, "from"), management(t, "to")

	_, err := c.run(t, "init", "--kubeconfig="+from.Kubeconfig(), "--core=cluster-api", "--bootstrap=-", "--control-plane=-", "--addon=fairlead:"+firstRelease)
	if err == nil || !strings.Contains(err.Error(), "FAIRLEAD_IMAGE") {
		t.Fatalf("without an image: %v", err)
	}
	c.image = image + firstRelease
	c.init(t, from, firstRelease)
	policy := from.uid(policyOfProxies())
	if plan := c.must(t, "upgrade", "plan", "--kubeconfig="+from.Kubeconfig()); !strings.Contains(plan, nextRelease) {
		t.Errorf("the plan has no %s:\n%s", nextRelease, plan)
	}
	c.image = image + nextRelease
	c.must(t, "upgrade", "apply", "--kubeconfig="+from.Kubeconfig(), "--addon=fairlead:"+nextRelease)
	from.isInstalled(c.release(nextRelease), c.image)
	c.init(t, to, nextRelease)
	if uid := from.uid(policyOfProxies()); uid != policy {
		t.Error("the policy that holds proxies to their names was another one in between")
	}

	manager := from.startManager(9410)
	to.startManager(9411)
	moved := from.movable()
	to.state = from.state // of the proxy, which follows
	carried := from.carry(moved.cluster(), to)
	c.must(t, "move", "--dry-run", "--namespace="+clusters, "--kubeconfig="+from.Kubeconfig(), "--to-kubeconfig="+to.Kubeconfig())
	if o := moved.cluster(); from.api.Get(t.Context(), client.ObjectKeyFromObject(o), o) != nil || ptr.Deref(o.Spec.Paused, false) {
		t.Errorf("a dry run changed the Cluster: %+v", o.Spec)
	}
	c.must(t, "move", "--namespace="+clusters, "--kubeconfig="+from.Kubeconfig(), "--to-kubeconfig="+to.Kubeconfig())
	moved.are(from, to)
	carried.are(from, to)

	if _, err := c.run(t, "delete", "--kubeconfig="+to.Kubeconfig(), "--addon=fairlead", "--include-crd"); err == nil || !strings.Contains(err.Error(), "existing objects") {
		t.Errorf("kinds are taken away that are used: %v", err)
	}
	if err := manager.Kill(); err != nil { // as the kubelet would
		t.Fatal(err)
	}
	c.must(t, "delete", "--kubeconfig="+from.Kubeconfig(), "--addon=fairlead")
	from.isGone()
	if uid := from.uid(policyOfProxies()); uid != policy {
		t.Error("the policy that holds proxies to their names went with the manager")
	}
}

// clusterctl is Cluster API's command, with a repository on disk.
type clusterctl struct {
	path, config, home, repository string
	// image of the manager; empty: nobody says one.
	image string
}

func newClusterctl(t *testing.T) *clusterctl {
	t.Helper()
	built, dir := filepath.Join(root(t), "bin", "clusterctl"), t.TempDir()
	c := &clusterctl{path: filepath.Join(built, "clusterctl"), config: filepath.Join(dir, "clusterctl.yaml"), home: dir, repository: filepath.Join(dir, "repository")}
	if _, err := os.Stat(c.path); err != nil {
		t.Fatalf("clusterctl is not built; run `make test-capi` (%v)", err)
	}
	components := filepath.Join(dir, "components")
	command(t, "go", "build", "-o", components, "./hack/components")
	for _, version := range []string{firstRelease, nextRelease} {
		command(t, components, "-version="+version, "-out="+c.repository)
	}

	kinds, err := filepath.Glob(filepath.Join(built, "crd", "*.yaml"))
	if err != nil || len(kinds) == 0 {
		t.Fatalf("Cluster API's kinds are missing; run `make test-capi` (%v)", err)
	}
	core := []string{"apiVersion: v1\nkind: Namespace\nmetadata: {name: capi-system}\n"}
	for _, file := range kinds {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		core = append(core, string(b))
	}
	dir = filepath.Join(c.repository, "cluster-api", "v1.14.2")
	config := fmt.Sprintf(`providers:
- {name: cluster-api, type: CoreProvider, url: "file://%s/core-components.yaml"}
- {name: fairlead, type: AddonProvider, url: "file://%s/addon-fairlead/%s/addon-components.yaml"}
`, dir, c.repository, nextRelease)
	const metadata = `apiVersion: clusterctl.cluster.x-k8s.io/v1alpha3
kind: Metadata
releaseSeries: [{major: 1, minor: 14, contract: v1beta2}]
`
	err = errors.Join(os.MkdirAll(dir, 0o755),
		os.WriteFile(filepath.Join(dir, "core-components.yaml"), []byte(strings.Join(core, "\n---\n")), 0o600),
		os.WriteFile(filepath.Join(dir, "metadata.yaml"), []byte(metadata), 0o600),
		os.WriteFile(c.config, []byte(config), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// init installs a release, and what is applied once for proxies.
func (c *clusterctl) init(t *testing.T, h *hub, release string) {
	t.Helper()
	c.must(t, "init", "--kubeconfig="+h.Kubeconfig(), "--core=cluster-api", "--bootstrap=-", "--control-plane=-", "--addon=fairlead:"+release)
	h.isInstalled(c.release(release), c.image)
	for _, o := range documents(h, filepath.Join(c.release(release), "proxies.yaml")) {
		if group := (&unstructured.Unstructured{Object: o}).GroupVersionKind().Group; group != "flowcontrol.apiserver.k8s.io" { // which is switched off here
			h.create(&unstructured.Unstructured{Object: o})
		}
	}
}

// command runs a program in the root of the repository.
func command(t *testing.T, name string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = root(t)
	if b, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, b)
	}
}

// release is the folder of a version.
func (c *clusterctl) release(version string) string {
	return filepath.Join(c.repository, "addon-fairlead", version)
}

func (c *clusterctl) run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.path, append(args, "--config="+c.config)...)
	cmd.Env = append(os.Environ(), "HOME="+c.home, "XDG_CONFIG_HOME="+c.home, "CLUSTERCTL_DISABLE_VERSIONCHECK=true")
	if c.image != "" {
		cmd.Env = append(cmd.Env, "FAIRLEAD_IMAGE="+c.image)
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("clusterctl %s: %w\n%s", args, err, out)
	}
	return string(out), err
}

func (c *clusterctl) must(t *testing.T, args ...string) string {
	t.Helper()
	out, err := c.run(t, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// management is an API server that has nothing but the two kinds of cert-manager.
func management(t *testing.T, name string) *hub {
	t.Helper()
	ctrllog.SetLogger(logr.Discard()) // else controller-runtime complains, with a stack, that nobody did
	h := startHub(t, name, t.TempDir())
	for _, kind := range []string{"Issuer", "Certificate"} {
		plural := strings.ToLower(kind) + "s"
		h.create(&unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": plural + ".cert-manager.io"},
			"spec": map[string]any{
				"group": "cert-manager.io", "scope": "Namespaced", "names": map[string]any{"kind": kind, "plural": plural},
				"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true, "schema": map[string]any{
					"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true},
				}}},
			},
		}})
	}
	for _, kind := range []string{"Issuer", "Certificate"} { // the command looks for cert-manager elsewhere when it finds one missing
		kubetest.Eventually(t, soon, kind+" to be served", func(context.Context) error {
			_, err := h.api.RESTMapper().RESTMapping(schema.GroupKind{Group: "cert-manager.io", Kind: kind}, "v1")
			return err
		})
	}
	return h
}

func policyOfProxies() client.Object {
	o := &unstructured.Unstructured{}
	o.SetAPIVersion("admissionregistration.k8s.io/v1")
	o.SetKind("ValidatingAdmissionPolicy")
	o.SetName("fairlead-proxy")
	return o
}

func (h *hub) uid(o client.Object) string {
	h.t.Helper()
	if err := h.api.Get(h.t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
		h.t.Fatal(err)
	}
	return string(o.GetUID())
}

// isInstalled holds the hub to a release: each object is there as the file says it.
func (h *hub) isInstalled(release, image string) {
	h.t.Helper()
	all := documents(h, filepath.Join(release, "addon-components.yaml"))
	if len(all) < 20 {
		h.t.Fatalf("%s has %d objects", release, len(all))
	}
	for _, want := range all {
		got := &unstructured.Unstructured{}
		w := &unstructured.Unstructured{Object: want}
		got.SetGroupVersionKind(w.GroupVersionKind())
		if err := h.api.Get(h.t.Context(), client.ObjectKeyFromObject(w), got); err != nil {
			h.t.Errorf("%s %s: %v", w.GetKind(), w.GetName(), err)
		} else if err := covers(got.Object, want, w.GetKind()+" "+w.GetName(), image); err != nil {
			h.t.Error(err)
		}
	}
	provider := &unstructured.Unstructured{}
	provider.SetAPIVersion("clusterctl.cluster.x-k8s.io/v1alpha3")
	provider.SetKind("Provider")
	if err := h.api.Get(h.t.Context(), client.ObjectKey{Namespace: v1alpha1.SystemNamespace, Name: "addon-fairlead"}, provider); err != nil {
		h.t.Error(err)
	} else if provider.Object["version"] != filepath.Base(release) {
		h.t.Errorf("the inventory says version %v", provider.Object["version"])
	}
}

// covers says what of want isn't in got, at a path. What an API server adds is no difference.
func covers(got, want any, at, image string) error {
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			return fmt.Errorf("%s is %v, not %v", at, got, want)
		}
		for k, v := range w {
			if err := covers(g[k], v, at+"."+k, image); err != nil {
				return err
			}
		}
		return nil
	case []any:
		g, ok := got.([]any)
		if !ok || len(g) != len(w) {
			return fmt.Errorf("%s is %v, not %v", at, got, want)
		}
		for i, v := range w {
			if err := covers(g[i], v, fmt.Sprintf("%s[%d]", at, i), image); err != nil {
				return err
			}
		}
		return nil
	case string:
		if w == "${FAIRLEAD_IMAGE}" {
			want = image
		}
	case float64: // as all numbers of a file
		if g, ok := got.(int64); ok {
			got = float64(g)
		}
	}
	if !reflect.DeepEqual(got, want) {
		return fmt.Errorf("%s is %v, not %v", at, got, want)
	}
	return nil
}

// isGone holds the hub to having no manager any more, and all kinds still.
func (h *hub) isGone() {
	h.t.Helper()
	for kind, o := range map[string]client.Object{
		"Deployment":     &unstructured.Unstructured{Object: map[string]any{"apiVersion": "apps/v1", "kind": "Deployment"}},
		"ServiceAccount": &corev1.ServiceAccount{},
	} {
		kubetest.Eventually(h.t, soon, kind+" to go", func(ctx context.Context) error {
			if err := h.api.Get(ctx, client.ObjectKey{Namespace: v1alpha1.SystemNamespace, Name: "fairlead-manager"}, o); !apierrors.IsNotFound(err) {
				return fmt.Errorf("it is there (%w)", err)
			}
			return nil
		})
	}
	if err := h.api.List(h.t.Context(), &clusterv1.LoadBalancerList{}); err != nil {
		h.t.Errorf("LoadBalancers are served no more: %v", err)
	}
}

// startManager starts our manager with the rights that clusterctl installed.
func (h *hub) startManager(port int) *testkit.Process {
	h.t.Helper()
	return kubetest.StartProcess(h.t, testkit.Command{Name: "manager", Path: build(h.t, "cmd/fairlead"), Args: []string{"manager",
		"--kubeconfig=" + h.account(v1alpha1.SystemNamespace, "fairlead-manager"), fmt.Sprintf("--metrics-address=127.0.0.1:%d", port)}})
}

// movables are a Cluster and what of ours goes with it.
type movables struct {
	t  testing.TB
	lb clusterv1.LoadBalancerSpec
	ep clusterv1.ClusterEndpointSpec
}

func (m *movables) cluster() *capiv1.Cluster {
	return &capiv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: clusters, Name: "my-cluster"}}
}

// movable makes a Cluster with a control plane that somebody else runs, a LoadBalancer and a ClusterEndpoint that nobody owns.
func (h *hub) movable() *movables {
	h.t.Helper()
	m := &movables{t: h.t}
	named := m.cluster().ObjectMeta
	cluster := m.cluster()
	cluster.Spec.ControlPlaneRef = capiv1.ContractVersionedObjectReference{APIGroup: controlplanev1.GroupVersion.Group, Kind: "ExternalControlPlane", Name: named.Name}
	h.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: clusters}}, cluster)
	// What Cluster API's core would say: nothing of it may be on its way when a Cluster moves.
	change(h, cluster, h.api.Status().Patch, func() {
		cluster.Status.Initialization = capiv1.ClusterInitializationStatus{InfrastructureProvisioned: ptr.To(true), ControlPlaneInitialized: ptr.To(true)}
		meta.SetStatusCondition(&cluster.Status.Conditions, metav1.Condition{Type: capiv1.ClusterControlPlaneInitializedCondition, Status: metav1.ConditionTrue, Reason: capiv1.ClusterControlPlaneInitializedReason})
	})
	owner := metav1.OwnerReference{APIVersion: capiv1.GroupVersion.String(), Kind: "Cluster", Name: cluster.Name, UID: cluster.UID, Controller: ptr.To(true)}
	lb := &clusterv1.LoadBalancer{ObjectMeta: metav1.ObjectMeta{Namespace: clusters, Name: "my-cluster-api"}, Spec: clusterv1.LoadBalancerSpec{
		ClassName: "edge", ClusterName: cluster.Name, Ports: []clusterv1.Port{{Port: 6443}},
	}}
	ep := &clusterv1.ClusterEndpoint{ObjectMeta: named, Spec: clusterv1.ClusterEndpointSpec{Cluster: cluster.Name, Host: "api.example.com", Port: 6443, Type: clusterv1.ClusterEndpointExternalControlPlane}}
	h.create(&controlplanev1.ExternalControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: clusters, Name: cluster.Name, OwnerReferences: []metav1.OwnerReference{owner}}}, lb, ep)
	wait(h.t, h.api, ep, soon, "Surfaced", func(e *clusterv1.ClusterEndpoint) error { return isTrue(e.Status.Conditions, "Surfaced") })
	wait(h.t, h.api, lb, soon, "seen by the manager", func(l *clusterv1.LoadBalancer) error {
		if len(l.Status.Conditions) == 0 {
			return errors.New("it has no condition yet")
		}
		return nil
	})
	m.lb, m.ep = lb.Spec, ep.Spec
	return m
}

// change writes what f changes of an object that others write too.
func change[T client.Object](h *hub, o T, patch func(context.Context, client.Object, client.Patch, ...client.SubResourcePatchOption) error, f func()) {
	h.t.Helper()
	before := o.DeepCopyObject().(client.Object)
	f()
	if err := patch(h.t.Context(), o, client.MergeFrom(before)); err != nil {
		h.t.Fatal(err)
	}
}

// are holds both hubs to the move: all is in one as it was in the other, which has nothing left of it.
func (m *movables) are(from, to *hub) {
	m.t.Helper()
	cluster := m.cluster()
	wait(m.t, to.api, cluster, soon, "to go on", func(c *capiv1.Cluster) error {
		if ptr.Deref(c.Spec.Paused, false) || c.Spec.ControlPlaneEndpoint.Host != m.ep.Host {
			return fmt.Errorf("it is %+v", c.Spec)
		}
		return nil
	})
	lb := &clusterv1.LoadBalancer{ObjectMeta: metav1.ObjectMeta{Namespace: clusters, Name: "my-cluster-api"}}
	ep := &clusterv1.ClusterEndpoint{ObjectMeta: m.cluster().ObjectMeta}
	xcp := &controlplanev1.ExternalControlPlane{ObjectMeta: m.cluster().ObjectMeta}
	wait(m.t, to.api, ep, soon, "Surfaced", func(e *clusterv1.ClusterEndpoint) error { return isTrue(e.Status.Conditions, "Surfaced") })
	wait(m.t, to.api, lb, soon, "seen by the manager", func(l *clusterv1.LoadBalancer) error {
		if len(l.Status.Conditions) == 0 {
			return errors.New("it has no condition yet")
		}
		return nil
	})
	if !reflect.DeepEqual(lb.Spec, m.lb) || !reflect.DeepEqual(ep.Spec, m.ep) {
		m.t.Errorf("there they are\n%+v\n%+v\nand were\n%+v\n%+v", lb.Spec, ep.Spec, m.lb, m.ep)
	}
	wait(m.t, to.api, xcp, soon, "the Cluster's", func(x *controlplanev1.ExternalControlPlane) error {
		if len(x.OwnerReferences) != 1 || x.OwnerReferences[0].UID != cluster.UID {
			return fmt.Errorf("its owners are %v", x.OwnerReferences)
		}
		return nil
	})
	for _, o := range []client.Object{m.cluster(), lb, ep, xcp} {
		kubetest.Eventually(m.t, soon, nameOf(o)+" to be gone", func(ctx context.Context) error {
			if err := from.api.Get(ctx, client.ObjectKeyFromObject(o), o); !apierrors.IsNotFound(err) {
				return fmt.Errorf("it is there (%w)", err)
			}
			return nil
		})
	}
}
