package build

import (
	"slices"
	"sort"

	"fairlead.dev/fairlead/internal/lb"
)

// edit opens a socket for a frontend, or closes it.
type edit struct {
	id   lb.FrontendID
	open bool
}

// appendEdits appends what differs in sockets between two Snapshots of a namespace.
func appendEdits(to []edit, old, next *lb.Snapshot) []edit {
	var o, n []*lb.Frontend
	if old != nil {
		o = old.Frontends
	}
	if next != nil {
		n = next.Frontends
	}
	for len(o) > 0 || len(n) > 0 {
		c := 0
		switch {
		case len(o) == 0:
			c = 1
		case len(n) == 0:
			c = -1
		case o[0] != n[0]:
			c = o[0].ID.Compare(n[0].ID)
		}
		if c < 0 {
			to = append(to, edit{o[0].ID, false})
		}
		if c > 0 {
			to = append(to, edit{n[0].ID, true})
		}
		if c <= 0 {
			o = o[1:]
		}
		if c >= 0 {
			n = n[1:]
		}
	}
	return to
}

// applyEdits returns the listeners after the edits. The ledger sees to it that
// no socket is open for two: one that is closed and opened goes from one frontend to another.
func applyEdits(old []lb.Listener, edits []edit) []lb.Listener {
	if len(edits) == 0 {
		return old
	}
	// Of one socket, open comes last and counts.
	slices.SortFunc(edits, func(a, b edit) int {
		if c := a.id.Socket().Compare(b.id.Socket()); c != 0 {
			return c
		}
		switch {
		case a.open == b.open:
			return a.id.Compare(b.id)
		case a.open:
			return 1
		}
		return -1
	})
	out := make([]lb.Listener, 0, len(old)+len(edits))
	for i, e := range edits {
		s := e.id.Socket()
		if i+1 < len(edits) && edits[i+1].id.Socket() == s {
			continue
		}
		from := sort.Search(len(old), func(i int) bool { return old[i].Socket.Compare(s) >= 0 })
		out, old = append(out, old[:from]...), old[from:]
		if len(old) > 0 && old[0].Socket == s {
			old = old[1:]
		}
		if e.open {
			out = append(out, lb.Listener{Socket: s, Frontends: []lb.FrontendID{e.id}})
		}
	}
	return append(out, old...)
}
