package cli

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/agent/service"
	"fairlead.dev/fairlead/internal/ipam"
	"fairlead.dev/fairlead/internal/proof"
)

// ParseAddress reads an IP address as people write it, or the name of an Address.
func ParseAddress(s string) (netip.Addr, error) {
	if a, err := netip.ParseAddr(s); err == nil && a.Zone() == "" {
		return a.Unmap(), nil
	}
	if w, err := ipam.ParseName(s); err == nil {
		return w.Address, nil
	}
	return netip.Addr{}, fmt.Errorf("%q is neither an IP address nor the name of an Address: give one such as 192.0.2.7", s)
}

// ExplainAddress says who holds an address, who serves it, and who waits for it. Who may not read the ledger is told of
// the LoadBalancers that were read, and of nothing else.
func ExplainAddress(o *Objects, a netip.Addr) Explanation {
	e := Explanation{Kind: kindAddress, Subject: "Address " + a.String(), Now: o.Now}
	if o.hidden("addresses") {
		e.Rungs = append(e.Rungs, ownAddressRung(o, a))
		e.conclude()
		return e
	}
	entry := o.entryAt(a)
	if l := givenTo(o, a); entry == nil && l != nil {
		by := "the hub's own Services"
		if byOthers(o, l) {
			by = "whoever manages its load balancer"
		}
		if byProvider(o, l) {
			by = providerObject(l)
		}
		e.Rungs = append(e.Rungs, Rung{Name: "given", State: OK, Message: "to LoadBalancer " + l.Namespace + "/" + l.Name + " by " + by + ": no AddressPool has a part in it"}, programmedRung(o, l))
		e.conclude()
		return e
	}
	e.Rungs = append(e.Rungs, poolRung(o, a), ledgerRung(o, a, entry))
	if entry == nil || entry.Spec.Phase != v1alpha1.AddressGranted {
		e.Rungs = append(e.Rungs, unreached("holders", "proxies")...)
	} else {
		e.Rungs = append(e.Rungs, holdersRung(o, entry), servingRung(o, a, entry))
	}
	if wanted, any := wantedRung(o, a); any {
		e.Rungs = append(e.Rungs, wanted)
	}
	e.conclude()
	return e
}

// entryAt is what the ledger has of an address. Of single ports of it, all that are in one phase are made one: the granted
// ones, if any is.
func (o *Objects) entryAt(a netip.Addr) *v1alpha1.Address {
	var found []*v1alpha1.Address
	for _, x := range o.Addresses {
		if sameAddress(x.Spec.Address, a) || o.onHost(x, a) {
			found = append(found, x)
		}
	}
	if len(found) == 0 {
		return nil
	}
	first := found[0]
	if i := slices.IndexFunc(found, func(x *v1alpha1.Address) bool { return x.Spec.Phase == v1alpha1.AddressGranted }); i >= 0 {
		first = found[i]
	}
	if len(found) == 1 {
		return first
	}
	all := first.DeepCopy()
	all.Spec.Holders = nil
	for _, x := range found {
		if x.Spec.Phase != first.Spec.Phase {
			continue
		}
		for _, h := range x.Spec.Holders {
			i := slices.IndexFunc(all.Spec.Holders, func(y v1alpha1.Holder) bool { return y.Namespace == h.Namespace && y.Name == h.Name })
			if i < 0 {
				all.Spec.Holders = append(all.Spec.Holders, *h.DeepCopy())
				continue
			}
			all.Spec.Holders[i].Ports = append(all.Spec.Holders[i].Ports, h.Ports...)
		}
	}
	return all
}

// onHost says that an Address of proxies' hosts is served at a host's own address.
func (o *Objects) onHost(x *v1alpha1.Address, a netip.Addr) bool {
	at, err := netip.ParseAddr(x.Spec.Address)
	return err == nil && at.IsUnspecified() && at.Is4() == a.Is4() && o.hostOf(x.Spec.ProxyPool, a)
}

// hostsOf are the own addresses of the hosts of a pool of proxies.
func (o *Objects) hostsOf(pool string) (out []netip.Addr) {
	for _, v := range views(o, pool) {
		out = append(out, v.Addresses...)
	}
	return out
}

// hostOf says that the host of a proxy of the pool has the address.
func (o *Objects) hostOf(pool string, a netip.Addr) bool {
	return slices.ContainsFunc(o.Proxies, func(p *v1alpha1.Proxy) bool {
		return p.Spec.Pool == pool && slices.ContainsFunc(p.Spec.Addresses, func(s string) bool { return sameAddress(s, a) })
	})
}

func sameAddress(s string, a netip.Addr) bool {
	x, err := netip.ParseAddr(s)
	return err == nil && x.Unmap() == a
}

// ownAddressRung is all that somebody may know who doesn't see the ledger.
func ownAddressRung(o *Objects, a netip.Addr) Rung {
	r := Rung{Name: "own", State: Broken, Message: "none of the LoadBalancers that you may see has it, or wants it; what others have isn't visible to you"}
	r.Fix = "Look at yours with: kubectl get lb"
	for _, l := range o.LoadBalancers {
		name := "LoadBalancer " + l.Namespace + "/" + l.Name
		if origin, ok := service.Origin(l); ok {
			name += ", made from Service " + origin.String() + ","
		}
		if slices.ContainsFunc(l.Status.Addresses, func(x clusterv1.LoadBalancerAddress) bool { return sameAddress(x.Value, a) }) {
			r = Rung{Name: "own", State: OK, Message: name + " has it"}
			if c := condition(l.Status.Conditions, clusterv1.ConditionProgrammed, l.Generation); c == nil || c.Status != "True" {
				r.State, r.Reason = Waiting, clusterv1.ReasonPending
				if c != nil {
					r.Reason, r.Message = c.Reason, r.Message+": "+c.Message
				}
			}
			return r
		}
		if wants(l, a) {
			r.Message, r.Fix = name+" wants it", ""
			if c := condition(l.Status.Conditions, clusterv1.ConditionAddressGranted, l.Generation); c != nil {
				r.Reason, r.Message, r.Since = c.Reason, r.Message+": "+c.Message, &c.LastTransitionTime
			} else {
				r.State, r.Reason = Waiting, clusterv1.ReasonPending
			}
		}
	}
	return r
}

func wants(l *clusterv1.LoadBalancer, a netip.Addr) bool {
	return slices.ContainsFunc(l.Spec.Addresses, func(s string) bool { return sameAddress(s, a) })
}

// poolRung says which pool the address is of.
func poolRung(o *Objects, a netip.Addr) Rung {
	r := Rung{Name: "pool", State: Broken, Reason: clusterv1.ReasonAddressNotInPool}
	if o.hidden("addresspools") {
		return Rung{Name: "pool", State: Skipped, Message: "AddressPools are not visible to you"}
	}
	var pools []*v1alpha1.AddressPool
	for _, p := range o.Pools {
		if slices.ContainsFunc(p.Spec.Ranges, func(s string) bool { x, err := ipam.ParseRange(s); return err == nil && x.Contains(a) }) ||
			p.Spec.ProxyHosts != nil && o.hostOf(p.Spec.ProxyHosts.Pool, a) {
			pools = append(pools, p)
		}
	}
	if len(pools) == 0 {
		r.Message, r.Fix = "no AddressPool has it", "Add it to an AddressPool's spec.ranges, if it should be given out."
		return r
	}
	p := slices.MinFunc(pools, func(a, b *v1alpha1.AddressPool) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	r.State, r.Reason, r.Message = OK, "", fmt.Sprintf("%s: %d free, %d granted, %d being released", p.Name, p.Status.Free, p.Status.Granted, p.Status.Releasing)
	if c := condition(p.Status.Conditions, v1alpha1.ConditionReady, p.Generation); c != nil && c.Status != "True" {
		// What is granted is served all the same.
		r.State, r.Reason, r.Since = Warning, c.Reason, &c.LastTransitionTime
		r.Evidence = append(r.Evidence, Evidence{State: Warning, Text: c.Message})
	}
	for _, other := range pools {
		if other != p && other.Spec.ProxyHosts == nil {
			r.State, r.Reason = Warning, v1alpha1.ReasonRangesOverlap
			r.Evidence = append(r.Evidence, Evidence{State: Warning, Text: fmt.Sprintf("pool %s has it too: mend one of the two", other.Name)})
		}
	}
	return r
}

// ledgerRung says what the ledger has.
func ledgerRung(o *Objects, a netip.Addr, entry *v1alpha1.Address) Rung {
	r := Rung{Name: "ledger", State: Broken}
	if entry == nil || entry.Spec.Phase != v1alpha1.AddressGranted {
		for _, v := range views(o, "") {
			r.Evidence = append(r.Evidence, claims(v, a)...)
		}
	}
	switch {
	case entry == nil:
		r.Message = "nobody holds it"
		r.Fix = "Nothing, if nobody should. A LoadBalancer asks for it with spec.addresses, a Service with the annotation " + v1alpha1.AnnotationAddresses + ": " + a.String()
		if len(r.Evidence) > 0 {
			r.Fix = "If the LoadBalancer should have it, create it again in this hub; else fence the proxy (spec.fenced)."
		}
	case entry.Spec.Phase == v1alpha1.AddressReleasing:
		r.State, r.Reason, r.Since = Waiting, clusterv1.ReasonPending, entry.Spec.ReleasingSince
		r.Message = "it is being released by " + holderNames(entry) + against(o, entry)
		if against(o, entry) != "" {
			r.Fix = "Bring the proxies back, or fence or delete the Proxy of one that is gone for good. Then somebody else can have it."
		}
	case entry.Spec.Phase == v1alpha1.AddressMoved:
		r.Message = "it moved to another hub with " + holderNames(entry)
		r.Fix = "Once no other hub serves it: kubectl delete address " + entry.Name
	default:
		r.State, r.Message = OK, "granted to "+holderNames(entry)
		if until, ok := heldUntil(entry); ok {
			r.State, r.Reason = Warning, v1alpha1.ReasonHolderMissing
			r.Message += fmt.Sprintf(", which the hub doesn't have; it is kept until %s. Create the LoadBalancer again, or write an earlier time to the annotation %s of Address %s", until, v1alpha1.AnnotationHeldUntil, entry.Name)
		}
	}
	return r
}

func holderNames(entry *v1alpha1.Address) string {
	var names []string
	for _, h := range entry.Spec.Holders {
		names = append(names, strings.TrimSpace(h.Namespace+"/"+h.Name+" "+strings.Join(h.Ports, ",")))
	}
	if len(names) == 0 {
		return "nobody"
	}
	return some(names)
}

// holdersRung says how those who hold it are served.
func holdersRung(o *Objects, entry *v1alpha1.Address) Rung {
	r := Rung{Name: "holders", State: OK, Message: count(len(entry.Spec.Holders), "LoadBalancer")}
	for _, h := range entry.Spec.Holders {
		i := slices.IndexFunc(o.LoadBalancers, func(l *clusterv1.LoadBalancer) bool { return l.Namespace == h.Namespace && l.Name == h.Name })
		if i < 0 {
			r.Evidence = append(r.Evidence, Evidence{State: Warning, Text: fmt.Sprintf("the hub has no LoadBalancer %s/%s", h.Namespace, h.Name)})
			r.State = worse(r.State, Warning)
			continue
		}
		x := programmedRung(o, o.LoadBalancers[i])
		name := h.Namespace + "/" + h.Name
		if origin, ok := service.Origin(o.LoadBalancers[i]); ok {
			name += " (Service " + origin.String() + ")"
		}
		text := x.Message
		if x.State != OK && x.Reason != "" {
			text = x.Reason + ": " + text
		}
		r.Evidence = append(r.Evidence, Evidence{State: x.State, Text: name + ": programmed " + text, Since: x.Since})
		if r.State = worse(r.State, x.State); x.State.bad() && r.Reason == "" {
			r.Reason = x.Reason
		}
	}
	return r
}

// servingRung says which proxies serve it, and which serve it for somebody else.
func servingRung(o *Objects, a netip.Addr, entry *v1alpha1.Address) Rung {
	r := Rung{Name: "proxies", State: OK}
	if o.hidden("proxies") || o.hidden("leases") {
		return Rung{Name: "proxies", State: Skipped, Message: "proxies are not visible to you"}
	}
	serving := 0
	for _, v := range views(o, entry.Spec.ProxyPool) {
		state, text, since := proxyState(o, v)
		if state == OK || state == Warning {
			serving++
		}
		r.Evidence = append(r.Evidence, Evidence{State: state, Text: v.Name + ": " + text, Since: since})
		r.Evidence = append(r.Evidence, otherwise(v, a, entry)...)
	}
	switch {
	case serving == 0:
		r.State, r.Reason, r.Message = Broken, clusterv1.ReasonNoProxies, "no live proxy of pool "+entry.Spec.ProxyPool+" serves it"
	case slices.ContainsFunc(r.Evidence, func(e Evidence) bool { return e.State == Broken || e.State == Warning }):
		r.State, r.Message = Warning, onProxies(serving)+" of pool "+entry.Spec.ProxyPool
	default:
		r.Message = onProxies(serving) + " of pool " + entry.Spec.ProxyPool
	}
	return r
}

// otherwise is what a proxy says of the address that the ledger doesn't: ports that it refuses, and other holders that it serves.
func otherwise(v *proof.Proxy, a netip.Addr, entry *v1alpha1.Address) []Evidence {
	out := claims(v, a)
	for namespace, report := range v.Reports {
		for _, f := range report.Refused {
			if slices.ContainsFunc(entry.Spec.Holders, func(h v1alpha1.Holder) bool { return h.Namespace == namespace && h.Name == f.LoadBalancer }) {
				out = append(out, Evidence{State: Broken, Text: fmt.Sprintf("%s refuses %s of %s/%s: %s: %s", v.Name, portName(&f), namespace, f.LoadBalancer, f.Problem.Reason, f.Problem.Message)})
			}
		}
	}
	slices.SortFunc(out, func(a, b Evidence) int { return cmp.Compare(a.Text, b.Text) })
	return out
}

// claims are those whom a proxy says that it serves the address for against the ledger: where their namespace is gone from the
// hub, its report in fairlead-system says so.
func claims(v *proof.Proxy, a netip.Addr) []Evidence {
	var out []Evidence
	add := func(namespace string, s v1alpha1.ServedAddress) {
		if is, err := ipam.ParseName(s.Address); err == nil && (is.Address == a || is.Hosts == v.Pool && is.Address.Is4() == a.Is4() && slices.Contains(v.Addresses, a)) {
			out = append(out, Evidence{State: Broken, Text: fmt.Sprintf("%s serves it for %s/%s, against the ledger: fence the proxy if that is wrong", v.Name, namespace, s.LoadBalancer)})
		}
	}
	for _, namespace := range sortedNamespaces(v.Reports) {
		for _, s := range v.Reports[namespace].Serves {
			add(namespace, s)
		}
		if namespace != v1alpha1.SystemNamespace {
			continue
		}
		for _, s := range v.Reports[namespace].ServesMissing {
			add(s.Namespace, s.ServedAddress)
		}
	}
	return out
}

// wantedRung names LoadBalancers that want the address and don't have it; false: none does.
func wantedRung(o *Objects, a netip.Addr) (Rung, bool) {
	r := Rung{Name: "wanted", State: Warning}
	for _, l := range o.LoadBalancers {
		if !wants(l, a) || grantsOf(o, l)[a.String()] || l.DeletionTimestamp != nil {
			continue
		}
		text, since := fmt.Sprintf("%s/%s wants it", l.Namespace, l.Name), &l.CreationTimestamp
		if c := condition(l.Status.Conditions, clusterv1.ConditionAddressGranted, l.Generation); c != nil && c.Status != "True" {
			r.Reason = cmp.Or(r.Reason, c.Reason)
			text, since = text+": "+c.Reason+": "+c.Message, &c.LastTransitionTime
		}
		r.Evidence = append(r.Evidence, Evidence{State: Warning, Text: text, Since: since})
	}
	r.Message = fmt.Sprintf("by %s that doesn't have it", count(len(r.Evidence), "LoadBalancer"))
	if len(r.Evidence) > 1 {
		r.Message = fmt.Sprintf("by %s that don't have it", count(len(r.Evidence), "LoadBalancer"))
	}
	return r, len(r.Evidence) > 0
}
