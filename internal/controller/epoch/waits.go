package epoch

import (
	"sync"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/proof"
	"k8s.io/apimachinery/pkg/types"
)

// waits are those that this manager has seen run. A frozen proxy that restarts raises the epoch as a hub that changes does, for
// it can't tell which of the two happened. Here that can be told: a manager whose hub changes starts anew and has seen nothing.
type waits struct {
	mu      sync.Mutex
	tenants map[types.UID]watched
	// proxies are those that said, in this hub, that it had changed: the lowest epoch that they had adopted then.
	proxies map[string]int64
}

// watched is a Tenant's wait: its annotation held-until, and the agent's renewal when that was first seen. heard: it has
// renewed since.
type watched struct {
	until, renewal string
	heard          bool
}

func newWaits() waits { return waits{tenants: map[types.UID]watched{}, proxies: map[string]int64{}} }

// see notes what proxies say. That of a proxy which hasn't renewed its Lease since this manager's start may be an older copy's.
func (w *waits) see(proxies []*proof.Proxy) {
	w.mu.Lock()
	defer w.mu.Unlock()
	next := map[string]int64{}
	for _, p := range proxies {
		epoch, seen := w.proxies[p.Name]
		switch {
		case p.HubChanged == "" || p.Out:
		case p.Live && p.Renewed && (!seen || p.Epoch < epoch):
			next[p.Name] = p.Epoch
		case seen:
			next[p.Name] = epoch
		}
	}
	w.proxies = next
}

// restarted says that whoever raises the epoch that a Tenant was told waited in that one before; w.mu is held.
func (w *waits) restarted(told int64, proxies []*proof.Proxy) (restarted bool) {
	for _, p := range proxies {
		if p.Out || p.HubChanged == "" || p.Epoch < told {
			continue
		}
		if epoch, seen := w.proxies[p.Name]; !seen || epoch >= told {
			return false
		}
		restarted = true
	}
	return restarted
}

// watch notes a Tenant's wait. When the Tenant's epoch is raised, it says whether the wait goes on as it was: it does if proxies
// restarted, and the agent was silent all the while, so that nothing that it wrote can have been lost.
func (w *waits) watch(t *v1alpha1.Tenant, a agent, raised bool, proxies []*proof.Proxy) (goesOn bool) {
	until := t.Annotations[v1alpha1.AnnotationHeldUntil]
	w.mu.Lock()
	defer w.mu.Unlock()
	is, ok := w.tenants[t.UID]
	if !ok || is.until != until {
		if raised {
			return false
		}
		is = watched{until: until, renewal: a.renewal}
	}
	is.heard = is.heard || a.renewal != "" && a.renewal != is.renewal
	w.tenants[t.UID] = is
	return a.silent && !is.heard && w.restarted(t.Status.HubEpoch, proxies)
}

// end forgets a Tenant's wait.
func (w *waits) end(tenant types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.tenants, tenant)
}
