package pool

import (
	"fmt"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/controller/kit"
	"fairlead.dev/fairlead/internal/ipam"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Convert reads an AddressPool. What makes no sense makes the pool unusable, with the reason.
func Convert(p *v1alpha1.AddressPool) ipam.Pool {
	out := ipam.Pool{
		Name: p.Name, Created: p.CreationTimestamp.Time, Share: ipam.ShareNamespace, PerTenant: ipam.Unbounded,
		Requestable: p.Spec.Requestable, Restoring: p.Spec.Restoring, IgnoreSilent: p.Spec.OnSilentProxy == kit.SilentRelease, Unusable: unusable(p),
	}
	if p.Spec.Granularity == v1alpha1.GranularityPort {
		out.ByPort, out.Share = true, ipam.ShareAny
	}
	if h := p.Spec.ProxyHosts; h != nil {
		var err error
		out.ByPort, out.Share, out.Hosts = true, ipam.ShareAny, h.Pool
		if out.HostPorts, err = ipam.ParsePortRange(h.Ports); err != nil {
			out.Unusable = fmt.Sprintf("proxyHosts: %v: mend it.", err)
		}
	}
	if p.Spec.Share != "" && !out.ByPort {
		out.Share = ipam.Share(p.Spec.Share)
	}
	if n := p.Spec.PerTenant; n != nil {
		out.PerTenant = int(*n)
	}
	for _, s := range p.Spec.Ranges {
		r, err := ipam.ParseRange(s)
		if err == nil && r.First.IsUnspecified() {
			err = fmt.Errorf("range %q: %s is no host's address", s, r.First)
		}
		if err != nil {
			out.Unusable = fmt.Sprintf("%v: mend it.", err)
			continue
		}
		out.Ranges = append(out.Ranges, r)
	}
	if u := p.Spec.Use; u != nil {
		var err error
		if u.Tenants != nil {
			if out.Tenants, err = metav1.LabelSelectorAsSelector(u.Tenants); err != nil {
				out.Unusable = fmt.Sprintf("use.tenants doesn't parse (%v): mend it.", err)
			}
		}
		if u.NamespaceSelector != nil {
			if out.Namespaces, err = metav1.LabelSelectorAsSelector(u.NamespaceSelector); err != nil {
				out.Unusable = fmt.Sprintf("use.namespaceSelector doesn't parse (%v): mend it.", err)
			}
		}
	}
	return out
}

// unusable is why nothing is granted from such a pool any more; empty: it is.
func unusable(p *v1alpha1.AddressPool) string {
	if p.DeletionTimestamp != nil {
		return "it is being deleted: use another pool."
	}
	return ""
}
