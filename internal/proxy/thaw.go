package proxy

import (
	"maps"
	"slices"
	"strings"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
)

// disputed is what is shown as served, and not granted by the ledger that was heard: what still freezes Addresses, kept up with
// one by one. An Address that isn't in it is shown as it was heard, unless that grants more.
type disputed struct {
	// by Address, in which namespaces; and by namespace, of which Addresses.
	addresses map[Key][]string
	within    map[string]map[Key][]v1alpha1.ServedAddress
	// serves is within as it is told. It is immutable.
	serves map[string][]v1alpha1.ServedAddress
	// more are the namespaces to which the ledger that was heard grants more on an Address than is shown, moreIn counts them: who
	// else serves that is not known before the ledger has thawed.
	more   map[Key][]string
	moreIn map[string]int
}

// thaws says that an object follows the hub again.
func (p *picture) thaws(r Resource, k Key) bool {
	switch r {
	case Addresses:
		return len(p.addresses[k]) == 0 && len(p.more[k]) == 0
	case LoadBalancers, TargetGroups:
		return p.thawed[k.Namespace] || p.ledger && !p.still[k.Namespace]
	case Classes:
		return !p.stillOf(k.Name)
	case Tenants:
		return !p.stillUnder(p.heard[r][k]) && !p.stillUnder(p.shown[r][k])
	}
	return true
}

// stillUnder says that the namespace of a Tenant has not thawed; o may be nil.
func (p *picture) stillUnder(o Object) bool {
	t, _ := o.(*v1alpha1.Tenant)
	return t != nil && p.still[t.NamespaceName()]
}

// stillOf says that a LoadBalancer of a class is served in a namespace that has not thawed.
func (p *picture) stillOf(class string) bool {
	for k := range p.granted {
		if l, ok := p.shown[LoadBalancers][k].(*clusterv1.LoadBalancer); ok && p.still[k.Namespace] && l.Spec.ClassName == class {
			return true
		}
	}
	return false
}

// thaw shows what may be, of what was heard; changes were heard last.
func (p *picture) thaw(changes []Change) (out []Change) {
	touched := map[string]bool{}
	if p.still == nil {
		p.still, p.thawed = map[string]bool{}, map[string]bool{}
		p.disputed = disputed{addresses: map[Key][]string{}, within: map[string]map[Key][]v1alpha1.ServedAddress{}, more: map[Key][]string{}, moreIn: map[string]int{}}
		for _, r := range []Resource{LoadBalancers, TargetGroups} {
			for k := range p.shown[r] {
				p.still[k.Namespace] = true
			}
		}
		all := maps.Clone(p.shown[Addresses])
		maps.Copy(all, p.heard[Addresses])
		out = p.compareAll(maps.Keys(all), touched)
		out = append(out, p.advance(p.differences(p.thaws), touched)...)
	} else {
		if !p.ledger {
			out = p.compareAll(addressesIn(changes), touched)
		}
		var may []Change
		for _, c := range changes {
			if p.thaws(c.Resource, c.Key) {
				may = append(may, c)
			}
		}
		out = append(out, p.advance(may, touched)...)
	}
	for {
		thawed, heard, shown := map[string]bool{}, p.heard.tenants(), p.shown.tenants()
		for ns := range p.still {
			if len(p.within[ns]) == 0 && p.mayThaw(ns, heard[ns], shown[ns]) {
				thawed[ns] = true
			}
		}
		if len(thawed) == 0 {
			break
		}
		for ns := range thawed {
			delete(p.still, ns)
			p.thawed[ns] = true
		}
		out = append(out, p.advance(p.differences(p.thaws), touched)...)
	}
	if !p.ledger && len(p.addresses) == 0 {
		p.ledger = true // Namespaces of which nothing was shown follow, too, and Addresses that grant more.
		p.more, p.moreIn = nil, nil
		out = append(out, p.advance(p.differences(p.thaws), touched)...)
	}
	if p.ledger && len(p.still) == 0 {
		return append(out, p.caughtUp()...)
	}
	p.retell(touched)
	p.describe(len(touched) > 0)
	return out
}

// mayThaw says that a namespace of a Tenant, as it was heard and is shown, may follow the hub again. Its Addresses do already.
func (p *picture) mayThaw(namespace string, heard, shown *v1alpha1.Tenant) bool {
	switch {
	case p.grantedIn[namespace] == 0 && p.moreIn[namespace] == 0: // Nothing of it is served, or is to be.
		return true
	case heard != nil:
		return heard.Status.AgentEpoch > p.epoch
	}
	return shown == nil // It is the hub operator's.
}

// advance follows changes, and Addresses that nothing is served on by that any more.
func (p *picture) advance(changes []Change, touched map[string]bool) (out []Change) {
	for len(changes) > 0 {
		done := p.follow(changes)
		out, changes = append(out, done...), nil
		for _, c := range done {
			if c.Resource != LoadBalancers || c.Object != nil {
				continue
			}
			for _, k := range slices.Collect(maps.Keys(p.within[c.Key.Namespace])) {
				if p.compare(k, touched); p.thaws(Addresses, k) {
					changes = append(changes, Change{Addresses, k, p.heard[Addresses][k]})
				}
			}
		}
	}
	return out
}

func addressesIn(changes []Change) func(func(Key) bool) {
	return func(yield func(Key) bool) {
		for _, c := range changes {
			if c.Resource == Addresses && !yield(c.Key) {
				return
			}
		}
	}
}

// compareAll compares Addresses. A stale picture leaves to others what is theirs, and returns what it shows so.
func (p *picture) compareAll(keys func(func(Key) bool), touched map[string]bool) (out []Change) {
	all := slices.Collect(keys)
	if p.frozen.Stale {
		out = p.follow(p.others(all))
	}
	for _, k := range all {
		p.compare(k, touched)
	}
	return out
}

// compare notes anew what is shown as served on an Address, and not granted by the ledger that was heard.
func (p *picture) compare(k Key, touched map[string]bool) {
	for _, ns := range p.addresses[k] {
		touched[ns] = true
		if delete(p.within[ns], k); len(p.within[ns]) == 0 {
			delete(p.within, ns)
		}
	}
	for _, ns := range p.more[k] {
		if p.moreIn[ns]--; p.moreIn[ns] == 0 {
			delete(p.moreIn, ns)
		}
	}
	delete(p.addresses, k)
	delete(p.more, k)
	heard, shown := grants(p.heard[Addresses][k], p.pool), grants(p.shown[Addresses][k], p.pool)
	for _, h := range heard {
		if !granted(shown, h) {
			p.more[k] = append(p.more[k], h.Namespace)
			p.moreIn[h.Namespace]++
		}
	}
	for _, h := range shown {
		if p.shown[LoadBalancers][Key{h.Namespace, h.Name}] == nil || granted(heard, h) {
			continue
		}
		touched[h.Namespace] = true
		if p.within[h.Namespace] == nil {
			p.within[h.Namespace] = map[Key][]v1alpha1.ServedAddress{}
		}
		p.within[h.Namespace][k] = append(p.within[h.Namespace][k], v1alpha1.ServedAddress{Address: k.Name, LoadBalancer: h.Name, Ports: h.Ports})
		p.addresses[k] = append(p.addresses[k], h.Namespace)
	}
}

// granted says that what one holder holds is all granted to it by some.
func granted(by []v1alpha1.Holder, h v1alpha1.Holder) bool {
	return slices.ContainsFunc(by, func(g v1alpha1.Holder) bool {
		return g.Namespace == h.Namespace && g.Name == h.Name && covers(g.Ports, h.Ports)
	})
}

// retell makes serves anew for the namespaces that were touched.
func (p *picture) retell(touched map[string]bool) {
	if len(touched) == 0 {
		return
	}
	next := maps.Clone(p.serves)
	if next == nil {
		next = map[string][]v1alpha1.ServedAddress{}
	}
	for ns := range touched {
		delete(next, ns)
		if len(p.within[ns]) > 0 {
			all := slices.Concat(slices.Collect(maps.Values(p.within[ns]))...)
			slices.SortFunc(all, compareServed)
			next[ns] = all
		}
	}
	p.serves = next
}

// others are those of some Addresses that the ledger that was heard grants to somebody else than the one that is shown.
func (p *picture) others(keys []Key) (out []Change) {
	for _, k := range keys {
		o := p.shown[Addresses][k]
		a, _ := p.heard[Addresses][k].(*v1alpha1.Address)
		if o == nil || a == nil || o == Object(a) {
			continue
		}
		shown := grants(o, p.pool)
		if slices.ContainsFunc(grants(a, a.Spec.ProxyPool), func(g v1alpha1.Holder) bool {
			return a.Spec.ProxyPool != p.pool || !slices.ContainsFunc(shown, func(h v1alpha1.Holder) bool { return g.Namespace == h.Namespace && g.Name == h.Name })
		}) {
			out = append(out, Change{Addresses, k, a})
		}
	}
	return out
}

func compareServed(a, b v1alpha1.ServedAddress) int {
	if c := strings.Compare(a.Address, b.Address); c != 0 {
		return c
	}
	return strings.Compare(a.LoadBalancer, b.LoadBalancer)
}

func sameServed(a, b v1alpha1.ServedAddress) bool {
	return compareServed(a, b) == 0 && slices.Equal(a.Ports, b.Ports)
}
