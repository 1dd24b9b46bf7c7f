package build

import (
	"flag"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/lb"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "rewrite the expected text of testdata/*.txtar")

// TestStories reads each file as a story: "set" holds objects that come or
// change, "delete" those that go (kind namespace/name), "names" what all names
// stand for, and "want" what the proxy of pool edge in zone east serves then and
// what changed by it.
func TestStories(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			head, parts := parseStory(string(text))
			b := New(Options{ProxyPool: "edge", Zone: "east"})
			h := hub{}
			var names map[string][]netip.Addr
			served := b.Program()
			for i, p := range parts {
				switch p.name {
				case "set":
					for _, o := range parseObjects(t, p.text) {
						h[keyOf(o)] = o
						b.Set(o)
					}
				case "delete":
					for _, line := range strings.Split(strings.TrimSpace(p.text), "\n") {
						o := parseName(t, line)
						delete(h, keyOf(o))
						b.Delete(o)
					}
				case "names":
					names = parseNames(t, p.text)
					b.SetNames(names)
				case "want":
					next := b.Program()
					got := show(next, lb.Diff(served, next)) + showNames(b.Names())
					if got != p.text && !*update {
						t.Errorf("part %d: got\n%s\nwant\n%s", i, got, p.text)
					}
					parts[i].text = got
					objects := h.objects(slices.Sorted(maps.Keys(h)))
					objects.Names = names
					whole := Whole(objects, Options{ProxyPool: "edge", Zone: "east"})
					if c := lb.Diff(next, whole); !c.Empty() {
						t.Errorf("part %d: building whole gives something else: %+v", i, c)
					}
					served = next
				default:
					t.Fatalf("part %q is unknown", p.name)
				}
			}
			if *update {
				if err := os.WriteFile(file, []byte(formatStory(head, parts)), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

type part struct{ name, text string }

// parseStory reads the txtar format; names may repeat.
func parseStory(text string) (head string, parts []part) {
	for _, line := range strings.SplitAfter(text, "\n") {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "-- "); ok && strings.HasSuffix(name, " --") {
			parts = append(parts, part{name: strings.TrimSuffix(name, " --")})
			continue
		}
		if len(parts) == 0 {
			head += line
		} else {
			parts[len(parts)-1].text += line
		}
	}
	return head, parts
}

func formatStory(head string, parts []part) string {
	var b strings.Builder
	b.WriteString(head)
	for _, p := range parts {
		fmt.Fprintf(&b, "-- %s --\n%s", p.name, p.text)
	}
	return b.String()
}

func newObject(t *testing.T, kind string) metav1.Object {
	switch kind {
	case "LoadBalancer":
		return &clusterv1.LoadBalancer{}
	case "TargetGroup":
		return &v1alpha1.TargetGroup{}
	case "LoadBalancerClass":
		return &v1alpha1.LoadBalancerClass{}
	case "Address":
		return &v1alpha1.Address{}
	case "Tenant":
		return &v1alpha1.Tenant{}
	}
	t.Fatalf("kind %q is unknown", kind)
	return nil
}

func parseObjects(t *testing.T, text string) []metav1.Object {
	var out []metav1.Object
	for _, doc := range strings.Split(text, "\n---\n") {
		var m metav1.TypeMeta
		if err := yaml.Unmarshal([]byte(doc), &m); err != nil {
			t.Fatalf("%v in\n%s", err, doc)
		}
		o := newObject(t, m.Kind)
		if err := yaml.UnmarshalStrict([]byte(doc), o); err != nil {
			t.Fatalf("%v in\n%s", err, doc)
		}
		out = append(out, o)
	}
	return out
}

// parseNames reads a line for each name: the name, then its addresses.
func parseNames(t *testing.T, text string) map[string][]netip.Addr {
	out := map[string][]netip.Addr{}
	for _, line := range strings.Split(strings.TrimSpace(text), "\n") {
		words := strings.Fields(line)
		for _, w := range words[1:] {
			a, err := netip.ParseAddr(w)
			if err != nil {
				t.Fatal(err)
			}
			out[words[0]] = append(out[words[0]], a)
		}
	}
	return out
}

func showNames(names map[lb.TenantID][]string) string {
	out := ""
	for _, tenant := range slices.Sorted(maps.Keys(names)) {
		out += fmt.Sprintf("wanted names of %s: %s\n", tenant, strings.Join(names[tenant], ", "))
	}
	return out
}

func parseName(t *testing.T, line string) metav1.Object {
	kind, name, _ := strings.Cut(line, " ")
	o := newObject(t, kind)
	if namespace, n, ok := strings.Cut(name, "/"); ok {
		o.SetNamespace(namespace)
		name = n
	}
	o.SetName(name)
	return o
}

// show prints a Program, and what is to be done for it, for people.
func show(p *lb.Program, c lb.Changes) string {
	var b strings.Builder
	for _, id := range slices.Sorted(maps.Keys(p.Tenants)) {
		s := p.Tenants[id]
		fmt.Fprintf(&b, "tenant %s\n", id)
		for _, f := range s.Frontends {
			fmt.Fprintf(&b, "  frontend %s of %s to %s%s\n", f.ID.Socket(), f.ID.LoadBalancer, f.Pool, showFrontend(f))
		}
		for _, id := range slices.Sorted(maps.Keys(s.Pools)) {
			p := s.Pools[id]
			fmt.Fprintf(&b, "  pool %s: port %d of %s, hash %s, check %s every %s, fail open %v, drain %s%s\n",
				p.ID, p.Port, p.Group, p.Hash, p.Check, p.Check.Interval, p.FailOpen, p.DrainTimeout, showPool(p))
		}
		for _, id := range slices.Sorted(maps.Keys(s.Groups)) {
			fmt.Fprintf(&b, "  group %s\n", id)
			for _, m := range s.Groups[id].Members {
				fmt.Fprintf(&b, "    %s\n", showMember(&m))
			}
		}
		for _, a := range s.Absent {
			fmt.Fprintf(&b, "  absent %s (%s of %s), for %s: %d used, %d outside, %d beyond\n", a.Target, a.UID, a.TargetGroup, a.Name, a.Used, a.Outside, a.Beyond)
		}
		for _, p := range s.Problems {
			fmt.Fprintf(&b, "  problem %s\n", showProblem(p))
		}
		for _, p := range s.Refused {
			fmt.Fprintf(&b, "  refused here %s\n", showProblem(p))
		}
	}
	if len(p.Tenants) == 0 {
		b.WriteString("nothing is served\n")
	}
	for _, x := range c.Listeners {
		fmt.Fprintf(&b, "changed: %s listener %s\n", verb(x.Old, x.New), x.Socket)
	}
	for _, x := range c.Frontends {
		fmt.Fprintf(&b, "changed: %s frontend %s %s\n", verb(x.Old, x.New), x.ID.LoadBalancer, x.ID.Socket())
	}
	for _, x := range c.Pools {
		fmt.Fprintf(&b, "changed: %s pool %s\n", verb(x.Old, x.New), x.ID)
	}
	for _, x := range c.Groups {
		for _, m := range x.Members {
			fmt.Fprintf(&b, "changed: %s member %s of %s\n", verb(m.Old, m.New), m.Key.Address, x.ID)
		}
	}
	return b.String()
}

func verb[T any](old, next *T) string {
	switch {
	case old == nil:
		return "new"
	case next == nil:
		return "gone"
	}
	return "other"
}

func unless0(text string, d time.Duration) string {
	if d == 0 {
		return ""
	}
	return text + d.String()
}

func showFrontend(f *lb.Frontend) string {
	out := unless0(", idle timeout ", f.IdleTimeout)
	if len(f.Sources) > 0 {
		out += fmt.Sprintf(", for %v", f.Sources)
	}
	if f.ProxyProtocol != 0 {
		out += fmt.Sprintf(", PROXY v%d", f.ProxyProtocol)
	}
	if f.Assign {
		out += ", assigned"
	}
	return out
}

func showPool(p *lb.Pool) string {
	out := ""
	if p.Check.ProxyProtocol != 0 {
		out += fmt.Sprintf(", checked with PROXY v%d", p.Check.ProxyProtocol)
	}
	if p.Zone != "" {
		out += ", zone " + p.Zone
	}
	if p.KeepClient {
		out += ", clients shown"
	}
	return out
}

func showMember(m *lb.Member) string {
	out := fmt.Sprintf("%s %s (%s of %s) weight %d", m.Address, m.Name, m.UID, m.TargetGroup, m.Weight)
	if m.Draining {
		out += ", draining"
		if m.DrainFor != lb.DrainUnset {
			out += " for " + m.DrainFor.String()
		}
	}
	if m.Zone != "" {
		out += ", zone " + m.Zone
	}
	if !m.Ready {
		out += ", not ready"
	}
	return out
}

func showProblem(p lb.Problem) string {
	port := ""
	if p.Object.Port != 0 {
		port = fmt.Sprintf(" port %s/%d", p.Object.Protocol, p.Object.Port)
	}
	return fmt.Sprintf("%s %s%s %s: %s %s: %s", p.Object.Kind, p.Object.Name, port, p.Effect, p.Reason, p.Field, p.Message)
}
