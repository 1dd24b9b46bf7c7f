package lb

import (
	"cmp"
	"math/bits"
	"slices"
)

// NewTable spreads size slots over members as h demands: with HashClientIP by
// rendezvous hashing, slot by slot, so that a member that comes, goes or changes
// its weight moves no client between two others; else as the function NewTable
// does, which spreads flows more evenly. Rendezvous hashing takes time in
// proportion to size and members: 4 ms for 65,537 slots and 50 members, ten times
// that where they weigh differently.
func (h Hash) NewTable(members []Member, size int) *Table {
	if h != HashClientIP {
		return NewTable(members, size)
	}
	t := &Table{members: len(members)}
	order := seats(members)
	r := newRanking(members, order)
	taken := make([]bool, len(members))
	if len(order) > 0 && size > 0 {
		t.slots = make([]int32, size)
		t.ranking = r
	}
	for i := range t.slots {
		t.slots[i] = r.best(i)
		taken[t.slots[i]] = true
	}
	for _, s := range order {
		if !taken[s.index] {
			t.rest = append(t.rest, s.index)
		}
	}
	return t
}

// ranking orders members for each slot by weighted rendezvous hashing.
type ranking struct {
	// byWeight holds the members of each weight together: among equals the hash alone decides.
	byWeight [][]ranked
}

type ranked struct {
	index  int32
	weight uint64
	seed   uint64
}

func newRanking(members []Member, order []seat) *ranking {
	r := &ranking{}
	at := map[uint64]int{}
	for _, s := range order {
		i, ok := at[s.weight]
		if !ok {
			i = len(r.byWeight)
			at[s.weight] = i
			r.byWeight = append(r.byWeight, nil)
		}
		k := members[s.index].Key()
		r.byWeight[i] = append(r.byWeight[i], ranked{s.index, s.weight, k.hash(fnvOffset)})
	}
	return r
}

// draw is the member's lot for a slot.
func (m ranked) draw(slot uint64) uint64 { return mix(m.seed + slot*0x9e3779b97f4a7c15) }

// best is the member that a slot belongs to.
func (r *ranking) best(slot int) int32 {
	var first ranked
	var least uint64
	for i, ms := range r.byWeight {
		b, most := ms[0], ms[0].draw(uint64(slot))
		for _, m := range ms[1:] {
			if d := m.draw(uint64(slot)); d > most {
				b, most = m, d
			}
		}
		if len(r.byWeight) == 1 {
			return b.index
		}
		if c := cost(most); i == 0 || compareShares(c, b.weight, least, first.weight) < 0 {
			first, least = b, c
		}
	}
	return first.index
}

// all are the members in the order in which a slot goes to them as those before are gone.
func (r *ranking) all(slot int) []int32 {
	type lot struct {
		ranked
		cost uint64
		draw uint64
	}
	var lots []lot
	for _, ms := range r.byWeight {
		for _, m := range ms {
			d := m.draw(uint64(slot))
			lots = append(lots, lot{m, cost(d), d})
		}
	}
	slices.SortStableFunc(lots, func(a, b lot) int {
		if a.weight == b.weight {
			return cmp.Compare(b.draw, a.draw)
		}
		return compareShares(a.cost, a.weight, b.cost, b.weight)
	})
	out := make([]int32, len(lots))
	for i, l := range lots {
		out[i] = l.index
	}
	return out
}

// compareShares compares a/wa and b/wb.
func compareShares(a, wa, b, wb uint64) int {
	ah, al := bits.Mul64(a, wb)
	bh, bl := bits.Mul64(b, wa)
	return cmp.Or(cmp.Compare(ah, bh), cmp.Compare(al, bl))
}

// cost is -log2(x / 2^64) with 32 bits behind the point. It is made of integers,
// so that every machine finds the same.
func cost(x uint64) uint64 {
	if x == 0 {
		x = 1
	}
	n := bits.LeadingZeros64(x)
	x <<= n // in [2^63, 2^64): 1.0 to 2.0
	var fraction uint64
	for range 32 {
		hi, _ := bits.Mul64(x, x) // 2.62 fixed point
		fraction <<= 1
		if hi>>63 != 0 {
			fraction |= 1
			x = hi
		} else {
			x = hi << 1
		}
	}
	return uint64(n+1)<<32 - fraction
}
