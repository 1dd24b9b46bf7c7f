package nftables

// A connection's mark (ct mark) says that it is ours, which spread chose its member, and what to do with it:
//
//	 31       24  23   22    21     20  19        0
//	┌───────────┬────┬─────┬──────┬────┬───────────┐
//	│   0x1b    │cut │told │ keep │ ip │ spread    │
//	└───────────┴────┴─────┴──────┴────┴───────────┘
//
// The lowest 22 bits are the group that nft's maps know. Cut and told are set on connections that are being ended.
type mark uint32

const (
	markBase mark = 0x1b000000
	markMask mark = 0xff000000
	// markCut: the connection has been ended; each side is reset at its next packet.
	markCut mark = 1 << 23
	// markTold: the client's end of it has been told.
	markTold mark = 1 << 22
	// markKeep: members see the client's address.
	markKeep mark = 1 << 21
	// markIP: the client's address alone chooses the member.
	markIP mark = 1 << 20
	// markIDs bounds the ids of spreads.
	markIDs mark = 1 << 20
)

// spread is the mark of the spread that chose the connection's member.
func (m mark) spread() mark { return m &^ (markCut | markTold) }

func (m mark) ours() bool { return m&markMask == markBase }

func (m mark) cut() bool { return m&markCut != 0 }

// marks hands out marks for spreads. What was freed last is used last: connections may still have it.
type marks struct {
	used map[mark]bool
	next mark
}

func newMarks() *marks { return &marks{used: map[mark]bool{}, next: 1} }

// take makes a mark with these bits; 0 if all are used.
func (m *marks) take(bits mark) mark {
	for range markIDs {
		id := m.next
		if m.next++; m.next == markIDs {
			m.next = 1
		}
		if !m.used[id] {
			m.used[id] = true
			return markBase | bits | id
		}
	}
	return 0
}

// claim says that a mark is in use.
func (m *marks) claim(k mark) {
	id := k % markIDs
	m.used[id] = true
	if id >= m.next {
		m.next = max((id+1)%markIDs, 1)
	}
}

func (m *marks) free(k mark) { delete(m.used, k%markIDs) }
