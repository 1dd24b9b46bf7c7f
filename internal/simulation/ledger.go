package simulation

import (
	"net/netip"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/controller/ledger"
	"fairlead.dev/fairlead/internal/ipam"
	"k8s.io/apimachinery/pkg/labels"
)

// ledger is what the API server holds.
func (w *World) ledger() *ipam.Ledger {
	book := ipam.New()
	book.SetPools(w.pools())
	for _, o := range w.server.list(addresses) {
		a := o.(*v1alpha1.Address)
		e := ipam.Entry{Name: a.Name, Address: netip.MustParseAddr(a.Spec.Address), Pool: a.Spec.Pool, ProxyPool: a.Spec.ProxyPool, Phase: ipam.Phase(a.Spec.Phase), Created: a.CreationTimestamp.Time}
		for _, h := range a.Spec.Holders {
			holder := ipam.Holder{Ref: ipam.Ref{Namespace: h.Namespace, Name: h.Name}}
			for _, s := range h.Ports {
				if p, err := ipam.ParsePort(s); err == nil {
					holder.Ports = append(holder.Ports, p)
				}
			}
			e.Holders = append(e.Holders, holder)
		}
		book.Set(e)
	}
	return book
}

func (w *World) pools() []ipam.Pool {
	return []ipam.Pool{{
		Name: poolName, Ranges: []ipam.Range{{First: addressAt(0), Last: addressAt(poolSize - 1)}}, Namespaces: labels.Everything(),
		Share: ipam.ShareAny, PerTenant: ipam.Unbounded, Requestable: true, Restoring: w.restoring,
	}}
}

func needs(l *clusterv1.LoadBalancer) ipam.Needs {
	n := ipam.Needs{
		Ref: ipam.Ref{Namespace: l.Namespace, Name: l.Name}, Created: l.CreationTimestamp.Time,
		Owner: ipam.Owner{Namespace: l.Namespace, Quota: ipam.NoQuota}, Ports: ledger.PortsOf(l.Spec.Ports),
		Pools: []string{poolName}, ProxyPool: proxyPool,
	}
	for _, s := range l.Spec.Addresses {
		n.Wanted = append(n.Wanted, netip.MustParseAddr(s))
	}
	return n
}

func addressAt(i int) netip.Addr { return netip.AddrFrom4([4]byte{192, 0, 2, byte(i)}) }
