package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// What clusterctl installs, with what is applied for proxies, is all of config/default and config/rbac/cluster-api: that a file was
// forgotten there too is for test/install to find.
func TestNothingIsForgotten(t *testing.T) {
	t.Chdir("../..")
	addon, proxies, err := objects()
	if err != nil {
		t.Fatal(err)
	}
	is := map[string]bool{}
	for _, o := range slices.Concat(addon, proxies) {
		name := o.GetKind() + " " + o.GetNamespace() + "/" + o.GetName()
		if is[name] {
			t.Errorf("%s is there twice", name)
		}
		is[name] = true
	}
	found := 0
	for _, folder := range []string{"config/crd", "config/rbac/hub", "config/rbac/cluster-api", "config/manager"} {
		files, err := filepath.Glob(folder + "/*.yaml")
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if filepath.Base(file) == "kustomization.yaml" {
				continue
			}
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, text := range strings.Split("\n"+string(b), "\n---\n") {
				o := &unstructured.Unstructured{}
				if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
					t.Fatalf("%s: %v", file, err)
				}
				found++
				if name := o.GetKind() + " " + o.GetNamespace() + "/" + o.GetName(); !is[name] {
					t.Errorf("%s of %s isn't installed", name, file)
				}
			}
		}
	}
	if found != len(is) {
		t.Errorf("the folders have %d objects, and %d are installed", found, len(is))
	}
}

func TestWhatClusterctlCarries(t *testing.T) {
	t.Chdir("../..")
	addon, proxies, err := objects()
	if err != nil {
		t.Fatal(err)
	}
	// It takes kinds that it doesn't know for namespaced ones, and deletes them in an upgrade.
	known := []string{"Namespace", "CustomResourceDefinition", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "ServiceAccount", "Deployment", "PodDisruptionBudget"}
	var namespaces []string
	for _, o := range addon {
		if !slices.Contains(known, o.GetKind()) {
			t.Errorf("clusterctl doesn't know the kind of %s %s: see that it installs, upgrades and deletes it well, and add it here", o.GetKind(), o.GetName())
		}
		if ns := o.GetNamespace(); ns != "" && ns != "fairlead-system" {
			t.Errorf("%s %s is in namespace %s, and clusterctl has one only", o.GetKind(), o.GetName(), ns)
		}
		if o.GetKind() == "Namespace" {
			namespaces = append(namespaces, o.GetName())
		}
	}
	if !slices.Equal(namespaces, []string{"fairlead-system"}) {
		t.Errorf("the namespaces are %v, and clusterctl takes one only", namespaces)
	}
	var policies int
	for _, o := range proxies {
		if o.GetKind() == "ValidatingAdmissionPolicy" {
			policies++
		}
		if o.GetKind() == "CustomResourceDefinition" || o.GetKind() == "Deployment" || o.GetName() == "fairlead-manager" {
			t.Errorf("%s %s is for the manager, not for proxies", o.GetKind(), o.GetName())
		}
	}
	if policies == 0 {
		t.Error("nothing holds proxies to their names")
	}
}

func TestVersionsHaveASeries(t *testing.T) {
	t.Chdir("../..")
	for version, want := range map[string]string{
		"v0.1.0":        "",
		"v0.1.7-beta.1": "",
		"v7.8.0":        "no series 7.8",
		"0.1.0":         "such as v0.1.0",
		"v0.1":          "such as v0.1.0",
		"":              "such as v0.1.0",
	} {
		_, err := metadataFor(version)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("version %q: %v, want %q", version, err, want)
		}
	}
}

func TestWhatIsWritten(t *testing.T) {
	out := t.TempDir()
	t.Chdir("../..")
	if err := run("v0.1.0", out); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(out, "addon-fairlead", "v0.1.0", "addon-components.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(b), "${"); n != 1 || !strings.Contains(string(b), "image: ${FAIRLEAD_IMAGE}\n") {
		t.Errorf("it has %d variables", n)
	}
	for _, bad := range []string{"${HOME}", "^a$$"} {
		o := &unstructured.Unstructured{Object: map[string]any{"kind": "ConfigMap", "data": bad}}
		if _, err := documents([]*unstructured.Unstructured{o}); err == nil || !strings.Contains(err.Error(), "clusterctl would replace") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
