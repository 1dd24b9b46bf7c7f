package api_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"fairlead.dev/fairlead/internal/app"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// fullObjects are valid objects that together set every field of every kind.
func fullObjects(t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	names, err := filepath.Glob("testdata/full/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var out []*unstructured.Unstructured
	for _, n := range names {
		out = append(out, parseAll(t, read(t, n))...)
	}
	return out
}

func TestFullObjectsSetEveryField(t *testing.T) {
	set := map[string]bool{}
	for _, u := range fullObjects(t) {
		for path := range leaves(u.Object) {
			set[u.GetKind()+":"+general(path)] = true
		}
	}
	eachSchema(t, func(path string, s *apiextensionsv1.JSONSchemaProps) {
		path = strings.NewReplacer("/v1beta1:", ":", "/v1alpha4:", ":", "/v1alpha1:", ":").Replace(path)
		leaf := s.Type != "object" && s.Type != "array"
		if leaf && !set[path] && !strings.Contains(path, "{}") {
			t.Errorf("no object in testdata/full sets %s", path)
		}
	})
}

// general turns .spec.ports[1].port into .spec.ports[].port.
func general(path string) string {
	for {
		i := strings.IndexByte(path, '[')
		for i >= 0 && path[i+1] == ']' {
			next := strings.IndexByte(path[i+1:], '[')
			if next < 0 {
				return path
			}
			i += 1 + next
		}
		if i < 0 {
			return path
		}
		path = path[:i+1] + path[strings.IndexByte(path[i:], ']')+i:]
	}
}

// leaves are the scalar values of a tree, by path; not those of metadata.
func leaves(tree map[string]any) map[string]any {
	out := map[string]any{}
	var walk func(string, any)
	walk = func(path string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for k, x := range v {
				if path != "" || k != "metadata" {
					walk(path+"."+k, x)
				}
			}
		case []any:
			for i, x := range v {
				walk(fmt.Sprintf("%s[%d]", path, i), x)
			}
		default:
			out[path] = v
		}
	}
	walk("", tree)
	return out
}

// with returns a deep copy of tree with the value at path replaced.
func with(tree map[string]any, path string, value any) map[string]any {
	tree = runtime.DeepCopyJSON(tree)
	var at any = tree
	steps := strings.FieldsFunc(path, func(r rune) bool { return r == '.' || r == '[' || r == ']' })
	for i, s := range steps {
		last := i == len(steps)-1
		switch node := at.(type) {
		case map[string]any:
			if last {
				node[s] = value
			}
			at = node[s]
		case []any:
			var n int
			if _, err := fmt.Sscan(s, &n); err != nil {
				panic(err)
			}
			if last {
				node[n] = value
			}
			at = node[n]
		}
	}
	return tree
}

// What is written is what Go reads: no field is pruned, renamed or lost by a type.
func testFullObjects(t *testing.T, h *hub) {
	for _, u := range fullObjects(t) {
		t.Run(u.GetKind()+" "+u.GetName(), func(t *testing.T) {
			namespace := h.namespace(t)
			created := h.createWithStatus(t, namespace, u)
			obj := typed(t, created)
			back, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
			if err != nil {
				t.Fatal(err)
			}
			got, want := leaves(back), leaves(u.Object)
			for _, path := range slices.Sorted(maps.Keys(want)) {
				if fmt.Sprint(got[path]) != fmt.Sprint(want[path]) {
					t.Errorf("%s: wrote %v, read %v", path, want[path], got[path])
				}
			}
		})
	}
}

// createWithStatus creates u and its status, and deletes it at the end of the test.
func (h *hub) createWithStatus(t *testing.T, namespace string, u *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	r := h.resource(t, u, namespace)
	created, err := r.Create(t.Context(), u, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Delete(testEnd(t), u.GetName(), metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			t.Error(err)
		}
	})
	status, ok := u.Object["status"]
	if !ok {
		return created
	}
	created.Object["status"] = status
	updated, err := r.UpdateStatus(t.Context(), created, metav1.UpdateOptions{FieldValidation: metav1.FieldValidationStrict})
	if err != nil {
		t.Fatal(err)
	}
	return updated
}

// typed decodes u as Go clients do.
func typed(t *testing.T, u *unstructured.Unstructured) runtime.Object {
	t.Helper()
	obj, err := decode(u)
	if err != nil {
		t.Fatal(err)
	}
	return obj
}

func decode(u *unstructured.Unstructured) (runtime.Object, error) {
	scheme, err := app.Scheme()
	if err != nil {
		return nil, err
	}
	gvk := u.GroupVersionKind()
	if gvk.Version == "v1alpha4" {
		gvk = schema.GroupVersionKind{Group: gvk.Group, Version: "v1beta1", Kind: gvk.Kind}
	}
	obj, err := scheme.New(gvk)
	if err != nil {
		return nil, err
	}
	b, err := u.MarshalJSON()
	if err != nil {
		return nil, err
	}
	return obj, json.Unmarshal(b, obj)
}
