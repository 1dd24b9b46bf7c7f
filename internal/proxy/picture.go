package proxy

import (
	"slices"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
)

// objects are those of each resource.
type objects [resources]map[Key]Object

func noObjects() (o objects) {
	for r := range o {
		o[r] = map[Key]Object{}
	}
	return o
}

// note takes a change in.
func (o *objects) note(c Change) {
	if c.Object == nil {
		delete(o[c.Resource], c.Key)
	} else {
		o[c.Resource][c.Key] = c.Object
	}
}

// picture holds the objects that are built from: the hub's, but for what is
// held although the hub has it no more, and for what is frozen (freeze.go).
// One goroutine uses it.
type picture struct {
	pool  string
	shown objects
	// held are shown, and the hub has them no more.
	held [resources]map[Key]bool
	// granted counts the Addresses that the ledger grants here to a LoadBalancer, grantedIn those of a namespace.
	granted   map[Key]int
	grantedIn map[string]int
	// epoch is the last one that was adopted.
	epoch int64
	// witnessed is that in which it thawed last; 0: it never did, or serves nothing of before.
	witnessed int64
	catchUp
}

// newPicture shows what a file holds; g may be nil. It shows nothing of the hub before that is complete.
func newPicture(pool string, g *LastGood) *picture {
	p := &picture{pool: pool, shown: noObjects(), granted: map[Key]int{}, grantedIn: map[string]int{}}
	for r := range p.held {
		p.held[r] = map[Key]bool{}
	}
	p.behind = true
	if g != nil {
		for r := range resources {
			for k, o := range g.Objects[r] {
				p.show(Change{r, k, o})
			}
		}
	}
	return p
}

// show makes a change shown.
func (p *picture) show(c Change) {
	if c.Resource == Addresses {
		p.count(p.shown[Addresses][c.Key], -1)
		p.count(c.Object, 1)
	}
	p.shown.note(c)
}

// count adds what an Address grants to LoadBalancers.
func (p *picture) count(o Object, n int) {
	for _, h := range grants(o, p.pool) {
		k := Key{h.Namespace, h.Name}
		if p.granted[k] += n; p.granted[k] == 0 {
			delete(p.granted, k)
		}
		if p.grantedIn[h.Namespace] += n; p.grantedIn[h.Namespace] == 0 {
			delete(p.grantedIn, h.Namespace)
		}
	}
}

// grants are the holders to which an Address is granted in a pool of proxies; o may be nil.
func grants(o Object, pool string) []v1alpha1.Holder {
	a, _ := o.(*v1alpha1.Address)
	if a == nil || a.DeletionTimestamp != nil || a.Spec.ProxyPool != pool ||
		a.Spec.Phase != v1alpha1.AddressGranted && a.Spec.Phase != v1alpha1.AddressMoved {
		return nil
	}
	return a.Spec.Holders
}

// settles is the order in which changes are followed: what decides whether another is held comes first.
var settles = [...]Resource{Addresses, LoadBalancers, TargetGroups, Classes, Tenants}

// follow shows what the hub says, but for what is held. It returns what is shown otherwise now.
func (p *picture) follow(changes []Change) []Change {
	var out []Change
	show := func(c Change) {
		delete(p.held[c.Resource], c.Key)
		p.show(c)
		out = append(out, c)
	}
	for _, r := range settles {
		for _, c := range changes {
			switch {
			case c.Resource != r:
			case c.Object != nil:
				show(c)
			case p.shown[r][c.Key] != nil:
				p.held[r][c.Key] = true // Whether it stays so is asked once it is known what else is gone.
			}
		}
		for k := range p.held[r] {
			if !p.holds(r, k) {
				show(Change{r, k, nil})
			}
		}
	}
	return out
}

// holds says that an object that is shown stays so, though the hub has it no more. In a healthy hub none does: finalizers
// see to it that the ledger lets go of a LoadBalancer before it is gone, and that classes and Tenants are not in use.
func (p *picture) holds(r Resource, k Key) bool {
	switch r {
	case LoadBalancers: // The ledger has the last word.
		return p.granted[k] > 0 && p.shown[r][k].GetDeletionTimestamp() == nil
	case TargetGroups: // It goes with what sends to it.
		return p.holdsIn(k.Namespace) || moves(p.shown[r][k]) && p.grantedIn[k.Namespace] > 0
	case Classes:
		for lb := range p.granted {
			if l, ok := p.shown[LoadBalancers][lb].(*clusterv1.LoadBalancer); ok && (l.Spec.ClassName == k.Name || l.Spec.ClassName == "") {
				return true
			}
		}
	case Tenants: // Without it the namespace would be the hub operator's own, which may do more.
		t := p.shown[r][k].(*v1alpha1.Tenant)
		return p.grantedIn[t.NamespaceName()] > 0 && !p.hasTenant(t.NamespaceName())
	}
	return false
}

// hasTenant says that the hub has a Tenant of a namespace.
func (p *picture) hasTenant(namespace string) bool {
	for k, x := range p.shown[Tenants] {
		if !p.held[Tenants][k] && x.(*v1alpha1.Tenant).NamespaceName() == namespace {
			return true
		}
	}
	return false
}

// holdsIn says that a LoadBalancer of a namespace is held.
func (p *picture) holdsIn(namespace string) bool {
	for k := range p.held[LoadBalancers] {
		if k.Namespace == namespace {
			return true
		}
	}
	return false
}

// moves says that an object is deleted because it moves to another hub.
func moves(o Object) bool {
	_, ok := o.GetAnnotations()[clusterv1.MoveAnnotation]
	return ok
}

// tenants are the Tenants by their namespace.
func (o *objects) tenants() map[string]*v1alpha1.Tenant {
	out := make(map[string]*v1alpha1.Tenant, len(o[Tenants]))
	for _, x := range o[Tenants] {
		t := x.(*v1alpha1.Tenant)
		out[t.NamespaceName()] = t
	}
	return out
}

// epoch is the highest that Tenants speak of.
func (o *objects) epoch() (n int64) {
	for _, x := range o[Tenants] {
		n = max(n, x.(*v1alpha1.Tenant).Status.HubEpoch)
	}
	return n
}

// covers says that all of want is among have.
func covers(have, want []string) bool {
	return !slices.ContainsFunc(want, func(p string) bool { return !slices.Contains(have, p) })
}
