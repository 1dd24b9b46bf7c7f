package api_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/internal/testkit"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

const seedDir = "../../examples/seed"

// seedBlocks are the printed manifests that have a LoadBalancer.
var seedBlocks = []string{"new-types", "foo", "elb", "nlb"}

// seedManifests returns the repaired LoadBalancers of the proposal, by name.
func seedManifests(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, name := range seedBlocks {
		_, repaired, err := testkit.Printed("../..", name)
		if err != nil {
			t.Fatal(err)
		}
		out[name] = loadBalancerOf(t, name, repaired)
	}
	return out
}

// loadBalancerOf is the one manifest of several that is a LoadBalancer.
func loadBalancerOf(t *testing.T, name, manifests string) string {
	t.Helper()
	for part := range strings.SplitSeq(manifests, "---\n") {
		if strings.Contains("\n"+part, "\nkind: LoadBalancer\n") {
			return part
		}
	}
	t.Fatalf("%s has no LoadBalancer", name)
	return ""
}

func read(t *testing.T, elem ...string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(elem...))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// The table has a row for each file, with how many lines of it the diff takes away and adds.
func TestSeedTable(t *testing.T) {
	page := read(t, seedDir, "README.md")
	files, err := filepath.Glob(filepath.Join(seedDir, "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		name := strings.TrimSuffix(filepath.Base(f), ".yaml")
		printed, repaired, err := testkit.Printed("../..", name)
		if err != nil {
			t.Fatal(err)
		}
		want := "none"
		if printed != repaired {
			var removed, added int
			for l := range strings.Lines(read(t, seedDir, name+".diff")) {
				switch {
				case strings.HasPrefix(l, "--- "), strings.HasPrefix(l, "+++ "):
				case l[0] == '-':
					removed++
				case l[0] == '+':
					added++
				}
			}
			want = fmt.Sprintf("-%d +%d", removed, added)
		}
		if rows := regexp.MustCompile("(?m)^\\| `" + name + "` \\|[^|]*\\| ([^|]*) \\|").FindStringSubmatch(page); len(rows) != 2 || rows[1] != want {
			t.Errorf("the table says %q of %s, whose lines are %q", rows, name, want)
		}
	}
	if rows := strings.Count(page, "\n| `"); rows != len(files) {
		t.Errorf("the table has %d rows, and there are %d files", rows, len(files))
	}
}

func testSeedManifests(t *testing.T, h *hub) {
	for name, text := range seedManifests(t) {
		for how, apply := range map[string]func(*testing.T, *hub, string, *unstructured.Unstructured) error{
			"post":              post,
			"server-side apply": applyWithoutStatus,
		} {
			t.Run(name+" by "+how, func(t *testing.T) {
				manifest := parse(t, text)
				namespace := h.namespace(t)
				if manifest.GetNamespace() != "" {
					manifest.SetNamespace(namespace)
				}
				if err := apply(t, h, namespace, manifest); err != nil {
					t.Fatal(err)
				}
				var lb clusterv1.LoadBalancer
				h.get(t, namespace, "my-cluster-control-plane-lb", &lb)
				checkSeed(t, name, &lb)
			})
		}
	}
}

func post(t *testing.T, h *hub, namespace string, u *unstructured.Unstructured) error {
	_, err := h.resource(t, u, namespace).Create(t.Context(), u, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
	return err
}

func applyWithoutStatus(t *testing.T, h *hub, namespace string, u *unstructured.Unstructured) error {
	u = u.DeepCopy()
	delete(u.Object, "status")
	_, err := h.resource(t, u, namespace).Apply(t.Context(), u.GetName(), u, metav1.ApplyOptions{FieldManager: "kubectl"})
	return err
}

// checkSeed compares what Go reads as v1beta1 with what is printed.
func checkSeed(t *testing.T, name string, lb *clusterv1.LoadBalancer) {
	t.Helper()
	labels := map[string]string{
		"cluster.x-k8s.io/cluster-name":      "my-cluster",
		"loadbalancer.cluster.x-k8s.io/name": "my-cluster-control-plane-lb",
	}
	want := clusterv1.LoadBalancerSpec{
		TargetKind: &clusterv1.KindReference{APIGroup: "cluster.x-k8s.io", Kind: "Machine"},
		Selector:   &metav1.LabelSelector{MatchLabels: labels},
		InfrastructureRef: &clusterv1.ObjectReference{APIGroup: "infrastructure.cluster.x-k8s.io", Kind: map[string]string{
			"new-types": "AWSNetworkLoadBalancer", "foo": "FooLoadBalancer", "elb": "AWSELBClassicLoadBalancer", "nlb": "AWSNetworkLoadBalancer",
		}[name], Name: "my-cluster-control-plane-nlb"},
	}
	switch name {
	case "new-types":
		want.ClusterName = "my-cluster"
		want.Endpoint = &clusterv1.Endpoint{Host: "test.example.com", Port: 443}
	case "foo":
		want.InfrastructureRef.Name = "my-cluster-control-plane-foo"
	}
	equalYAML(t, lb.Spec, want)
	equalYAML(t, lb.Status, clusterv1.LoadBalancerStatus{})
	if _, err := metav1.LabelSelectorAsSelector(lb.Spec.Selector); err != nil {
		t.Error(err)
	}
}

func equalYAML(t *testing.T, got, want any) {
	t.Helper()
	g, err := yaml.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	w, err := yaml.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	if string(g) != string(w) {
		t.Errorf("got\n%swant\n%s", g, w)
	}
}

// Without its repair, no manifest is taken: the repairs are needed.
func testSeedNeedsRepair(t *testing.T, h *hub) {
	for _, name := range seedBlocks {
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(loadBalancerOf(t, name, read(t, seedDir, name+".yaml"))), &u.Object); err != nil {
			continue // kubectl says the same
		}
		gvk := u.GroupVersionKind()
		if _, err := h.mapper.RESTMapping(gvk.GroupKind(), gvk.Version); err == nil {
			t.Errorf("%s: is taken as it is printed; drop its diff", name)
		}
	}
}

// Nulls, wherever the proposal's kinds print or suggest one, count as absent.
func testNulls(t *testing.T, h *hub) {
	for _, version := range []string{"v1alpha4", "v1beta1"} {
		for name, spec := range map[string]string{
			"host and port":    `{endpoint: {host: null, port: null}}`,
			"endpoint":         `{endpoint: null}`,
			"selector":         `{selector: null}`,
			"match fields":     `{selector: {matchLabels: null, matchExpressions: null}}`,
			"match expression": `{selector: {matchExpressions: [{key: a, operator: Exists, values: null}]}}`,
		} {
			for how, apply := range map[string]func(*testing.T, *hub, string, *unstructured.Unstructured) error{"post": post, "server-side apply": applyWithoutStatus} {
				t.Run(version+" "+name+" by "+how, func(t *testing.T) {
					namespace := h.namespace(t)
					u := parse(t, "apiVersion: cluster.x-k8s.io/"+version+"\nkind: LoadBalancer\nmetadata: {name: x}\nspec: "+spec)
					if err := apply(t, h, namespace, u); err != nil {
						t.Fatal(err)
					}
					var lb clusterv1.LoadBalancer
					h.get(t, namespace, "x", &lb)
					if e := lb.Spec.Endpoint; e != nil && *e != (clusterv1.Endpoint{}) {
						t.Errorf("endpoint is %v", *e)
					}
					if s := lb.Spec.Selector; s != nil && (len(s.MatchLabels) > 0 || (len(s.MatchExpressions) > 0 && s.MatchExpressions[0].Values != nil)) {
						t.Errorf("selector is %v", s)
					}
				})
			}
		}
	}
}
