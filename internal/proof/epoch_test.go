package proof

import (
	"testing"

	"pgregory.net/rapid"
)

func TestEpochs(t *testing.T) {
	changed := func(epoch int64) func(*Proxy) {
		return func(p *Proxy) { p.HubChanged, p.Epoch = "HubRestored", epoch }
	}
	adopted := func(epoch int64) func(*Proxy) { return func(p *Proxy) { p.Epoch = epoch } }
	for name, c := range map[string]struct {
		told    []int64
		proxies []*Proxy
		want    int64
	}{
		"nothing ever happened":               {told: []int64{0, 0}, proxies: []*Proxy{serving("a")}},
		"the hub changed":                     {told: []int64{0, 0}, proxies: []*Proxy{serving("a", changed(0)), serving("b", changed(0))}, want: 1},
		"told, and not adopted yet":           {told: []int64{0, 1}, proxies: []*Proxy{serving("a", changed(0))}, want: 1},
		"adopted":                             {told: []int64{1, 1}, proxies: []*Proxy{serving("a", adopted(1))}, want: 1},
		"it changed again":                    {told: []int64{1, 1}, proxies: []*Proxy{serving("a", changed(1))}, want: 2},
		"to a copy that knew of no change":    {told: []int64{0, 0}, proxies: []*Proxy{serving("a", changed(4))}, want: 5},
		"one that is late raises nothing":     {told: []int64{3}, proxies: []*Proxy{serving("a", adopted(3)), serving("b", changed(1))}, want: 3},
		"a silent one counts":                 {told: []int64{0}, proxies: []*Proxy{serving("a", changed(0), silent)}, want: 1},
		"a fenced one doesn't":                {told: []int64{0}, proxies: []*Proxy{serving("a", changed(0), out)}},
		"no Tenant yet":                       {proxies: []*Proxy{serving("a", changed(2))}, want: 3},
		"who hasn't seen a change says least": {told: []int64{0}, proxies: []*Proxy{serving("a", adopted(7))}},
	} {
		if got := PresentEpoch(c.told, c.proxies); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
	for _, c := range [][4]int64{{0, 1, 0, 0}, {0, 1, 1, 1}, {1, 2, 1, 1}, {2, 2, 1, 2}, {0, 1, 5, 0}} {
		if got := AgentEpoch(c[0], c[1], c[2]); got != c[3] {
			t.Errorf("known %d, hub %d, lease %d: %d, want %d", c[0], c[1], c[2], got, c[3])
		}
	}
}

// TestAnEpochIsRaisedOnce: once all Tenants are told, the same proxies raise it no further, and each that saw the change
// has adopted less.
func TestAnEpochIsRaisedOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var proxies []*Proxy
		for range rapid.IntRange(0, 4).Draw(t, "proxies") {
			p := serving("p")
			p.Epoch = rapid.Int64Range(0, 5).Draw(t, "epoch")
			if rapid.Bool().Draw(t, "changed") {
				p.HubChanged = "HubRestored"
			}
			proxies = append(proxies, p)
		}
		present := PresentEpoch(rapid.SliceOf(rapid.Int64Range(0, 5)).Draw(t, "told"), proxies)
		if again := PresentEpoch([]int64{present}, proxies); again != present {
			t.Fatalf("raised from %d to %d", present, again)
		}
		for _, p := range proxies {
			if p.HubChanged != "" && p.Epoch >= present {
				t.Fatalf("a proxy saw a change with epoch %d, and the present one is %d", p.Epoch, present)
			}
		}
	})
}
