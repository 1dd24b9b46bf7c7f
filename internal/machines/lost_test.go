package machines

import (
	"strings"
	"testing"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/member"
)

// Where all Machines are missing whose targets serve, nothing is concluded from that.
func TestMissing(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(*Facts)
		missing bool
	}{
		"all there":             {func(*Facts) {}, false},
		"one is there":          {func(f *Facts) { f.Machines = f.Machines[:1] }, false},
		"one is there, leaving": {func(f *Facts) { f.Machines = f.Machines[:1]; f.Machines[0].Deleting = true }, false},
		"none":                  {func(f *Facts) { f.Machines = nil }, true},
		"others came":           {func(f *Facts) { f.Machines = []Machine{of("3")} }, false},
		"others leave":          {func(f *Facts) { f.Machines = []Machine{of("3", deleting)} }, true},
		"another Cluster's":     {func(f *Facts) { f.Machines = []Machine{of("3", func(m *Machine) { m.Labels = nil })} }, true},
		"the Cluster leaves":    {func(f *Facts) { f.Machines, f.Shared.ClusterLeaving = nil, true }, false},
		"none, and all drain": {func(f *Facts) {
			f.Machines = nil
			for i := range f.Groups[0].Object.Spec.Targets {
				f.Groups[0].Object.Spec.Targets[i].State = v1alpha1.TargetDraining
			}
		}, false},
		"none is placed": {func(f *Facts) { f.Machines, f.Groups[0].Object.Spec.Targets = nil, nil }, false},
	} {
		f := facts(of("1"), of("2"))
		c.change(&f)
		if why := Missing(f); (why != "") != c.missing || c.missing && !strings.Contains(why, "api-members-0") {
			t.Errorf("%s: %q", name, why)
		}
	}
}

func TestNoted(t *testing.T) {
	f := facts(of("1"), of("2"))
	if cluster, placed := f.Noted(); cluster != "" || placed != 2 || !f.Serving()["uid-1"] {
		t.Errorf("%q, %d, %v", cluster, placed, f.Serving())
	}
	f.Groups[0].Object.Labels = map[string]string{v1alpha1.LabelCluster: "prod"}
	f.Groups = append(f.Groups, Group{})
	if cluster, placed := f.Noted(); cluster != "prod" || placed != 2 {
		t.Errorf("%q, %d", cluster, placed)
	}
}

func TestKept(t *testing.T) {
	for state, want := range map[member.State]bool{"": false, member.Waiting: true, member.Active: true, member.Disabled: true, member.Removing: false, member.Removed: false} {
		m := of("1", func(m *Machine) {
			m.Annotations = member.Annotate(nil, "api", member.Decision{State: state}, "", false)
		})
		if f := facts(); f.Kept(&m) != want {
			t.Errorf("%q", state)
		}
	}
}
