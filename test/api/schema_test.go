package api_test

import (
	"strings"
	"testing"

	"fairlead.dev/fairlead/config/crd"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// definitions returns the CRDs as they are installed.
func definitions(t *testing.T) []apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	all, err := crd.All()
	if err != nil {
		t.Fatal(err)
	}
	out := make([]apiextensionsv1.CustomResourceDefinition, len(all))
	for i, u := range all {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(u.Object, &out[i], true); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// eachSchema calls f with the path of each schema of each version.
func eachSchema(t *testing.T, f func(path string, s *apiextensionsv1.JSONSchemaProps)) {
	t.Helper()
	for _, d := range definitions(t) {
		for _, v := range d.Spec.Versions {
			walk(d.Spec.Names.Kind+"/"+v.Name+":", v.Schema.OpenAPIV3Schema, f)
		}
	}
}

func walk(path string, s *apiextensionsv1.JSONSchemaProps, f func(string, *apiextensionsv1.JSONSchemaProps)) {
	f(path, s)
	for name, p := range s.Properties {
		if name != "metadata" || len(p.Properties) > 0 {
			walk(path+"."+name, &p, f)
		}
	}
	if s.Items != nil {
		walk(path+"[]", s.Items.Schema, f)
	}
	if s.AdditionalProperties != nil {
		walk(path+"{}", s.AdditionalProperties.Schema, f)
	}
}

// Whatever a tenant writes is held by the caches of all proxies and managers, so
// no value may be without a bound.
func TestEverythingIsBounded(t *testing.T) {
	eachSchema(t, func(path string, s *apiextensionsv1.JSONSchemaProps) {
		switch {
		case s.Type == "string" && s.MaxLength == nil && len(s.Enum) == 0 && !isTypeMeta(path):
			t.Errorf("%s: a string without maxLength", path)
		case s.Type == "array" && s.MaxItems == nil:
			t.Errorf("%s: an array without maxItems", path)
		case s.AdditionalProperties != nil && s.MaxProperties == nil:
			t.Errorf("%s: a map without maxProperties", path)
		case s.Type == "integer" && (s.Minimum == nil || s.Maximum == nil):
			t.Errorf("%s: an integer without minimum or maximum", path)
		case s.XPreserveUnknownFields != nil && *s.XPreserveUnknownFields:
			t.Errorf("%s: keeps unknown fields", path)
		}
	})
}

func isTypeMeta(path string) bool {
	return strings.HasSuffix(path, ":.apiVersion") || strings.HasSuffix(path, ":.kind")
}
