package proxy

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/build"
	"fairlead.dev/fairlead/internal/lb"
)

// releasing names each address that is to be released, in each holder's namespace, what is released longest first: Gone when its
// listeners are closed and no connection is open. Where a port is granted by itself, that goes for the port.
func releasing(s *served, in func(string) *content) {
	if len(s.Releasing) == 0 {
		return
	}
	closing := map[netip.Addr][]lb.FrontendID{}
	for f := range s.Observation.Closing {
		closing[f.Address] = append(closing[f.Address], f)
	}
	others := &otherGrants{served: s}
	for _, a := range oldestFirst(s.Releasing) {
		e := v1alpha1.ReportedAddress{Name: a.Name, UID: string(a.UID), State: v1alpha1.ReportedGone}
		stands := func(f lb.FrontendID) {
			if !others.have(f, a) {
				e.State, e.OpenConnections = v1alpha1.ReportedDraining, e.OpenConnections+s.Observation.Closing[f]
			}
		}
		whole, sockets := build.ServedAt(a, s.Own)
		for _, at := range whole {
			s.listening(lb.Socket{Address: at}, func(x lb.Socket) bool { return x.Address == at }, stands)
			for _, f := range closing[at] {
				stands(f)
			}
		}
		for _, at := range sockets {
			s.listening(at, func(x lb.Socket) bool { return x == at }, stands)
			for _, f := range closing[at.Address] {
				if f.Socket() == at {
					stands(f)
				}
			}
		}
		seen := map[string]bool{}
		for _, h := range a.Spec.Holders {
			if !seen[h.Namespace] {
				seen[h.Namespace] = true
				c := in(h.Namespace)
				c.Addresses = append(c.Addresses, e)
			}
		}
	}
}

// oldestFirst sorts by how long they are being released: each proxy of a pool in the same way.
func oldestFirst(all []*v1alpha1.Address) []*v1alpha1.Address {
	return slices.SortedStableFunc(slices.Values(all), func(a, b *v1alpha1.Address) int { // all are sorted by name
		return since(a).Compare(since(b))
	})
}

// since is when an Address became Releasing; zero: it doesn't say.
func since(a *v1alpha1.Address) time.Time {
	if a.Spec.ReleasingSince == nil {
		return time.Time{}
	}
	return a.Spec.ReleasingSince.Time
}

// listening calls with who is listened for, from a socket on for as long as they are among those asked for. There may be tens of
// thousands: it goes by their order.
func (s *served) listening(from lb.Socket, among func(lb.Socket) bool, with func(lb.FrontendID)) {
	i, _ := slices.BinarySearchFunc(s.Program.Listeners, from, func(l lb.Listener, at lb.Socket) int { return l.Socket.Compare(at) })
	for ; i < len(s.Program.Listeners) && among(s.Program.Listeners[i].Socket); i++ {
		for _, f := range s.Program.Listeners[i].Frontends {
			with(f)
		}
	}
}

// otherGrants are those at this host's own addresses, which may lie in a range and be granted on all hosts too.
type otherGrants struct {
	served *served
	of     map[lb.FrontendID][]*v1alpha1.Address
}

// have says that a frontend is there by another Address than a, which is being released: it stands in that one's way, or nobody's.
func (o *otherGrants) have(f lb.FrontendID, a *v1alpha1.Address) bool {
	if !slices.Contains(o.served.Own, f.Address) {
		return false
	}
	if o.of == nil {
		o.of = map[lb.FrontendID][]*v1alpha1.Address{}
		for _, x := range slices.Concat(o.served.Beside, o.served.Releasing) {
			for _, id := range build.FrontendsOf(x, o.served.Own) {
				o.of[id] = append(o.of[id], x)
			}
		}
	}
	return slices.ContainsFunc(o.of[f], func(x *v1alpha1.Address) bool {
		// Of two that its LoadBalancer gives up it stands in the way of both.
		return x.Name != a.Name && (x.Spec.Phase != v1alpha1.AddressReleasing || !holds(a, f))
	})
}

func holds(a *v1alpha1.Address, f lb.FrontendID) bool {
	return slices.ContainsFunc(a.Spec.Holders, func(h v1alpha1.Holder) bool {
		return h.Namespace == string(f.Tenant) && h.Name == f.LoadBalancer
	})
}

// fewAddresses bounds and sorts the addresses, which are those released longest first. One that isn't listed proves nothing
// and holds up nobody but itself, so the report stays whole; those that are Gone come first, and make room once they are free.
func (c *content) fewAddresses() {
	if len(c.Addresses) > maxEntries {
		slices.SortStableFunc(c.Addresses, func(a, b v1alpha1.ReportedAddress) int { return cmp.Compare(weight(a.State), weight(b.State)) })
		c.Addresses = c.Addresses[:maxEntries]
	}
	slices.SortFunc(c.Addresses, func(a, b v1alpha1.ReportedAddress) int { return cmp.Compare(a.Name, b.Name) })
}
