package machines

import "testing"

// Where nobody checks targets, they say whether their Machines are ready, as far as that is known; elsewhere they say nothing of it.
func TestReadyTargets(t *testing.T) {
	no := false
	for name, c := range map[string]struct {
		says           string
		was, want      *bool
		fresh, checked bool
	}{
		"ready":               {says: "True", was: &no},
		"not ready":           {says: "False", want: &no},
		"unknown, was ready":  {says: "Unknown"},
		"unknown, was not":    {says: "Unknown", was: &no, want: &no},
		"unknown, and is new": {says: "Unknown", fresh: true, want: &no},
		"new":                 {fresh: true},
		"nobody says":         {was: &no},
		"checked by proxies":  {says: "False", was: &no, checked: true},
	} {
		f := facts(of("1", func(m *Machine) { m.Ready = c.says }))
		f.Unchecked = !c.checked
		if f.Groups[0].Object.Spec.Targets[0].Ready = c.was; c.fresh {
			f.Groups[0].Object.Spec.Targets = nil
		}
		p := Make(f)
		got := p.Groups[0][0].Ready
		if (got == nil) != (c.want == nil) || got != nil && *got != *c.want {
			t.Errorf("%s: %v", name, got)
		}
		if changes := c.fresh || (c.was == nil) != (c.want == nil); p.Changes(f) != changes {
			t.Errorf("%s: whether it is to be written: %t", name, !changes)
		}
	}
}
