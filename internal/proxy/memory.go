package proxy

import (
	"fmt"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"k8s.io/apimachinery/pkg/types"
)

// Memory is by what a proxy knows its hub again. The zero Memory knows none: any hub will do.
type Memory struct {
	// HubUID is that of its kube-system namespace, ProxyUID that of the own Proxy; empty: it has none, as far as is known.
	HubUID   string    `json:"hubUID,omitempty"`
	ProxyUID types.UID `json:"proxyUID,omitempty"`
	// Seq is the highest status.seq that was written there.
	Seq int64 `json:"seq,omitempty"`
	// Epoch is the last one that was adopted.
	Epoch int64 `json:"epoch,omitempty"`
	// Thawed is that in which it was followed again after it had changed; 0: that never happened.
	Thawed int64 `json:"thawed,omitempty"`
	// Heard is the highest epoch that was heard of while Frozen, and is not adopted yet.
	Heard int64 `json:"heard,omitempty"`
	// Frozen is why what is served is not this hub's any more, as a reason of the condition HubChanged; empty: it is.
	Frozen string `json:"frozen,omitempty"`
	// Stale is HubChange.Stale.
	Stale bool `json:"stale,omitempty"`
	// Lost: it answered once as a restored one, so that it is not what it was, whoever answered in between.
	Lost bool `json:"lost,omitempty"`
	// Through is up to where the hub's resources were known; in a file it is the last batch's.
	Through Versions `json:"-"`
}

// lose counts what was heard while frozen as adopted: what agents wrote in that epoch may be lost by now.
func (m *Memory) lose() { m.Epoch, m.Heard = max(m.Epoch, m.Heard), 0 }

// Answer is what a hub says of itself, read live.
type Answer struct {
	// HubUID is that of its kube-system namespace.
	HubUID string
	// Proxy is the own one; nil: there is none.
	Proxy *v1alpha1.Proxy
}

// HubChange is how a hub is not the one that it was.
type HubChange struct {
	// Reason is ReasonHubRestored or ReasonHubReplaced.
	Reason string
	// Because is it in words.
	Because string
	// Stale: a process that began with what a file holds found its own Proxy gone. It may as well be the one that is behind,
	// and what the ledger grants to others is theirs.
	Stale bool
}

// changed says how the hub that answers is another than that of the memory; nil: it is the same.
func (m Memory) changed(a Answer) *HubChange {
	restored := func(format string, args ...any) *HubChange {
		return &HubChange{Reason: v1alpha1.ReasonHubRestored, Because: fmt.Sprintf(format, args...)}
	}
	switch {
	case m.HubUID == "":
		return nil
	case a.HubUID != m.HubUID:
		return &HubChange{Reason: v1alpha1.ReasonHubReplaced, Because: fmt.Sprintf("another hub answers: the UID of its namespace kube-system is %s, not %s", a.HubUID, m.HubUID)}
	case m.Lost:
		return restored("the hub has lost something before")
	case m.ProxyUID == "":
		return nil
	case a.Proxy == nil:
		return restored("the hub has lost this Proxy")
	case a.Proxy.UID != m.ProxyUID:
		return restored("the hub has another Proxy of this name: its UID is %s, not %s", a.Proxy.UID, m.ProxyUID)
	case a.Proxy.Status.Seq < m.Seq:
		return restored("the hub has lost what this proxy wrote: status.seq is %d, after %d", a.Proxy.Status.Seq, m.Seq)
	}
	return nil
}

// behind says that a consistent list of a resource is older than what was known before.
func (m Memory) behind(r Resource, version string) *HubChange {
	if !newer(m.Through[r], version) {
		return nil
	}
	return &HubChange{Reason: v1alpha1.ReasonHubRestored, Because: fmt.Sprintf("the hub has lost the end of its %s: they stand at version %s, after %s", r, version, m.Through[r])}
}
