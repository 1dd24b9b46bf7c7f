package api_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// yamlBlocks are the examples of a Markdown page.
func yamlBlocks(page string) []string {
	var out []string
	for rest := page; ; {
		_, after, ok := strings.Cut(rest, "\n```yaml\n")
		if !ok {
			return out
		}
		block, after, _ := strings.Cut(after, "\n```\n")
		out, rest = append(out, block), "\n"+after
	}
}

// Each example of docs/api.md and docs/cluster-api.md, and what the demo's operator writes, is taken as it stands: no
// field is unknown, none is refused, and status is what the schema says.
func testDocs(t *testing.T, h *hub) {
	h.mapper.(*meta.DefaultRESTMapper).Add(corev1.SchemeGroupVersion.WithKind("Service"), meta.RESTScopeNamespace)
	n := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "prod-eu"}}
	if err := h.typed.Create(t.Context(), n); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	blocks := yamlBlocks(read(t, "../../docs/api.md"))
	if len(blocks) < 10 {
		t.Fatalf("%d examples", len(blocks))
	}
	seen := map[string]bool{}
	blocks = append(blocks, yamlBlocks(read(t, "../../docs/cluster-api.md"))...)
	for _, block := range append(blocks, read(t, "../../examples/hub.yaml"), read(t, "../../examples/pools/proxy-hosts.yaml")) {
		first, _, _ := strings.Cut(block, "\nspec")
		t.Run(first[strings.LastIndexByte(first, '\n')+1:], func(t *testing.T) {
			for _, u := range parseAll(t, block) {
				seen[u.GetKind()] = true
				h.createWithStatus(t, u.GetNamespace(), u)
			}
		})
	}
	for _, d := range definitions(t) {
		if !seen[d.Spec.Names.Kind] {
			t.Errorf("docs/api.md has no example of kind %s", d.Spec.Names.Kind)
		}
	}
}

// Every condition and every reason is in docs/api.md.
func TestDocsNameConditionsAndReasons(t *testing.T) {
	page := read(t, "../../docs/api.md")
	for _, path := range []string{"../../api/cluster/v1beta1/conditions.go", "../../api/fairlead/v1alpha1/conditions.go", "../../internal/agent/service/judge.go"} {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			v, ok := n.(*ast.ValueSpec)
			if !ok || len(v.Values) != 1 || !strings.HasPrefix(v.Names[0].Name, "Condition") {
				return true
			}
			literal, ok := v.Values[0].(*ast.BasicLit)
			if !ok {
				return true
			}
			if word, err := strconv.Unquote(literal.Value); err != nil || !strings.Contains(page, "`"+word+"`") {
				t.Errorf("docs/api.md doesn't say what %s means", word)
			}
			return true
		})
	}
}
