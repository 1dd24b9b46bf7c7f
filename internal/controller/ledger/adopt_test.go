package ledger

import (
	"net/netip"
	"slices"
	"testing"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/ipam"
	"fairlead.dev/fairlead/internal/proof"
)

// An address isn't taken from its holder while a proxy may serve it for that, whatever keeps the proxy from saying so.
func TestAnAddressIsNotAdoptedPastAWitnessThatIsAway(t *testing.T) {
	for name, c := range map[string]struct {
		change   func(*proof.Proxy)
		adopts   bool
		disagree []string
		ignore   bool
	}{
		"it says so":                        {change: func(*proof.Proxy) {}, disagree: []string{"a", "c"}},
		"it restarts":                       {change: func(p *proof.Proxy) { p.Reported = false }, disagree: []string{"a", "c"}},
		"it is silent":                      {change: func(p *proof.Proxy) { p.Live = false }, disagree: []string{"a", "c"}},
		"it is silent, and that is ignored": {change: func(p *proof.Proxy) { p.Live = false }, ignore: true, adopts: true},
		"it has yet to apply a note":        {change: func(p *proof.Proxy) { p.Through.Addresses = 0 }, disagree: []string{"a", "c"}},
		"its reports are on the way":        {change: func(p *proof.Proxy) { p.Settled = false }, disagree: []string{"a", "c"}},
		"it has never served here":          {change: func(p *proof.Proxy) { p.Boot, p.Reported = "", false }, adopts: true},
		"it is fenced":                      {change: func(p *proof.Proxy) { p.Out = true }, adopts: true},
		"it serves others":                  {change: func(p *proof.Proxy) { p.Pool, p.Live = "core", false }, adopts: true},
	} {
		t.Run(name, func(t *testing.T) {
			k := newKeeper(t, newStore(1, 0), ignore, "192.0.2.0/32")
			if _, err := k.Grant(t.Context(), needsOf(1)); err != nil {
				t.Fatal(err)
			}
			if c.ignore {
				p := ipam.Pool{Name: "public", Share: ipam.ShareNamespace, PerTenant: ipam.Unbounded, IgnoreSilent: true}
				p.Ranges = []ipam.Range{{First: netip.MustParseAddr("192.0.2.0"), Last: netip.MustParseAddr("192.0.2.0")}}
				k.SetPools([]ipam.Pool{p})
			}
			a := &proof.Proxy{Name: "a", Pool: "edge", Boot: "b", Live: true, Renewed: true, Reported: true, Settled: true, Through: proof.Vector{Addresses: 99}}
			c.change(a)
			frozen := &proof.Proxy{Name: "c", Pool: "edge", Boot: "b", Live: true, Renewed: true, Reported: true, Settled: true, HubChanged: v1alpha1.ReasonHubRestored}
			address := netip.MustParseAddr("192.0.2.0")
			claims := []ipam.Claim{{Proxy: "c", ProxyPool: "edge", What: ipam.What{Address: address}, Holder: ipam.Holder{Ref: needsOf(2).Ref, Ports: needsOf(2).Ports}}}
			d, err := k.Adopt(t.Context(), ipam.What{Address: address}, claims, []*proof.Proxy{a, frozen})
			if err != nil {
				t.Fatal(err)
			}
			e := mustGet(k, "192.0.2.0")
			_, adopted := e.Holder(needsOf(2).Ref)
			if adopted != c.adopts || !slices.Equal(d.Disagree, c.disagree) || len(d.Stale) > 0 || k.Disputed() == c.adopts {
				t.Errorf("adopted %v, disagree %v, stale %v", adopted, d.Disagree, d.Stale)
			}
		})
	}
}

// Proxies that are new to a hub are no majority against one that comes from the hub before it, whatever epoch they adopted
// since: only those are who saw it change.
func TestNewcomersOverruleNobody(t *testing.T) {
	for _, c := range []struct {
		why           string
		claims, there int64 // epochs
		saw           int   // how many of the others saw the hub change
		stale         bool
	}{
		{v1alpha1.ReasonHubReplaced, 0, 0, 0, false},
		{v1alpha1.ReasonHubReplaced, 3, 0, 0, false},
		{v1alpha1.ReasonHubReplaced, 3, 1, 0, false},
		{v1alpha1.ReasonHubReplaced, 3, 1, 1, false}, // one against one
		{v1alpha1.ReasonHubReplaced, 3, 1, 2, true},  // a stray of another hub
		{v1alpha1.ReasonHubRestored, 0, 0, 0, false},
		{v1alpha1.ReasonHubRestored, 0, 1, 0, false},
		{v1alpha1.ReasonHubRestored, 0, 1, 1, false},
		{v1alpha1.ReasonHubRestored, 1, 1, 3, false},
		{v1alpha1.ReasonHubRestored, 0, 1, 2, true},
	} {
		k := newKeeper(t, newStore(1, 0), ignore, "192.0.2.0/32")
		if _, err := k.Grant(t.Context(), needsOf(1)); err != nil {
			t.Fatal(err)
		}
		proxies := []*proof.Proxy{{Name: "old", Pool: "edge", Boot: "b", Live: true, Renewed: true, Reported: true, Settled: true, HubChanged: c.why, Epoch: c.claims}}
		for i, name := range []string{"x", "y", "z"} {
			thawed := int64(0)
			if i < c.saw {
				thawed = c.there
			}
			proxies = append(proxies, &proof.Proxy{Thawed: thawed, Name: name, Pool: "edge", Boot: "b", Live: true, Renewed: true, Reported: true, Settled: true, Epoch: c.there, Through: proof.Vector{Addresses: 99}})
		}
		address := netip.MustParseAddr("192.0.2.0")
		claims := []ipam.Claim{{Proxy: "old", ProxyPool: "edge", What: ipam.What{Address: address}, Holder: ipam.Holder{Ref: needsOf(2).Ref, Ports: needsOf(2).Ports}}}
		d, err := k.Adopt(t.Context(), ipam.What{Address: address}, claims, proxies)
		if err != nil || slices.Equal(d.Stale, []string{"old"}) != c.stale || (len(d.Disagree) == 4) == c.stale {
			t.Errorf("%+v: stale %v, disagree %v, %v", c, d.Stale, d.Disagree, err)
		}
	}
}
