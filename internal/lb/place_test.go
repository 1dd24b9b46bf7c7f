package lb

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestPlace(t *testing.T) {
	a := netip.MustParseAddr("192.0.2.1")
	x := []ProxyRef{{Name: "edge-2"}, {Name: "edge-1", Zone: "a"}, {Name: "edge-2"}}
	if got := Place(a, PlacementEvery, x); !slices.Equal(got, []string{"edge-1", "edge-2"}) {
		t.Errorf("Every: %v", got)
	}
	if got := Place(a, PlacementOne, nil); len(got) != 0 {
		t.Errorf("One of none: %v", got)
	}
}

func TestPlacingOnOneMovesOnlyWhatMust(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var proxies []ProxyRef
		for i := range rapid.IntRange(2, 8).Draw(t, "proxies") {
			proxies = append(proxies, ProxyRef{Name: fmt.Sprintf("edge-%d", i)})
		}
		shuffled := rapid.Permutation(proxies).Draw(t, "shuffled")
		leaves := rapid.IntRange(0, len(proxies)-1).Draw(t, "leaves")
		left := slices.Delete(slices.Clone(proxies), leaves, leaves+1)
		for i := range 50 {
			a := netip.AddrFrom4([4]byte{192, 0, 2, byte(i)})
			before := Place(a, PlacementOne, proxies)
			if len(before) != 1 || !slices.Equal(before, Place(a, PlacementOne, shuffled)) {
				t.Fatalf("%v, and %v when permuted", before, Place(a, PlacementOne, shuffled))
			}
			if after := Place(a, PlacementOne, left); before[0] != proxies[leaves].Name && !slices.Equal(before, after) {
				t.Fatalf("%s moved from %v to %v when %s left", a, before, after, proxies[leaves].Name)
			}
		}
	})
}

func TestPlacingOnOneSpreads(t *testing.T) {
	proxies := []ProxyRef{{Name: "edge-1"}, {Name: "edge-2"}, {Name: "edge-3"}}
	got := map[string]int{}
	for i := range 3000 {
		got[Place(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), PlacementOne, proxies)[0]]++
	}
	for n, c := range got {
		if c < 850 || c > 1150 {
			t.Errorf("%s has %d of 3000", n, c)
		}
	}
}
