package api_test

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sync/errgroup"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
)

// violation is a value that a schema doesn't admit, and what the refusal must say of what would be right.
type violation struct {
	name  string
	value any
	says  string
}

// absent stands for a field that isn't written at all.
type absent struct{}

// violations are one value for each bound of a schema; good is a value that it admits.
func violations(s *apiextensionsv1.JSONSchemaProps, good any) []violation {
	var out []violation
	add := func(name string, value any, says string) { out = append(out, violation{name, value, says}) }
	switch s.Type {
	case "string":
		add("a number", int64(5), "must be of type string")
		add("a list", []any{"a"}, "must be of type string")
	case "integer", "boolean":
		add("a word", "five", "must be of type "+s.Type)
		add("an object", map[string]any{}, "must be of type") // int32, as the API server says
	case "object":
		add("a word", "x", "must be of type object")
	case "array":
		add("an object", map[string]any{}, "must be of type array")
	}
	if len(s.Enum) > 0 {
		first := strings.Trim(string(s.Enum[len(s.Enum)-1].Raw), `"`)
		add("another word", "Bogus", first)
		add("another case", strings.ToLower(first), first)
		add("a letter that looks alike", strings.Replace(first, "e", "е", 1)+"е", first) // Cyrillic
	}
	if s.MaxLength != nil {
		add("too long", strings.Repeat("x", int(*s.MaxLength)+1), fmt.Sprint(*s.MaxLength))
		add("too long, not ASCII", strings.Repeat("ü", int(*s.MaxLength)+1), fmt.Sprint(*s.MaxLength))
	}
	if s.MinLength != nil {
		add("empty", "", fmt.Sprintf("at least %d", *s.MinLength))
	}
	if s.Pattern != "" {
		add("what doesn't match", "not so", s.Pattern)
	}
	if s.Minimum != nil && *s.Minimum > math.MinInt64 {
		add("too small", int64(*s.Minimum)-1, fmt.Sprintf("greater than or equal to %d", int64(*s.Minimum)))
	}
	if s.Maximum != nil && *s.Maximum < math.MaxInt64 {
		add("too great", int64(*s.Maximum)+1, fmt.Sprintf("less than or equal to %d", int64(*s.Maximum)))
	}
	if items, ok := good.([]any); ok && s.MaxItems != nil {
		add("too many", repeat(int(*s.MaxItems)+1, func(int) any { return items[0] }), fmt.Sprintf("at most %d items", *s.MaxItems))
	}
	if s.MinItems != nil {
		add("none", []any{}, fmt.Sprintf("at least %d items", *s.MinItems))
	}
	if s.MaxProperties != nil {
		many := map[string]any{}
		for i := range int(*s.MaxProperties) + 1 {
			many[fmt.Sprintf("k%d", i)] = "v"
		}
		add("too many", many, fmt.Sprintf("at most %d", *s.MaxProperties))
	}
	return out
}

// Whatever a schema bounds, of whichever field of whichever kind, a value beyond is refused, and the refusal names the
// field and what would be right.
func testEveryBound(t *testing.T, h *hub) {
	schemas := map[string]*apiextensionsv1.JSONSchemaProps{}
	eachSchema(t, func(path string, s *apiextensionsv1.JSONSchemaProps) {
		kind, rest, _ := strings.Cut(path, "/")
		_, field, _ := strings.Cut(rest, ":")
		schemas[kind+":"+field] = s
	})
	var tried atomic.Int64
	done := map[string]bool{}
	for _, u := range fullObjects(t) {
		t.Run(u.GetKind()+" "+u.GetName(), func(t *testing.T) {
			namespace := h.namespace(t)
			created := h.createWithStatus(t, namespace, u)
			r := h.resource(t, u, namespace)
			var all errgroup.Group
			all.SetLimit(8)
			values := nodes(u.Object)
			for _, path := range slices.Sorted(maps.Keys(values)) {
				s := schemas[u.GetKind()+":"+general(path)]
				if s == nil || done[u.GetKind()+":"+general(path)] {
					continue
				}
				done[u.GetKind()+":"+general(path)] = true
				try := func(v violation) {
					all.Go(func() error {
						tried.Add(1)
						from, to := u.Object, created.Object
						if v.value == (absent{}) {
							from, to = without(from, path), without(to, path)
						} else {
							from, to = with(from, path, v.value), with(to, path, v.value)
						}
						_, err := tryWhole(t, r, to, from, path)
						if problem := judge(err, u, strings.TrimPrefix(path, "."), v); problem != nil {
							t.Errorf("%s, %s: %v", path, v.name, problem)
						}
						return nil
					})
				}
				for _, v := range violations(s, values[path]) {
					if !matches(s, v) {
						try(v)
					}
				}
				parent, name := path[:strings.LastIndexAny(path, ".")], path[strings.LastIndexAny(path, ".")+1:]
				if p := schemas[u.GetKind()+":"+general(parent)]; p != nil && slices.Contains(p.Required, name) && parent != "" && p.Properties[name].Default == nil {
					try(violation{"left out", absent{}, "Required value"})
				}
			}
			if err := all.Wait(); err != nil {
				t.Error(err)
			}
		})
	}
	if n := tried.Load(); n < 1000 {
		t.Errorf("only %d values were tried", n)
	}
	t.Logf("tried %d values of %d fields", tried.Load(), len(done))
}

// matches says that a pattern admits what is to violate it.
func matches(s *apiextensionsv1.JSONSchemaProps, v violation) bool {
	text, ok := v.value.(string)
	return ok && v.says == s.Pattern && regexp.MustCompile(s.Pattern).MatchString(text)
}

// judge says what a refusal lacks.
func judge(err error, u *unstructured.Unstructured, path string, v violation) error {
	switch {
	case err == nil:
		return errors.New("it is taken")
	case !apierrors.IsInvalid(err):
		return fmt.Errorf("not refused as invalid: %w", err)
	}
	for _, want := range []string{u.GetKind(), path, v.says} {
		if !strings.Contains(err.Error(), want) {
			return fmt.Errorf("the message lacks %q: %w", want, err)
		}
	}
	return nil
}

// tryWhole writes a whole object as a dry run: a new one, or for a path below it the status of one that is there.
func tryWhole(t *testing.T, r dynamic.ResourceInterface, there, fresh map[string]any, path string) (*unstructured.Unstructured, error) {
	if strings.HasPrefix(path, ".status") {
		return r.UpdateStatus(t.Context(), &unstructured.Unstructured{Object: there}, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
	}
	n := &unstructured.Unstructured{Object: fresh}
	n.SetName("another")
	return r.Create(t.Context(), n, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
}

// nodes are all values of a tree by path, what holds others among them; not those of metadata.
func nodes(tree map[string]any) map[string]any {
	out := map[string]any{}
	var walk func(string, any)
	walk = func(path string, v any) {
		if path != "" {
			out[path] = v
		}
		switch v := v.(type) {
		case map[string]any:
			for k, x := range v {
				if path != "" || k != "metadata" && k != "apiVersion" && k != "kind" {
					walk(path+"."+k, x)
				}
			}
		case []any:
			for i, x := range v {
				walk(fmt.Sprintf("%s[%d]", path, i), x)
			}
		}
	}
	walk("", tree)
	return out
}

// without returns a deep copy of tree that lacks the value at path.
func without(tree map[string]any, path string) map[string]any {
	at := strings.LastIndexByte(path, '.')
	if at == 0 {
		out := runtime.DeepCopyJSON(tree)
		delete(out, path[1:])
		return out
	}
	parent, ok := nodes(tree)[path[:at]].(map[string]any)
	if !ok {
		panic("no object holds " + path)
	}
	rest := maps.Clone(parent)
	delete(rest, path[at+1:])
	return with(tree, path[:at], rest)
}

// Each rule of each schema is broken by some test, which quotes what it says.
func TestEachRuleIsBroken(t *testing.T) {
	says := []string{notFencedYet}
	for _, r := range refusals() {
		says = append(says, r.says...)
	}
	for _, c := range changes() {
		says = append(says, c.says)
	}
	says = slices.AppendSeq(says, maps.Values(namesRefused()))
	eachSchema(t, func(path string, s *apiextensionsv1.JSONSchemaProps) {
		for _, rule := range s.XValidations {
			if !slices.ContainsFunc(says, func(said string) bool { return len(said) > 15 && strings.Contains(rule.Message, said) }) {
				t.Errorf("%s: no test breaks the rule %q", path, rule.Message)
			}
		}
	})
}
