package cli

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	jsonpatch "github.com/evanphx/json-patch/v5"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "rewrite what the cases in testdata want")

// now is when all cases are asked.
func now() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) }

// story is a case: sections "-- name --", text before the first is its comment.
type story struct {
	path     string
	comment  string
	names    []string
	sections map[string]string
}

func readStory(t *testing.T, path string) *story {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	s := &story{path: path, sections: map[string]string{}}
	name := ""
	for l := range strings.Lines(string(b)) {
		if n, ok := strings.CutPrefix(strings.TrimSpace(l), "-- "); ok && strings.HasSuffix(n, " --") {
			name = strings.TrimSuffix(n, " --")
			s.names, s.sections[name] = append(s.names, name), ""
		} else if name == "" {
			s.comment += l
		} else {
			s.sections[name] += l
		}
	}
	return s
}

// check compares with the section want, or with -update rewrites it.
func (s *story) check(t *testing.T, got string) {
	t.Helper()
	if s.sections["want"] == got {
		return
	}
	if !*update {
		t.Errorf("got\n%s\nwant\n%s", got, s.sections["want"])
		return
	}
	if _, ok := s.sections["want"]; !ok {
		s.names = append(s.names, "want")
	}
	s.sections["want"] = got
	var b strings.Builder
	b.WriteString(s.comment)
	for _, n := range s.names {
		fmt.Fprintf(&b, "-- %s --\n%s", n, s.sections[n])
	}
	if err := os.WriteFile(s.path, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

func documents(t *testing.T, text string) []*unstructured.Unstructured {
	t.Helper()
	var out []*unstructured.Unstructured
	for d := range strings.SplitSeq(text, "\n---\n") {
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(d), &u.Object); err != nil {
			t.Fatalf("%v in\n%s", err, d)
		}
		if len(u.Object) > 0 {
			out = append(out, u)
		}
	}
	return out
}

// objects are base.yaml's with the section change merged in: by kind, namespace and name; "delete: true" deletes. later are
// sections that are merged in after that one.
func (s *story) objects(t *testing.T, later ...string) *Objects {
	t.Helper()
	base, err := os.ReadFile("testdata/base.yaml")
	if err != nil {
		t.Fatal(err)
	}
	all := documents(t, string(base))
	id := func(u *unstructured.Unstructured) string {
		return u.GetKind() + " " + u.GetNamespace() + "/" + u.GetName()
	}
	var changes []*unstructured.Unstructured
	for _, section := range append([]string{"change"}, later...) {
		changes = append(changes, documents(t, s.sections[section])...)
	}
	for _, change := range changes {
		found := false
		for i, u := range all {
			if id(u) != id(change) {
				continue
			}
			found = true
			if change.Object["delete"] == true {
				all = append(all[:i:i], all[i+1:]...)
				break
			}
			all[i] = merge(t, u, change)
		}
		if !found {
			all = append(all, change)
		}
	}
	o := &Objects{Now: now(), Hidden: strings.Fields(s.sections["hidden"])}
	for _, u := range all {
		switch u.GetKind() {
		case "LoadBalancer":
			add(t, u, &o.LoadBalancers, &clusterv1.LoadBalancer{})
		case "TargetGroup":
			add(t, u, &o.TargetGroups, &v1alpha1.TargetGroup{})
		case "LoadBalancerClass":
			add(t, u, &o.Classes, &v1alpha1.LoadBalancerClass{})
		case "AddressPool":
			add(t, u, &o.Pools, &v1alpha1.AddressPool{})
		case "Address":
			add(t, u, &o.Addresses, &v1alpha1.Address{})
		case "Tenant":
			add(t, u, &o.Tenants, &v1alpha1.Tenant{})
		case "Proxy":
			add(t, u, &o.Proxies, &v1alpha1.Proxy{})
		case "ProxyReport":
			add(t, u, &o.Reports, &v1alpha1.ProxyReport{})
		case "Lease":
			add(t, u, &o.Leases, &coordinationv1.Lease{})
		case "Service":
			add(t, u, &o.Services, &corev1.Service{})
		case "Node":
			add(t, u, &o.Nodes, &corev1.Node{})
		case "Event":
			add(t, u, &o.Events, &eventsv1.Event{})
		default:
			t.Fatalf("unknown kind %s", u.GetKind())
		}
	}
	return o
}

func merge(t *testing.T, u, change *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	a, err := json.Marshal(u)
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(change)
	if err != nil {
		t.Fatal(err)
	}
	merged, err := jsonpatch.MergePatch(a, b)
	if err != nil {
		t.Fatal(err)
	}
	out := &unstructured.Unstructured{}
	if err := json.Unmarshal(merged, out); err != nil {
		t.Fatal(err)
	}
	return out
}

func add[T any](t *testing.T, u *unstructured.Unstructured, list *[]*T, obj *T) {
	t.Helper()
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(u.Object, obj, true); err != nil {
		t.Fatalf("%s %s: %v", u.GetKind(), u.GetName(), err)
	}
	*list = append(*list, obj)
}

func stories(t *testing.T, dir string, run func(*testing.T, *story)) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("testdata", dir, "*.txtar"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no stories in %s: %v", dir, err)
	}
	for _, p := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(p), ".txtar"), func(t *testing.T) { run(t, readStory(t, p)) })
	}
}

// Each story asks "service NAMESPACE NAME" or "node NAME" of namespace prod-eu, "loadbalancer NAMESPACE NAME",
// "address ADDRESS" or "proxy NAME".
func TestExplain(t *testing.T) {
	stories(t, "explain", func(t *testing.T, s *story) {
		o := s.objects(t)
		ask := strings.Fields(s.sections["ask"])
		last := ask[len(ask)-1]
		var e Explanation
		switch ask[0] {
		case "service":
			e = ExplainService(o, "prod-eu", types.NamespacedName{Namespace: ask[1], Name: last})
		case "loadbalancer":
			e = ExplainLoadBalancer(o, types.NamespacedName{Namespace: ask[1], Name: last}, nil)
		case "node":
			e = ExplainNode(o, "prod-eu", last)
		case "address":
			a, err := ParseAddress(last)
			if err != nil {
				t.Fatal(err)
			}
			e = ExplainAddress(o, a)
		case "proxy":
			e = ExplainProxy(o, last)
		default:
			t.Fatalf("unknown kind %s", ask[0])
		}
		var b bytes.Buffer
		if err := e.WriteText(&b); err != nil {
			t.Fatal(err)
		}
		s.check(t, b.String())
		checkExplanation(t, e)
	})
}

// Each story asks what a drain of "node NAME" or "target GROUP [NAME]" of namespace prod-eu would do, or with a section judge how far it is
// after what that changes.
func TestDrain(t *testing.T) {
	stories(t, "drain", func(t *testing.T, s *story) {
		o := s.objects(t)
		ask := strings.Fields(s.sections["ask"])
		targets := Targets{Namespace: "prod-eu", Node: ask[1]}
		if ask[0] == "target" {
			targets = Targets{Namespace: "prod-eu", Group: ask[1], Target: strings.Join(ask[2:], " ")}
		}
		var b bytes.Buffer
		d, err := PlanDrain(o, targets)
		if err != nil {
			fmt.Fprintln(&b, err)
		} else {
			if _, judge := s.sections["judge"]; judge {
				d.Judge(s.objects(t, "judge"))
			} else {
				d.Refuse()
			}
			if err := d.WriteText(&b); err != nil {
				t.Fatal(err)
			}
		}
		s.check(t, b.String())
	})
}

// Each story diagnoses the hub. Section facts has what objects don't say.
func TestCheck(t *testing.T) {
	stories(t, "check", func(t *testing.T, s *story) {
		f := &Facts{Objects: s.objects(t), Version: "v1", Server: Server{Version: "v1.37.0", Major: 1, Minor: 37}}
		if err := yaml.UnmarshalStrict([]byte(s.sections["facts"]), f); err != nil {
			t.Fatal(err)
		}
		r := Diagnose(f)
		var b bytes.Buffer
		if err := r.WriteText(&b); err != nil {
			t.Fatal(err)
		}
		s.check(t, b.String())
		for _, c := range r.Checks {
			if c.State.bad() && c.Fix == "" {
				t.Errorf("%s %s is %s, and nobody says what to do", c.Area, c.Object, c.State)
			}
		}
	})
}

// checkExplanation holds what is true of each explanation.
func checkExplanation(t *testing.T, e Explanation) {
	t.Helper()
	fixes := 0
	for _, r := range e.Rungs {
		if r.Fix != "" {
			fixes++
		}
	}
	switch first := e.First(); {
	case (first == nil) != e.Served:
		t.Errorf("served is %t, and the first rung that isn't is %v", e.Served, first)
	case first == nil && fixes > 0, first != nil && fixes > 1:
		t.Errorf("%d fixes", fixes)
	case first != nil && first.State == Broken && first.Fix == "":
		t.Errorf("rung %s is broken, and nobody says what to do", first.Name)
	}
	for _, form := range []string{"json", "yaml"} {
		var b bytes.Buffer
		if err := WriteAs(&b, form, e); err != nil {
			t.Error(err)
		}
		var back Explanation
		if err := yaml.Unmarshal(b.Bytes(), &back); err != nil || len(back.Rungs) != len(e.Rungs) || back.Served != e.Served {
			t.Errorf("as %s: %v", form, err)
		}
	}
}

func TestStatus(t *testing.T) {
	stories(t, "status", func(t *testing.T, s *story) {
		v := Summarize(s.objects(t))
		var b bytes.Buffer
		if err := v.WriteText(&b, now(), Wide); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "healthy: %t\n", v.Healthy)
		s.check(t, b.String())
	})
}
