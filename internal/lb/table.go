package lb

import (
	"cmp"
	"iter"
	"slices"
)

// TableKey names a Table: pools that agree in all of it send a flow to the
// same member and share one. It is comparable.
type TableKey struct {
	Tenant   TenantID
	Group    GroupID
	Check    Check
	FailOpen bool
	Hash     Hash
	Zone     string
}

// Key names the Table of a Pool.
func (p *Pool) Key(tenant TenantID) TableKey {
	return TableKey{Tenant: tenant, Group: p.Group, Check: p.Check, FailOpen: p.FailOpen, Hash: p.Hash, Zone: p.Zone}
}

// Table says which member a flow gets (Maglev hashing with weights). It
// depends on the members' keys and weights and on the size alone, so that every
// proxy has the same, and a change of one member moves few flows of others. It
// is immutable.
type Table struct {
	// slots hold indices into the members that NewTable got.
	slots []int32
	// rest are the members with a weight that got no slot: there were fewer slots than members.
	rest []int32
	// members is the number of members that NewTable got.
	members int
	// ranking of a table of HashClientIP; nil in others.
	ranking *ranking
}

// NewTable spreads size slots over members by their weights, over all alike if
// all weigh 0; else members of weight 0 get none. A member that leaves or joins moves
// its own share and, with 100 slots a member, at most 4 % of the others; with
// 1000, 2 % (primes do best). Building takes time in proportion to size: 2 ms for 65,537.
func NewTable(members []Member, size int) *Table {
	t := &Table{members: len(members)}
	order := seats(members)
	if len(order) == 0 || size <= 0 {
		for _, s := range order {
			t.rest = append(t.rest, s.index)
		}
		return t
	}
	heaviest := slices.MaxFunc(order, func(a, b seat) int { return cmp.Compare(a.weight, b.weight) }).weight
	for i := range order {
		order[i].seed(members, uint64(size), heaviest)
	}
	t.slots = make([]int32, size)
	for i := range t.slots {
		t.slots[i] = -1
	}
	fill(t.slots, order, heaviest)
	for i := range order {
		if order[i].taken == 0 {
			t.rest = append(t.rest, order[i].index)
		}
	}
	return t
}

// seat is a member that takes slots, in the order of a permutation of its own.
type seat struct {
	index      int32
	taken      int
	weight     uint64
	at, stride uint64
	// due is the weight that it has earned and not yet spent. Members start with different amounts, so
	// that light ones don't take their turns all at once.
	due uint64
}

// seats are the members that may have slots, in an order that doesn't depend on that of members.
func seats(members []Member) []seat {
	weigh := slices.ContainsFunc(members, func(m Member) bool { return m.Weight > 0 })
	out := make([]seat, 0, len(members))
	for i := range members {
		switch w := members[i].Weight; {
		case w > 0:
			out = append(out, seat{index: int32(i), weight: uint64(w)})
		case !weigh:
			out = append(out, seat{index: int32(i), weight: 1})
		}
	}
	slices.SortStableFunc(out, func(a, b seat) int {
		return cmp.Or(members[a.index].Key().Compare(members[b.index].Key()), cmp.Compare(a.weight, b.weight))
	})
	return out
}

// seed sets the member's permutation of the slots: at, at+stride, at+2*stride, … modulo size.
func (s *seat) seed(members []Member, size, heaviest uint64) {
	k := members[s.index].Key()
	s.due = k.hash(fnvPrime) % heaviest
	s.at = k.hash(fnvOffset) % size
	if size == 1 {
		s.stride = 1
		return
	}
	s.stride = k.hash(fnvOffset^fnvPrime)%(size-1) + 1
	for gcd(s.stride, size) != 1 {
		if s.stride++; s.stride >= size {
			s.stride = 1
		}
	}
}

func gcd(a, b uint64) uint64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// fill lets the members take turns: each earns its weight a round, and takes
// the next free slot of its permutation for each heaviest weight earned.
func fill(slots []int32, order []seat, heaviest uint64) {
	size := uint64(len(slots))
	for free := len(slots); ; {
		for i := range order {
			s := &order[i]
			if s.due += s.weight; s.due < heaviest {
				continue
			}
			s.due -= heaviest
			for slots[s.at] >= 0 {
				s.at = (s.at + s.stride) % size
			}
			slots[s.at] = s.index
			s.taken++
			if free--; free == 0 {
				return
			}
		}
	}
}

// Lookup returns the index, into the members that NewTable got, of the member
// that a flow with this hash gets; -1 if there is none.
func (t *Table) Lookup(hash uint64) int {
	if len(t.slots) == 0 {
		if len(t.rest) > 0 {
			return int(t.rest[0])
		}
		return -1
	}
	return int(t.slots[hash%uint64(len(t.slots))])
}

// Order yields the members in which a flow with this hash tries them: the one
// of Lookup first, and each once. The flows of a member that is away spread
// over all others; clients with HashClientIP go where they will go when the table
// is made without it. Members that get no slot for their weight are left out.
func (t *Table) Order(hash uint64) iter.Seq[int] {
	return func(yield func(int) bool) {
		if len(t.slots) == 0 {
			t.yieldRest(yield)
			return
		}
		start := int(hash % uint64(len(t.slots)))
		if t.ranking != nil {
			t.yieldRanked(start, yield)
			return
		}
		first := t.slots[start]
		if !yield(int(first)) {
			return
		}
		seen := make([]bool, t.members)
		seen[first] = true
		for _, half := range [2][]int32{t.slots[start+1:], t.slots[:start]} {
			for _, m := range half {
				if seen[m] {
					continue
				}
				seen[m] = true
				if !yield(int(m)) {
					return
				}
			}
		}
		t.yieldRest(yield)
	}
}

func (t *Table) yieldRanked(slot int, yield func(int) bool) {
	if !yield(int(t.slots[slot])) {
		return
	}
	for _, m := range t.ranking.all(slot)[1:] {
		if !yield(int(m)) {
			return
		}
	}
}

func (t *Table) yieldRest(yield func(int) bool) {
	for _, m := range t.rest {
		if !yield(int(m)) {
			return
		}
	}
}

// Size is the number of slots; Slot the member of one, for data planes that copy the table.
func (t *Table) Size() int { return len(t.slots) }

// Slot is the index, into the members that NewTable got, of the member of slot i.
func (t *Table) Slot(i int) int { return int(t.slots[i]) }
