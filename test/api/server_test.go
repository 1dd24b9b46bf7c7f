package api_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/config/crd"
	"fairlead.dev/fairlead/internal/app"
	"fairlead.dev/fairlead/internal/testkit"
	"fairlead.dev/fairlead/internal/testkit/kubetest"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// hub is an API server with our kinds.
type hub struct {
	config  *rest.Config
	raw     dynamic.Interface
	typed   client.Client
	mapper  meta.RESTMapper
	control *testkit.ControlPlane
}

// TestOnServer runs all tests that need an API server, on one.
func TestOnServer(t *testing.T) {
	h := startHub(t)
	for _, test := range []struct {
		name string
		run  func(*testing.T, *hub)
	}{
		{"seed manifests", testSeedManifests},
		{"seed manifests need their repair", testSeedNeedsRepair},
		{"nulls", testNulls},
		{"every field", testFullObjects},
		{"refusals", testRefusals},
		{"names", testNames},
		{"every bound", testEveryBound},
		{"absurd sizes", testAbsurdSizes},
		{"costliest ports", testCostliestPorts},
		{"immutability", testImmutability},
		{"defaults", testDefaults},
		{"unknown fields", testUnknownFields},
		{"write paths", testWritePaths},
		{"tables", testTables},
		{"short names", testShortNames},
		{"docs", testDocs},
		{"status and explain", testCLI},
		{"hostile values", testHostileValues},
		{"people have roles", testPeople},
		{"people have roles of providers", testPeopleOfProviders},
		{"proxies have identities of their own", testProxyIdentities},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, h) })
	}
}

func startHub(t *testing.T) *hub {
	t.Helper()
	c := kubetest.Start(t, testkit.Options{Name: "hub"})
	h := &hub{config: c.RESTConfig(), control: c}
	h.config.QPS = -1
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := crd.Install(ctx, h.config); err != nil {
		t.Fatal(err)
	}
	// Once more: what an upgrade does.
	if err := crd.Install(ctx, h.config); err != nil {
		t.Fatal(err)
	}
	var err error
	if h.mapper, err = crd.Mapper(); err != nil {
		t.Fatal(err)
	}
	if h.raw, err = dynamic.NewForConfig(h.config); err != nil {
		t.Fatal(err)
	}
	scheme, err := app.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	if h.typed, err = client.New(h.config, client.Options{Scheme: scheme}); err != nil {
		t.Fatal(err)
	}
	return h
}

// testEnd is a context for cleanups, which run after the test's own has ended.
func testEnd(t *testing.T) context.Context { return context.WithoutCancel(t.Context()) }

// namespace makes a new one.
func (h *hub) namespace(t *testing.T) string {
	t.Helper()
	n := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	if err := h.typed.Create(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	return n.Name
}

// resource is where u belongs, in that namespace if it is of a namespaced kind.
func (h *hub) resource(t *testing.T, u *unstructured.Unstructured, namespace string) dynamic.ResourceInterface {
	t.Helper()
	gvk := u.GroupVersionKind()
	m, err := h.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		t.Fatal(err)
	}
	if m.Scope.Name() == meta.RESTScopeNameRoot {
		return h.raw.Resource(m.Resource)
	}
	return h.raw.Resource(m.Resource).Namespace(namespace)
}

// get reads an object as each Go client does.
func (h *hub) get(t *testing.T, namespace, name string, into client.Object) {
	t.Helper()
	if err := h.typed.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, into); err != nil {
		t.Fatal(err)
	}
}

// parse reads one manifest.
func parse(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return u
}

// parseAll reads manifests that --- separates.
func parseAll(t *testing.T, text string) []*unstructured.Unstructured {
	t.Helper()
	var out []*unstructured.Unstructured
	for part := range strings.SplitSeq(text, "\n---\n") {
		out = append(out, parse(t, part))
	}
	return out
}
