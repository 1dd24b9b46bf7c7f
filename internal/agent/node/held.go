package node

import (
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	v1 "k8s.io/api/core/v1"
)

// HeldFor is how long targets are held whose Nodes are missing, though nobody was seen to delete them.
const HeldFor = 24 * time.Hour

// Missing is what is known when targets are compared with a list of Nodes.
type Missing struct {
	// Have are the targets that the hub has.
	Have []v1alpha1.Target
	// Nodes are all that the cluster lists.
	Nodes []v1.Node
	// Deleted tells by UID whether a watch saw the Node being deleted.
	Deleted func(uid string) bool
	// Until is how long targets are held already; zero: none is.
	Until time.Time
	Now   time.Time
}

// Held returns the targets that are to be kept though the list lacks their Nodes, and until when.
//
// Nodes come and go while an agent is away, and a list is believed about that. One that lacks more than half of all is
// more likely that of a cluster which was restored from an older copy, or half: to follow it would leave Services
// without targets, while a target that is kept for nothing fails its check. What has the name or an
// address of a Node that is there is replaced by it.
func Held(m Missing) (held []v1alpha1.Target, until time.Time) {
	there := map[string]bool{}
	for i := range m.Nodes {
		n := &m.Nodes[i]
		there["uid "+string(n.UID)], there["name "+n.Name] = true, true
		for _, a := range n.Status.Addresses {
			there["address "+a.Address] = true
		}
	}
	known := 0
	for _, t := range m.Have {
		if there["uid "+t.UID] {
			known++
			continue
		}
		if m.Deleted(t.UID) || there["name "+t.Name] || anyOf(there, t.Addresses) {
			continue
		}
		known++
		held = append(held, t)
	}
	switch {
	case len(held) == 0:
		return nil, time.Time{}
	case !m.Until.IsZero() && !m.Now.Before(m.Until):
		return nil, time.Time{}
	case !m.Until.IsZero():
		return held, m.Until
	case 2*len(held) <= known:
		return nil, time.Time{}
	}
	return held, m.Now.Add(HeldFor)
}

func anyOf(there map[string]bool, addresses []string) bool {
	for _, a := range addresses {
		if there["address "+a] {
			return true
		}
	}
	return false
}
