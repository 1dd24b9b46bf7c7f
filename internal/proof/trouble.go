package proof

import (
	"fmt"
	"slices"
	"strings"
)

// Trouble is why the ledger may not say all that is served: nothing is granted or freed by it alone.
type Trouble struct {
	// Unseen are live proxies whose Lease this manager has not seen renewed yet. What they say of the hub may be to come.
	Unseen []*Proxy
	// Frozen proxies serve on what they had before the hub changed, live or not.
	Frozen []*Proxy
	// Mute: no proxy has said anything yet. That is no trouble, but of a hub that is being restored it proves nothing.
	Mute bool
}

// JudgeTrouble looks at all proxies, sorted by name.
func JudgeTrouble(proxies []*Proxy) Trouble {
	out := Trouble{Mute: true}
	for _, p := range proxies {
		out.Mute = out.Mute && p.Boot == "" && !p.Out
		switch {
		case p.Out:
		case p.Frozen():
			out.Frozen = append(out.Frozen, p)
		case p.Unheard():
			out.Unseen = append(out.Unseen, p)
		}
	}
	return out
}

// None says that there is no trouble.
func (t *Trouble) None() bool { return len(t.Unseen)+len(t.Frozen) == 0 }

// Unheard says that the proxy is live, and that this manager has not seen its Lease renewed yet: what it says is of before.
func (p *Proxy) Unheard() bool { return p.Live && !p.Renewed }

// Frozen says that the proxy serves on what it had before the hub changed, and not what the ledger says.
func (p *Proxy) Frozen() bool { return p.HubChanged != "" && p.Through.Addresses == 0 }

// FrozenText names frozen proxies, and says what to do about them.
func FrozenText(frozen []*Proxy) string {
	var live, silent []string
	for _, p := range frozen {
		if p.Live {
			live = append(live, p.Name)
		} else {
			silent = append(silent, p.Name)
		}
	}
	var out []string
	if len(live) > 0 {
		out = append(out, fmt.Sprintf("The hub has changed under proxies that serve on what they had: %s. Nothing new is granted and nothing is freed before the ledger has that.", some(live)))
	}
	if len(silent) > 0 {
		out = append(out, fmt.Sprintf("The hub has changed under proxies that are silent: %s. Bring each back, set spec.fenced on it if it can't serve any more, or delete its Proxy.", some(silent)))
	}
	return strings.Join(out, " ")
}

// What everybody who waits is told, whoever causes it: names would be written again for each of them whenever one changes.
const (
	FrozenWait = "The hub has changed under proxies that serve on what they had: nothing new is granted and nothing is freed before the ledger has that. The condition Degraded of the AddressPool names them."
	MuteWait   = "The hub is being restored, and no proxy has said yet what it serves: nothing is granted before. The hub's operator starts one, or sets the AddressPool's spec.restoring to false."
	UnseenWait = "The manager waits for proxies to be heard of. That is over in half a minute at most."
)

func some(names []string) string {
	if len(names) > 3 {
		return strings.Join(append(slices.Clone(names[:3]), fmt.Sprintf("%d more", len(names)-3)), ", ")
	}
	return strings.Join(names, ", ")
}
