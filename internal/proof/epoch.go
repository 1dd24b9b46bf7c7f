package proof

// PresentEpoch is the hub's: the highest that any Tenant was told, or one more than the highest that a proxy had
// adopted before its hub changed.
func PresentEpoch(told []int64, proxies []*Proxy) int64 {
	present := int64(0)
	for _, e := range told {
		present = max(present, e)
	}
	raised := present
	for _, p := range proxies {
		if !p.Out && p.HubChanged != "" && p.Epoch >= present {
			raised = max(raised, p.Epoch+1)
		}
	}
	return raised
}

// AgentEpoch is the epoch in which a Tenant's agent has written all its objects again, where its Lease says lease: that
// of another hub, which this one hasn't come to, is no word of its.
func AgentEpoch(known, hub, lease int64) int64 {
	if lease > hub {
		return known
	}
	return max(known, lease)
}
