package ipam

import (
	"container/heap"
	"math"
	"net/netip"
	"slices"
)

// allocator finds the lowest free address of a pool's own ranges. Everything
// below (at, next) is held or in freed; both are memory of a search, and say
// nothing that the ledger doesn't.
type allocator struct {
	ranges []Range // in the pool's order, disjoint from each other and from older pools
	cuts   []cut   // what older pools keep
	size   int64
	held   int64 // addresses of ranges that are in the ledger

	at    int        // index in ranges
	next  netip.Addr // first address of ranges[at] that was not looked at
	freed freedHeap
}

type cut struct {
	Range
	pool string
}

// position orders addresses by range, then address.
type position struct {
	at      int
	address netip.Addr
}

func (p position) less(o position) bool {
	return p.at < o.at || p.at == o.at && p.address.Less(o.address)
}

func newAllocator(ranges []Range, cuts []cut) *allocator {
	a := &allocator{ranges: ranges, cuts: cuts}
	for _, r := range ranges {
		if n := r.Size(); a.size > math.MaxInt64-n {
			a.size = math.MaxInt64
		} else {
			a.size += n
		}
	}
	if len(ranges) > 0 {
		a.next = ranges[0].First
	}
	return a
}

// index finds the range that the address lies in; -1: none.
func (a *allocator) index(addr netip.Addr) int {
	return slices.IndexFunc(a.ranges, func(r Range) bool { return r.Contains(addr) })
}

// free is the number of addresses that nobody holds.
func (a *allocator) free() int64 { return a.size - a.held }

// choose returns the lowest address that isn't held.
func (a *allocator) choose(held func(netip.Addr) bool) (netip.Addr, bool) {
	for len(a.freed) > 0 {
		if addr := a.freed[0].address; !held(addr) {
			return addr, true
		}
		heap.Pop(&a.freed)
	}
	for a.at < len(a.ranges) {
		for r := a.ranges[a.at]; a.next.IsValid() && r.Contains(a.next); a.next = a.next.Next() {
			if !held(a.next) {
				return a.next, true
			}
		}
		if a.at++; a.at < len(a.ranges) {
			a.next = a.ranges[a.at].First
		}
	}
	return netip.Addr{}, false
}

// took counts an address of range i that is held now.
func (a *allocator) took() { a.held++ }

// gave counts an address of range i that is free again.
func (a *allocator) gave(i int, addr netip.Addr) {
	a.held--
	if p := (position{i, addr}); p.less(position{a.at, a.next}) {
		heap.Push(&a.freed, p)
	}
}

type freedHeap []position

func (h freedHeap) Len() int           { return len(h) }
func (h freedHeap) Less(i, j int) bool { return h[i].less(h[j]) }
func (h freedHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *freedHeap) Push(x any)        { *h = append(*h, x.(position)) }
func (h *freedHeap) Pop() any {
	last := len(*h) - 1
	x := (*h)[last]
	*h = (*h)[:last]
	return x
}
