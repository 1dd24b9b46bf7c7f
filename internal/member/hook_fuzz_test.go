package member

import (
	"maps"
	"slices"
	"testing"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
)

// Whatever is written on a Machine: a LoadBalancer's state is read as it was written, those of others stay, and so do all other
// annotations. It has the hook that it wants and no other; one whose Machine is being deleted keeps what it has.
func FuzzAnnotate(f *testing.F) {
	for _, a := range [][2]string{
		{"", ""}, {"lb-a", "active"}, {"lb-b", "removing"}, {"lb-a,lb-b", "lb-a=removed,lb-b=active"}, {"kcp", ""}, {"kcp", "lb-a=active"},
		{"p,q", "up"}, {"", "up"}, {"lb-b", "x,y"}, {"lb-b", "lb-b=x=y"}, {"a=b", "up"}, {"lb-b", "lb-b=,=active,,lb-a=active,lb-a=removed"}, {",", "="},
	} {
		for kind := range byte(3) {
			f.Add(a[0], a[1], byte(1), true, kind, false, true, false)
			f.Add(a[0], a[1], byte(3), true, kind, true, true, true)
			f.Add(a[0], a[1], byte(0), false, kind, true, false, true)
		}
	}
	f.Fuzz(func(t *testing.T, name, status string, state byte, hook bool, kind byte, deleting, drain, terminate bool) {
		const loadBalancer, other = "lb-a", "pre-drain.delete.hook.machine.cluster.x-k8s.io/other"
		have := map[string]string{"x": name, other: status}
		for key, value := range map[string]string{NameAnnotation: name, StatusAnnotation: status} {
			if value != "" {
				have[key] = value
			}
		}
		keys := []string{HookKey(clusterv1.HookPreDrain, loadBalancer), HookKey(clusterv1.HookPreTerminate, loadBalancer)}
		for i, is := range []bool{drain, terminate} {
			if is {
				have[keys[i]] = ""
			}
		}
		before := maps.Clone(have)
		states := []State{"", Adding, Active, Removing, Removed}
		d := Decision{State: states[int(state)%len(states)], Hook: hook}
		of := []clusterv1.HookType{clusterv1.HookPreDrain, clusterv1.HookPreTerminate, clusterv1.HookNone}[kind%3]
		got := Annotate(have, loadBalancer, d, of, deleting)
		if !maps.Equal(have, before) {
			t.Fatalf("the map that was given is %v now", have)
		}
		want := statesIn(have)
		delete(want, loadBalancer)
		if d.State != "" {
			want[loadBalancer] = d.State
		}
		if after := statesIn(got); !maps.Equal(after, want) {
			t.Errorf("%q, %q: the states are %v, want %v", got[NameAnnotation], got[StatusAnnotation], after, want)
		}
		if d.State != "" && !slices.Contains(Named(got), loadBalancer) {
			t.Errorf("%q, %q: it isn't named", got[NameAnnotation], got[StatusAnnotation])
		}
		if again := Annotate(got, loadBalancer, d, of, deleting); !maps.Equal(again, got) {
			t.Errorf("a second time it is %v, not %v", again, got)
		}
		kept := hook && deleting && (drain || terminate)
		for i, had := range []bool{drain, terminate} {
			wanted := hook && keys[i] == HookKey(of, loadBalancer)
			if kept {
				wanted = had
			}
			if _, has := got[keys[i]]; has != wanted {
				t.Errorf("hook %s: %t, want %t", keys[i], has, wanted)
			}
		}
		for _, key := range append(keys, NameAnnotation, StatusAnnotation) {
			delete(got, key)
			delete(before, key)
		}
		if !maps.Equal(got, before) {
			t.Errorf("what is of others is %v, want %v", got, before)
		}
	})
}
