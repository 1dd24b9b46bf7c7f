package ledger

import (
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/ipam"
	"fairlead.dev/fairlead/internal/proof"
)

// Claims are what a proxy says that it serves against the ledger. What can't be read is left out: the proxy goes on
// saying it, and stays frozen.
func Claims(p *proof.Proxy) []ipam.Claim {
	var out []ipam.Claim
	for namespace, r := range p.Reports {
		out = append(out, claimsIn(p, namespace, r)...)
	}
	return out
}

// claimsIn are those of one of its reports.
func claimsIn(p *proof.Proxy, namespace string, r *v1alpha1.ProxyReport) []ipam.Claim {
	var out []ipam.Claim
	add := func(namespace string, s v1alpha1.ServedAddress) {
		what, err := ipam.ParseName(s.Address)
		if err != nil {
			return
		}
		c := ipam.Claim{Proxy: p.Name, ProxyPool: p.Pool, What: what, Holder: ipam.Holder{Ref: ipam.Ref{Namespace: namespace, Name: s.LoadBalancer}}}
		for _, text := range s.Ports {
			if port, err := ipam.ParsePort(text); err == nil {
				c.Holder.Ports = append(c.Holder.Ports, port)
			}
		}
		c.Holder.Ports = ipam.SortPorts(c.Holder.Ports)
		out = append(out, c)
	}
	for _, s := range r.Serves {
		add(namespace, s)
	}
	if namespace == v1alpha1.SystemNamespace {
		for _, s := range r.ServesMissing {
			add(s.Namespace, s.ServedAddress)
		}
	}
	return out
}
