package lb

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// tableMembers makes n members; weight gives each its own.
func tableMembers(n int, weight func(i int) int) []Member {
	out := make([]Member, n)
	for i := range out {
		out[i] = Member{UID: fmt.Sprintf("uid-%d", i), Address: netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)}), Weight: weight(i)}
	}
	return out
}

func alike(int) int { return 1 }

// keys lists the member of each slot by key.
func keys(t *Table, members []Member) []MemberKey {
	out := make([]MemberKey, t.Size())
	for i := range out {
		out[i] = members[t.Slot(i)].Key()
	}
	return out
}

func moved(a, b []MemberKey) int {
	n := 0
	for i := range a {
		if a[i] != b[i] {
			n++
		}
	}
	return n
}

func TestPermutedMembersGiveTheSameTable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		members := drawMembers(t, 12)
		size := rapid.IntRange(1, 300).Draw(t, "size")
		shuffled := rapid.Permutation(members).Draw(t, "shuffled")
		a, b := NewTable(members, size), NewTable(shuffled, size)
		if !slices.Equal(keys(a, members), keys(b, shuffled)) {
			t.Fatal("the tables differ")
		}
		h := rapid.Uint64().Draw(t, "hash")
		var x, y []MemberKey
		for i := range a.Order(h) {
			x = append(x, members[i].Key())
		}
		for i := range b.Order(h) {
			y = append(y, shuffled[i].Key())
		}
		if !slices.Equal(x, y) {
			t.Fatalf("the orders differ: %v and %v", x, y)
		}
	})
}

func TestOrderYieldsEachMemberOnceAndTheLookedUpFirst(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		members := drawMembers(t, 12)
		table := NewTable(members, rapid.IntRange(0, 40).Draw(t, "size"))
		h := rapid.Uint64().Draw(t, "hash")
		var got []int
		for i := range table.Order(h) {
			got = append(got, i)
		}
		first := table.Lookup(h)
		if (first < 0) != (len(members) == 0) || (len(got) > 0 && got[0] != first) {
			t.Fatalf("Lookup says %d, Order %v of %d members", first, got, len(members))
		}
		weigh := slices.ContainsFunc(members, func(m Member) bool { return m.Weight > 0 })
		var want []int
		for i, m := range members {
			if m.Weight > 0 || !weigh {
				want = append(want, i)
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Fatalf("got %v, want %v", got, want)
		}
	})
}

func TestOrderStops(t *testing.T) {
	table := NewTable(tableMembers(10, alike), 101)
	for stopAfter := 1; stopAfter <= 10; stopAfter++ {
		n := 0
		for range table.Order(7) {
			if n++; n == stopAfter {
				break
			}
		}
		if n != stopAfter {
			t.Fatalf("%d, want %d", n, stopAfter)
		}
	}
}

// The bound that other code may rely on: with 100 slots and more a member, a
// member that leaves or joins moves its own share and at most 4 % of all slots
// besides; with 1000 and more, 2 %.
func TestAMembersChangeMovesFewSlots(t *testing.T) {
	for name, weight := range map[string]func(int) int{
		"alike":            alike,
		"weighted":         func(i int) int { return 1 + i%4 },
		"one weighs a lot": func(i int) int { return 1 + 99*max(0, 1-i) },
	} {
		for _, n := range []int{2, 3, 5, 10, 50, 100} {
			for _, a := range []int{100, 1000} {
				size := n * a
				members := tableMembers(n, weight)
				before := keys(NewTable(members, size), members)
				worst := 0.0
				for leaves := 0; leaves < n; leaves += 1 + n/10 {
					own := 0
					for _, k := range before {
						if k == members[leaves].Key() {
							own++
						}
					}
					left := slices.Delete(slices.Clone(members), leaves, leaves+1)
					besides := moved(before, keys(NewTable(left, size), left)) - own
					worst = max(worst, float64(besides)/float64(size))
				}
				t.Logf("%s: %d members of %d slots: %.1f %%", name, n, size, worst*100)
				if worst > map[int]float64{100: 0.04, 1000: 0.02}[a] {
					t.Errorf("%s: %d members of %d slots: %.1f %% moved besides its own", name, n, size, worst*100)
				}
			}
		}
	}
}

func TestADrainedMembersFlowsSpreadOverAllOthers(t *testing.T) {
	members := tableMembers(5, alike)
	table := NewTable(members, 5003)
	second := make([]int, len(members))
	n := 0
	for h := range uint64(5003) {
		if table.Lookup(h) != 0 {
			continue
		}
		n++
		i := 0
		for m := range table.Order(h) {
			if i == 1 {
				second[m]++
			}
			i++
		}
	}
	for m, c := range second[1:] {
		if share := float64(c) / float64(n); math.Abs(share-0.25) > 0.08 {
			t.Errorf("member %d is next for %.0f %% of the flows, want 25 %%", m+1, share*100)
		}
	}
}

func TestWeightsAreRespected(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		weights := rapid.SliceOfN(rapid.IntRange(0, 256), 1, 20).Draw(t, "weights")
		members := tableMembers(len(weights), func(i int) int { return weights[i] })
		size := rapid.IntRange(2000, 5000).Draw(t, "size")
		table := NewTable(members, size)
		total, slots := 0, make([]int, len(weights))
		for _, w := range weights {
			total += w
		}
		for i := range size {
			slots[table.Slot(i)]++
		}
		for i, w := range weights {
			want := float64(size) / float64(len(weights))
			if total > 0 {
				want = float64(size) * float64(w) / float64(total)
			}
			// Turns are whole: each light member may be off by one, at the cost of a heavy one.
			if math.Abs(float64(slots[i])-want) > 1+float64(len(weights)) {
				t.Fatalf("member %d of weight %d has %d slots of %d, want %.1f", i, w, slots[i], size, want)
			}
		}
	})
}

func TestHashesSpreadFlows(t *testing.T) {
	members := tableMembers(3, alike)
	table := NewTable(members, 1021)
	rnd := rand.New(rand.NewPCG(1, 2))
	for name, hash := range map[string]func(i int) uint64{
		"ports of one client": func(i int) uint64 {
			return FlowHash(netip.AddrPortFrom(netip.MustParseAddr("192.0.2.1"), uint16(10000+i)))
		},
		"clients of one network": func(i int) uint64 {
			return ClientHash(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}))
		},
		"clients anywhere, IPv6": func(int) uint64 {
			var b [16]byte
			for i := range b {
				b[i] = byte(rnd.Uint32())
			}
			return ClientHash(netip.AddrFrom16(b))
		},
	} {
		got := make([]int, 3)
		for i := range 30000 {
			got[table.Lookup(hash(i))]++
		}
		for m, n := range got {
			if math.Abs(float64(n)-10000) > 500 {
				t.Errorf("%s: member %d has %d of 30000", name, m, n)
			}
		}
	}
}

// The values are part of what proxies of different versions agree on.
func TestHashesAreTheSameEverywhere(t *testing.T) {
	c := netip.MustParseAddrPort("192.0.2.1:4711")
	mapped := netip.AddrPortFrom(netip.MustParseAddr("::ffff:192.0.2.1"), 4711)
	if FlowHash(c) != FlowHash(mapped) || ClientHash(c.Addr()) != ClientHash(mapped.Addr()) {
		t.Error("an IPv4-mapped client is another")
	}
	if HashFlow.Of(c) != FlowHash(c) || HashClientIP.Of(c) != ClientHash(c.Addr()) {
		t.Error("Hash.Of differs from the functions")
	}
	if got := [2]uint64{FlowHash(c), ClientHash(c.Addr())}; got != [2]uint64{0xdd818248ddd91609, 0xc66a7454996821d9} {
		t.Errorf("%#x", got)
	}
	table := NewTable(tableMembers(3, alike), 16)
	if got := fmt.Sprint(table.slots); got != "[0 2 2 1 0 0 1 0 2 1 1 0 2 1 2 0]" {
		t.Error(got)
	}
}

func BenchmarkNewTable(b *testing.B) {
	members := tableMembers(100, alike)
	for b.Loop() {
		NewTable(members, 65537)
	}
}

func BenchmarkOrderTwo(b *testing.B) {
	table := NewTable(tableMembers(100, alike), 16381)
	b.ReportAllocs()
	for h := uint64(0); b.Loop(); h++ {
		n := 0
		for range table.Order(h) {
			if n++; n == 2 {
				break
			}
		}
	}
}
