package simulation

import (
	"fmt"
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
)

// Two processes of one name, each on a machine of its own, are a mistake that nothing can make good: each may say for both that an
// address is gone. What either serves is not judged from then on. That others lose nothing by it, that no port gets two holders, and
// that all comes to its end once one of them is stopped, is.

// Between two processes of one name, each writes only after these pauses, as the product's do.
const (
	claimFrom = 10 * time.Second
	claimUpTo = time.Minute
)

// rivalries says that a second process of a name is started in this schedule.
func (w *World) rivalries() bool { return !w.Changes && w.Seed%8 == 7 }

// rival starts one, or stops it.
func (w *World) rival() {
	first, second := w.hosts[0], w.hosts[hosts-1]
	switch {
	case second.name == first.name && w.n(4) == 0:
		w.endRivalry()
	case second.name != first.name && !second.made && first.up:
		second.name = first.name
		first.doubled, second.doubled = true, true
		second.start()
		w.result.Rivals++
		w.trace("a second %s starts as %s", second.name, second.boot)
	}
}

// endRivalry stops the second process, with its machine.
func (w *World) endRivalry() {
	if second := w.hosts[hosts-1]; second.name == w.hosts[0].name {
		second.die(true)
		second.made, second.name = false, fmt.Sprintf("edge-%d", hosts-1)
		second.disk, second.synced = file{}, file{}
		w.trace("the second %s is stopped", w.hosts[0].name)
	}
}

// meet takes in a form of the own Proxy that another process of its name wrote. False: none did.
func (h *host) meet(px *v1alpha1.Proxy) bool {
	if !h.doubled || !h.registered || px.Status.Boot == "" || px.Status.Boot == h.boot || versionOf(px) <= versionOf(h.object) {
		return false
	}
	h.object, h.top = px, max(h.top, px.Status.Seq)
	h.view.Inbox.Read(h.era, px.UID, px.Status.Seq)
	h.claimPause = min(max(2*h.claimPause, claimFrom), claimUpTo)
	h.claimAt = time.Now().Add(h.claimPause)
	h.reread, h.changed = true, true
	return true
}
