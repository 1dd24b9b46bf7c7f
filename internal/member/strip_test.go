package member

import (
	"maps"
	"testing"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
)

// Of whatever LoadBalancers: what they wrote goes, what others wrote stays.
func TestStrip(t *testing.T) {
	ours := func(before map[string]string, names ...string) map[string]string {
		for _, n := range names {
			before = Annotate(before, n, Decision{State: Active, Hook: true}, clusterv1.HookPreDrain, false)
		}
		return before
	}
	theirs := map[string]string{
		"pre-drain.delete.hook.machine.cluster.x-k8s.io/theirs":            "them",
		"pre-drain.delete.hook.machine.cluster.x-k8s.io/lb-theirs":         "them",
		"pre-terminate.delete.hook.machine.cluster.x-k8s.io/kcp-cleanup":   "",
		clusterv1.DisabledAnnotation:                                       "",
		"example.com/x":                                                    "y",
		"pre-drain.delete.hook.machine.cluster.x-k8s.io/fairlead.dev.them": HookValue,
	}
	named := map[string]string{NameAnnotation: "api"}
	for name, c := range map[string]struct{ have, want map[string]string }{
		"nothing":                       {nil, nil},
		"of one":                        {ours(nil, "api"), nil},
		"of two":                        {ours(nil, "api", "internal"), nil},
		"beside others'":                {ours(theirs, "api"), theirs},
		"a name that its control plane": {ours(map[string]string{NameAnnotation: "theirs"}, "api"), map[string]string{NameAnnotation: "theirs"}},
		"a hook whose state is lost":    {map[string]string{HookKey(clusterv1.HookPreTerminate, "api"): HookValue}, nil},
		"a name alone":                  {named, named},
		"a state that nobody can read":  {map[string]string{NameAnnotation: "a,b", StatusAnnotation: "active"}, map[string]string{NameAnnotation: "a,b"}},
	} {
		before := maps.Clone(c.have)
		if got := Strip(c.have); !maps.Equal(got, c.want) {
			t.Errorf("%s: %v", name, got)
		}
		if !maps.Equal(before, c.have) {
			t.Errorf("%s: what it was given is %v now", name, c.have)
		}
	}
}
