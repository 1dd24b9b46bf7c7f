package build

import (
	"net/netip"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
)

// Reach says which addresses the targets of a namespace may have, for those who send to them and are no proxies: its Tenant's
// targetCIDRs hold them. A namespace of no Tenant, for which it is nil, is the hub operator's, whose targets may be anywhere.
func Reach(tenant *v1alpha1.Tenant) func(netip.Addr) bool {
	return reachOf(tenant).admits
}
