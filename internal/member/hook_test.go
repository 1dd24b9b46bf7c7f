package member

import (
	"maps"
	"strings"
	"testing"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
)

func TestAnnotate(t *testing.T) {
	const pre, term = clusterv1.HookPreDrain, clusterv1.HookPreTerminate
	drain, terminate := HookKey(pre, "lb-a"), HookKey(term, "lb-a")
	foreign := "pre-terminate.delete.hook.machine.cluster.x-k8s.io/kcp-cleanup"
	for name, c := range map[string]struct {
		have     map[string]string
		d        Decision
		t        clusterv1.HookType
		deleting bool
		want     map[string]string
	}{
		"first":                      {nil, Decision{State: Adding, Hook: true}, pre, false, map[string]string{NameAnnotation: "lb-a", StatusAnnotation: "adding", drain: HookValue}},
		"by type":                    {nil, Decision{State: Adding, Hook: true}, term, false, map[string]string{NameAnnotation: "lb-a", StatusAnnotation: "adding", terminate: HookValue}},
		"no hook":                    {nil, Decision{State: Adding}, clusterv1.HookNone, false, map[string]string{NameAnnotation: "lb-a", StatusAnnotation: "adding"}},
		"by default it is pre-drain": {nil, Decision{State: Adding, Hook: true}, "", false, map[string]string{NameAnnotation: "lb-a", StatusAnnotation: "adding", drain: HookValue}},
		"lifted": {
			map[string]string{NameAnnotation: "lb-a", StatusAnnotation: "removing", drain: HookValue, foreign: "kcp", "x": "y"}, Decision{State: Removed}, pre, true,
			map[string]string{NameAnnotation: "lb-a", StatusAnnotation: "removed", foreign: "kcp", "x": "y"},
		},
		"its type changes": {
			map[string]string{NameAnnotation: "lb-a", StatusAnnotation: "active", drain: HookValue}, Decision{State: Active, Hook: true}, term, false,
			map[string]string{NameAnnotation: "lb-a", StatusAnnotation: "active", terminate: HookValue},
		},
		"its type changes while the Machine is deleted: it keeps what it has": {
			map[string]string{NameAnnotation: "lb-a", StatusAnnotation: "removing", drain: HookValue}, Decision{State: Removing, Hook: true}, term, true,
			map[string]string{NameAnnotation: "lb-a", StatusAnnotation: "removing", drain: HookValue},
		},
		"a second LoadBalancer": {
			map[string]string{NameAnnotation: "lb-b", StatusAnnotation: "removing"}, Decision{State: Active}, pre, false,
			map[string]string{NameAnnotation: "lb-a,lb-b", StatusAnnotation: "lb-a=active,lb-b=removing"},
		},
		"one of two goes": {
			map[string]string{NameAnnotation: "lb-a,lb-b", StatusAnnotation: "lb-a=removed,lb-b=active"}, Decision{}, pre, false,
			map[string]string{NameAnnotation: "lb-b", StatusAnnotation: "active"},
		},
		"the last goes":              {map[string]string{NameAnnotation: "lb-a", StatusAnnotation: "removed", drain: HookValue}, Decision{}, pre, false, map[string]string{}},
		"what isn't ours stays":      {map[string]string{NameAnnotation: "p,q", StatusAnnotation: "up"}, Decision{State: Active}, pre, false, map[string]string{NameAnnotation: "p,q", StatusAnnotation: "lb-a=active"}},
		"a name of others'":          {map[string]string{NameAnnotation: "kcp"}, Decision{State: Active}, pre, false, map[string]string{NameAnnotation: "kcp", StatusAnnotation: "lb-a=active"}},
		"it stays theirs":            {map[string]string{NameAnnotation: "kcp", StatusAnnotation: "lb-a=active"}, Decision{State: Removing}, pre, false, map[string]string{NameAnnotation: "kcp", StatusAnnotation: "lb-a=removing"}},
		"and outlasts ours":          {map[string]string{NameAnnotation: "kcp", StatusAnnotation: "lb-a=active"}, Decision{}, pre, false, map[string]string{NameAnnotation: "kcp"}},
		"a name that was never ours": {map[string]string{NameAnnotation: "kcp"}, Decision{}, pre, false, map[string]string{NameAnnotation: "kcp"}},
		"they name the same one":     {map[string]string{NameAnnotation: "lb-a"}, Decision{State: Active}, pre, false, map[string]string{NameAnnotation: "lb-a", StatusAnnotation: "active"}},
		"they write over ours":       {map[string]string{NameAnnotation: "kcp", StatusAnnotation: "lb-a=removed,lb-b=active"}, Decision{State: Active}, pre, false, map[string]string{NameAnnotation: "kcp", StatusAnnotation: "lb-a=active,lb-b=active"}},
	} {
		t.Run(name, func(t *testing.T) {
			before := maps.Clone(c.have)
			got := Annotate(c.have, "lb-a", c.d, c.t, c.deleting)
			if !maps.Equal(got, c.want) {
				t.Errorf("%v, not %v", got, c.want)
			}
			if !maps.Equal(c.have, before) {
				t.Errorf("the map that was given is %v now", c.have)
			}
			if again := Annotate(got, "lb-a", c.d, c.t, c.deleting); !maps.Equal(again, got) {
				t.Errorf("a second time it is %v", again)
			}
			if StateIn(got, "lb-a") != c.d.State {
				t.Errorf("it reads as %q", StateIn(got, "lb-a"))
			}
		})
	}
}

func TestHooksAreKeysThatClusterAPITakes(t *testing.T) {
	long := strings.Repeat("a", 63)
	seen := map[string]bool{}
	for _, lb := range []string{"a", "b", long, long[:62] + "b"} {
		for _, k := range []clusterv1.HookType{clusterv1.HookPreDrain, clusterv1.HookPreTerminate} {
			key := HookKey(k, lb)
			_, name, _ := strings.Cut(key, "/")
			if len(name) > 63 || !strings.HasPrefix(name, "lb-") || seen[key] {
				t.Errorf("%s of %s", key, lb)
			}
			seen[key] = true
			if !Hooked(map[string]string{key: ""}, lb) {
				t.Errorf("%s isn't found", key)
			}
		}
	}
	if HookKey(clusterv1.HookNone, "a") != "" || Hooked(map[string]string{"": "", "pre-drain.delete.hook.machine.cluster.x-k8s.io/other": ""}, "a") {
		t.Error("there is a hook where none is wanted")
	}
}

func TestNamed(t *testing.T) {
	for _, c := range []struct{ name, status, want string }{{"", "", ""}, {"a", "active", "a"}, {"kcp", "a=active,b=removed", "a b kcp"}, {"b,a", "a=active,b=active", "a b"}} {
		if got := strings.Join(Named(map[string]string{NameAnnotation: c.name, StatusAnnotation: c.status}), " "); got != c.want {
			t.Errorf("%s and %s: %q", c.name, c.status, got)
		}
	}
}
