package build

import (
	"maps"
	"net/netip"
	"slices"

	"fairlead.dev/fairlead/internal/lb"
	"k8s.io/apimachinery/pkg/labels"
)

// Names are the names of targets that a Program needs the addresses of, by the tenant whose
// targets have them, sorted, each once, as of the last call of Program. It is never changed
// afterwards, and the same map as before if nothing changed.
func (b *Builder) Names() map[lb.TenantID][]string {
	if b.wantedChanged {
		b.wantedChanged = false
		all := map[lb.TenantID][]string{}
		for _, n := range b.namespaces {
			if len(n.wanted) > 0 {
				all[lb.TenantID(n.name)] = n.wanted
			}
		}
		if !maps.EqualFunc(all, b.wanted, slices.Equal[[]string]) {
			b.wanted = all
		}
	}
	return b.wanted
}

// SetNames takes what names of targets stand for, all of them. A name that is
// missing stands for nothing that is known. The map must not be changed afterwards.
func (b *Builder) SetNames(names map[string][]netip.Addr) {
	old := b.names
	b.names = names
	if maps.EqualFunc(old, names, slices.Equal[[]netip.Addr]) {
		return
	}
	for _, n := range b.namespaces {
		for name, g := range maps.Clone(n.named) {
			if slices.ContainsFunc(g.names, func(x string) bool { return !slices.Equal(old[x], names[x]) }) &&
				n.putTargetGroup(name, readTargetGroup(g.object, reachOf(n.tenant), n.admission, names)) {
				b.dirty[n.name] = n
			}
		}
	}
}

// settleNames looks at the names of a namespace anew, and says whether others are wanted.
func (n *namespace) settleNames() bool {
	var now []string
	for _, g := range n.named {
		if n.selects(g, func(*choice) bool { return true }) {
			now = append(now, g.names...)
		}
	}
	slices.Sort(now)
	if now = slices.Compact(now); slices.Equal(now, n.wanted) {
		return false
	}
	n.wanted = now
	return true
}

// absent targets of the TargetGroups that something is served to, sorted.
func (n *namespace) absent() []lb.Absent {
	var out []lb.Absent
	for _, g := range n.named {
		if len(g.absent) > 0 && n.selects(g, func(c *choice) bool { return c.served != byFamily[int]{} }) {
			out = append(out, g.absent...)
		}
	}
	slices.SortFunc(out, lb.Absent.Compare)
	return out
}

// selects says that a choice of which is true selects the TargetGroup.
func (n *namespace) selects(g *targetGroup, of func(*choice) bool) bool {
	any := func(cs map[string]*choice) bool {
		for _, c := range cs {
			if of(c) && c.selector.Matches(labels.Set(g.object.Labels)) {
				return true
			}
		}
		return false
	}
	if any(n.choicesByPair[""]) {
		return true
	}
	for k, v := range g.object.Labels {
		if any(n.choicesByPair[k+"="+v]) {
			return true
		}
	}
	return false
}
