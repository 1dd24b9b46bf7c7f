package simulation

import (
	"fmt"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/internal/machines"
	"fairlead.dev/fairlead/internal/member"
)

// unfinishedMachines says what has not come to its end of Machines; empty: all has.
func (w *World) unfinishedMachines(live int) string {
	for _, m := range w.machines() {
		if m.GetDeletionTimestamp() != nil {
			return fmt.Sprintf("Machine %s is deleted, and isn't gone: %v", m.GetName(), m.GetAnnotations())
		}
		for _, name := range controlNames {
			l, _ := w.server.objects[loadBalancers][controlKey(name)].(*clusterv1.LoadBalancer)
			state, hooked := member.StateIn(m.GetAnnotations(), name), member.Hooked(m.GetAnnotations(), name)
			wanted := l != nil && m.GetLabels()[poolLabel] != ""
			switch {
			case !wanted && hooked:
				return fmt.Sprintf("Machine %s carries a hook of %s, of which it is no target", m.GetName(), name)
			case l == nil && state != "":
				return fmt.Sprintf("Machine %s is %s of %s, which is gone", m.GetName(), state, name)
			case wanted && w.places(name, string(m.GetUID())) && hooked != (machines.HookType(l) != clusterv1.HookNone):
				return fmt.Sprintf("Machine %s serves for %s, and its hook is there: %v", m.GetName(), name, hooked)
			case wanted && live > 0 && !disabled(m) && programmed(l) && w.fails(m, l):
				if state == member.Active {
					return fmt.Sprintf("Machine %s fails its check, and is active of %s", m.GetName(), name)
				}
			case wanted && live > 0 && !w.inferred(m) && !disabled(m) && programmed(l) && state != member.Active:
				return fmt.Sprintf("Machine %s is %q of %s", m.GetName(), state, name)
			case wanted && live > 0 && disabled(m) && state != member.Disabled:
				return fmt.Sprintf("Machine %s is disabled, and %q of %s", m.GetName(), state, name)
			}
		}
	}
	return ""
}
