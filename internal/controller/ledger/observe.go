package ledger

import (
	"cmp"
	"net/netip"
	"slices"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/ipam"
	"fairlead.dev/fairlead/internal/proof"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Observe notes an Address as a watch delivers it.
func (k *Keeper) Observe(a *v1alpha1.Address) {
	k.mu.Lock()
	k.observe(a)
	k.unlock()
}

// observe takes the API server's word, unless a newer one is known.
func (k *Keeper) observe(a *v1alpha1.Address) {
	if _, ok := k.buried[a.UID]; ok {
		return
	}
	version, err := proof.ParseVersion(a.ResourceVersion)
	if err != nil {
		k.Logger.Error("an address has a resource version that is no number", "address", a.Name, "err", err)
		return
	}
	if old := k.objects[a.Name]; old != nil {
		if seen, err := proof.ParseVersion(old.object.ResourceVersion); err == nil && version <= seen {
			return
		}
		if IsHeld(old.object) != IsHeld(a) {
			k.changed[a.Spec.Pool] = struct{}{}
		}
	} else if IsHeld(a) {
		k.changed[a.Spec.Pool] = struct{}{}
	}
	// An Address has no status: if it says what it said before, it said something else in between.
	k.objects[a.Name] = &record{a, version}
	if a.Spec.Phase == v1alpha1.AddressReleasing || IsHeld(a) {
		k.passing[a.Name] = k.objects[a.Name]
	} else {
		delete(k.passing, a.Name)
	}
	k.adopt(a)
}

// adopt makes the ledger's entry what the object says.
func (k *Keeper) adopt(a *v1alpha1.Address) {
	e, err := toEntry(a)
	if err != nil {
		k.Logger.Error("an address can't be read", "address", a.Name, "err", err)
		return
	}
	before, had := k.ledger.Get(a.Name)
	delete(k.unwritten, a.Name)
	delete(k.adopted, a.Name)
	if had && before.Equal(e) {
		if before.Created.IsZero() {
			k.ledger.Set(e) // its age counts, nothing else
		}
		return
	}
	// The ledger turned out otherwise than thought: whoever is concerned looks again.
	k.put(e)
	k.dirty = true
	for _, h := range slices.Concat(before.Holders, e.Holders) {
		if !slices.Contains(k.woken, h.Ref) {
			k.woken = append(k.woken, h.Ref)
		}
	}
}

// Forget notes that an Address is gone.
func (k *Keeper) Forget(a *v1alpha1.Address) {
	k.mu.Lock()
	delete(k.buried, a.UID)
	if r := k.objects[a.Name]; r != nil && r.object.UID == a.UID {
		k.lose(a.Name)
	}
	k.unlock()
}

// lose drops an Address that is gone, and wakes who held it.
func (k *Keeper) lose(name string) {
	e, _ := k.ledger.Get(name)
	delete(k.objects, name)
	delete(k.passing, name)
	k.drop(name)
	for _, h := range e.Holders {
		k.woken = append(k.woken, h.Ref)
	}
}

func toEntry(a *v1alpha1.Address) (ipam.Entry, error) {
	address, err := netip.ParseAddr(a.Spec.Address)
	if err != nil {
		return ipam.Entry{}, err
	}
	e := ipam.Entry{
		Name: a.Name, Address: address.Unmap(), Pool: a.Spec.Pool, ProxyPool: a.Spec.ProxyPool, Phase: ipam.Phase(a.Spec.Phase),
		Created: a.CreationTimestamp.Time,
	}
	if w, err := ipam.ParseName(a.Name); err == nil {
		e.Port = w.Port
	}
	for _, h := range a.Spec.Holders {
		holder := ipam.Holder{Ref: ipam.Ref{Namespace: h.Namespace, Name: h.Name}}
		for _, s := range h.Ports {
			p, err := ipam.ParsePort(s)
			if err != nil {
				return ipam.Entry{}, err
			}
			holder.Ports = append(holder.Ports, p)
		}
		holder.Ports = ipam.SortPorts(holder.Ports)
		e.Holders = append(e.Holders, holder)
	}
	slices.SortFunc(e.Holders, func(a, b ipam.Holder) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return e, nil
}

// toSpec writes an entry; since is when it became Releasing, where it already was.
func toSpec(e ipam.Entry, since *metav1.Time) v1alpha1.AddressSpec {
	s := v1alpha1.AddressSpec{Address: e.Address.String(), Pool: e.Pool, ProxyPool: e.ProxyPool, Phase: v1alpha1.AddressPhase(e.Phase)}
	for _, h := range e.Holders {
		holder := v1alpha1.Holder{Namespace: h.Namespace, Name: h.Name}
		for _, p := range h.Ports {
			holder.Ports = append(holder.Ports, p.String())
		}
		s.Holders = append(s.Holders, holder)
	}
	if e.Phase == ipam.Releasing {
		if s.ReleasingSince = since; since == nil {
			t := metav1.NewTime(now())
			s.ReleasingSince = &t
		}
	}
	return s
}

// PortsOf returns a LoadBalancer's ports as the ledger counts them.
func PortsOf(ports []clusterv1.Port) []ipam.Port {
	out := make([]ipam.Port, 0, len(ports))
	for _, p := range ports {
		out = append(out, ipam.Port{Protocol: string(cmp.Or(p.Protocol, clusterv1.ProtocolTCP)), Number: p.Port})
	}
	return ipam.SortPorts(out)
}
