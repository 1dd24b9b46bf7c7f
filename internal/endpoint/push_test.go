package endpoint_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"fairlead.dev/fairlead/internal/endpoint"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// unseen are the kinds whose providers' modules can't be had: what is known of them was read in their sources.
var unseen = []string{"HetznerCluster", "Metal3Cluster", "MicrovmCluster", "NutanixCluster", "OpenStackCluster", "ProxmoxCluster", "TinkerbellCluster"}

// Each field of an InfraCluster that is read or written is in its provider's own CRD, in each version that is served, and is what we take it for.
func TestInfraClustersHaveTheFieldsOfTheTable(t *testing.T) {
	for _, p := range endpoint.Pushes() {
		if slices.Contains(unseen, p.Kind) {
			continue
		}
		t.Run(p.Group+"/"+p.Kind, func(t *testing.T) {
			crd := infraCluster(t, p.Group, p.Kind)
			if crd.Spec.Group != p.Group || crd.Spec.Names.Kind != p.Kind || crd.Spec.Scope != apiextensions.NamespaceScoped {
				t.Errorf("it is of %s %s, %s", crd.Spec.Group, crd.Spec.Names.Kind, crd.Spec.Scope)
			}
			served := 0
			for _, v := range crd.Spec.Versions {
				if !v.Served {
					continue
				}
				served++
				holds(t, v, "spec.controlPlaneEndpoint.host", "string")
				holds(t, v, "spec.controlPlaneEndpoint.port", "integer")
				for _, n := range p.Needs {
					holdsSetting(t, v, n)
				}
			}
			if served == 0 {
				t.Error("no version of it is served")
			}
		})
	}
}

// infraCluster is what hack/infraclusters has taken from a provider's CRD.
func infraCluster(t *testing.T, group, kind string) *apiextensions.CustomResourceDefinition {
	t.Helper()
	name := fmt.Sprintf("%s_%ss.yaml", group, strings.ToLower(kind))
	b, err := os.ReadFile(filepath.Join("testdata", "infraclusters", name))
	if err != nil {
		t.Fatalf("%v: run go run ./hack/infraclusters", err)
	}
	crd := &apiextensions.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(b, crd); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return crd
}

func at(v apiextensions.CustomResourceDefinitionVersion, field string) (apiextensions.JSONSchemaProps, bool) {
	props := *v.Schema.OpenAPIV3Schema
	for _, name := range strings.Split(field, ".") {
		below, ok := props.Properties[name]
		if !ok {
			return below, false
		}
		props = below
	}
	return props, true
}

func holds(t *testing.T, v apiextensions.CustomResourceDefinitionVersion, field, kind string) {
	t.Helper()
	if props, ok := at(v, field); !ok || props.Type != kind {
		t.Errorf("version %s: %s is %q, want %s", v.Name, field, props.Type, kind)
	}
}

// holdsSetting says that a setting may have the value that it must have, and has the default that we take where nobody has set it.
func holdsSetting(t *testing.T, v apiextensions.CustomResourceDefinitionVersion, n endpoint.Setting) {
	t.Helper()
	props, ok := at(v, n.Field)
	switch {
	case !ok:
		t.Errorf("version %s has no %s", v.Name, n.Field)
	case props.Type == "boolean":
		if n.Must != "true" && n.Must != "false" || n.Default != "true" && n.Default != "false" {
			t.Errorf("version %s: %s is true or false, and the table has %s and %s", v.Name, n.Field, n.Must, n.Default)
		}
	case props.Type != "string":
		t.Errorf("version %s: %s is %s", v.Name, n.Field, props.Type)
	case !slices.ContainsFunc(props.Enum, func(x apiextensions.JSON) bool { return string(x.Raw) == `"`+n.Must+`"` }):
		t.Errorf("version %s: %s can't be %s, but one of %s", v.Name, n.Field, n.Must, props.Enum)
	}
	if props.Default == nil || strings.Trim(string(props.Default.Raw), `"`) != n.Default {
		t.Errorf("version %s: the default of %s is %s, and the table has %s", v.Name, n.Field, props.Default, n.Default)
	}
}
