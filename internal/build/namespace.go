package build

import (
	"maps"
	"net/netip"
	"slices"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/lb"
	"k8s.io/apimachinery/pkg/labels"
)

// namespace remembers what one namespace's objects became.
type namespace struct {
	name          string
	tenant        *v1alpha1.Tenant
	loadBalancers map[string]*loadBalancer
	targetGroups  map[string]*targetGroup
	// named are those of them that have names.
	named map[string]*targetGroup
	// admission is what the Tenant's quota leaves out of them; recount: it is to be judged anew.
	admission Admission
	recount   bool
	// byPair finds TargetGroups by label, as key=value.
	byPair map[string]map[string]*targetGroup
	// choices by key; choicesByPair by the label that they demand, "" for none.
	choices       map[string]*choice
	choicesByPair map[string]map[string]*choice

	// What is to be looked at again.
	dirty        map[string]bool
	dirtyChoices map[string]*choice

	// base is what the objects say; snapshot, what is served of it; nil: nothing.
	base     *lb.Snapshot
	snapshot *lb.Snapshot
	// kept are the choices that the snapshot needs where it is not base.
	kept map[string]*choice
	// problemsChanged: a TargetGroup's Problems are others than those in base.
	problemsChanged bool
	// wanted names are those of the TargetGroups that a LoadBalancer sends to, sorted, each once.
	wanted []string
}

type loadBalancer struct {
	object *clusterv1.LoadBalancer
	choice *choice
	outputs
}

func newNamespace(name string) *namespace {
	return &namespace{
		name: name, loadBalancers: map[string]*loadBalancer{}, targetGroups: map[string]*targetGroup{},
		byPair: map[string]map[string]*targetGroup{}, choices: map[string]*choice{}, choicesByPair: map[string]map[string]*choice{},
		named: map[string]*targetGroup{}, dirty: map[string]bool{}, dirtyChoices: map[string]*choice{},
	}
}

// empty says that the namespace can be forgotten.
func (n *namespace) empty() bool {
	return len(n.loadBalancers)+len(n.targetGroups)+len(n.choices)+len(n.dirty)+len(n.dirtyChoices) == 0 && n.base == nil && n.snapshot == nil
}

// setLoadBalancer takes an object in its new form, nil if it is gone, and says whether anything may change by it.
func (n *namespace) setLoadBalancer(name string, l *clusterv1.LoadBalancer) bool {
	old := n.loadBalancers[name]
	switch {
	case l == nil && old == nil:
		return false
	case l == nil:
		old.object = nil
	case old == nil:
		n.loadBalancers[name] = &loadBalancer{object: l}
	default:
		same := old.object != nil && servedAlike(old.object, l)
		old.object = l
		if same {
			return false
		}
	}
	n.dirty[name] = true
	return true
}

// setTenant takes the namespace's Tenant, nil for none; names are the addresses that names stand for.
func (n *namespace) setTenant(t *v1alpha1.Tenant, names map[string][]netip.Addr) {
	was := reachOf(n.tenant)
	n.tenant, n.recount = t, true
	for name := range n.loadBalancers {
		n.dirty[name] = true
	}
	if now := reachOf(t); !was.equal(now) {
		for name, g := range maps.Clone(n.targetGroups) {
			n.putTargetGroup(name, readTargetGroup(g.object, now, n.admission, names))
		}
	}
}

// setTargetGroup takes an object in its new form, nil if it is gone, and says whether anything may change by it.
func (n *namespace) setTargetGroup(name string, g *v1alpha1.TargetGroup, names map[string][]netip.Addr) bool {
	var next *targetGroup
	if g != nil {
		next = readTargetGroup(g, reachOf(n.tenant), n.admission, names)
	}
	n.recount = n.recount || n.tenant != nil && n.tenant.Spec.Quota != nil && n.tenant.Spec.Quota.Targets != nil
	return n.putTargetGroup(name, next) || n.recount
}

// admit judges anew what the Tenant's quota leaves out.
func (n *namespace) admit(names map[string][]netip.Addr) {
	if !n.recount {
		return
	}
	n.recount = false
	groups := make([]*v1alpha1.TargetGroup, 0, len(n.targetGroups))
	for _, g := range n.targetGroups {
		groups = append(groups, g.object)
	}
	was := n.admission
	if n.admission = Admit(groups, n.tenant); n.admission.equal(was) {
		return
	}
	for _, g := range groups {
		if was.concerns(n.admission, g) {
			n.putTargetGroup(g.Name, readTargetGroup(g, reachOf(n.tenant), n.admission, names))
		}
	}
}

func (n *namespace) putTargetGroup(name string, next *targetGroup) bool {
	old := n.targetGroups[name]
	if old == nil && next == nil {
		return false
	}
	n.problemsChanged = n.problemsChanged || !slices.Equal(problemsOf(old), problemsOf(next))
	delete(n.named, name)
	if next != nil && len(next.names) > 0 {
		n.named[name] = next
	}
	if old != nil && next != nil && old.sendsLike(next) && maps.Equal(old.object.Labels, next.object.Labels) {
		n.targetGroups[name] = next
		for k, v := range next.object.Labels {
			n.byPair[k+"="+v][name] = next
		}
		return n.problemsChanged || !slices.Equal(old.absent, next.absent) || !slices.Equal(old.names, next.names)
	}
	if old != nil {
		delete(n.targetGroups, name)
		for k, v := range old.object.Labels {
			remove(n.byPair, k+"="+v, name)
		}
		n.touchChoices(old.object.Labels)
	}
	if next != nil {
		n.targetGroups[name] = next
		for k, v := range next.object.Labels {
			insert(n.byPair, k+"="+v, name, next)
		}
		n.touchChoices(next.object.Labels)
	}
	return true
}

func problemsOf(g *targetGroup) []lb.Problem {
	if g == nil {
		return nil
	}
	return g.problems
}

// touchChoices marks the choices that select a TargetGroup with these labels.
func (n *namespace) touchChoices(l map[string]string) {
	touch := func(cs map[string]*choice) {
		for key, c := range cs {
			if c.selector.Matches(labels.Set(l)) {
				n.dirtyChoices[key] = c
			}
		}
	}
	touch(n.choicesByPair[""])
	for k, v := range l {
		touch(n.choicesByPair[k+"="+v])
	}
}

// candidates holds all TargetGroups that c selects, and maybe others. The slice is the caller's.
func (n *namespace) candidates(c *choice) []*targetGroup {
	from := n.targetGroups
	switch {
	case c.key == nothingKey:
		return nil
	case c.pair != "":
		from = n.byPair[c.pair]
	}
	return slices.Collect(maps.Values(from))
}

// choose finds or makes the choice of a selector.
func (n *namespace) choose(s labels.Selector) *choice {
	key := selectionKey(s)
	if c := n.choices[key]; c != nil {
		return c
	}
	c := &choice{key: key, selector: s, pair: pair(s), users: map[string]bool{}}
	n.choices[key] = c
	insert(n.choicesByPair, c.pair, key, c)
	c.resolve(n.candidates(c))
	return c
}

// forget drops a choice that nobody has any more.
func (n *namespace) forget(c *choice) {
	if len(c.users) == 0 && !c.kept {
		delete(n.choices, c.key)
		delete(n.dirtyChoices, c.key)
		remove(n.choicesByPair, c.pair, c.key)
	}
}

func insert[V any](m map[string]map[string]V, k, name string, v V) {
	if m[k] == nil {
		m[k] = map[string]V{}
	}
	m[k][name] = v
}

func remove[V any](m map[string]map[string]V, k, name string) {
	if delete(m[k], name); len(m[k]) == 0 {
		delete(m, k)
	}
}
