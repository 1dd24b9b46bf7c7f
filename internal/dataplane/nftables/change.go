package nftables

import (
	"errors"
	"fmt"

	"fairlead.dev/fairlead/internal/dataplane/nl"
	"golang.org/x/sys/unix"
)

// owner is for whom an element stands in the table: one of the two.
type owner struct {
	socket *socket
	spread *spread
}

type element struct {
	key, last, value []byte
	comment          string
	owner            owner
}

// change is a list of elements to take out and to put in. It is committed as a whole.
type change struct {
	layout *layout
	// whole: the table itself is made anew; what was in it is gone.
	whole     bool
	remove    bool
	out, in   [][]element
	nout, nin int
}

func newChange(l *layout) *change {
	return &change{layout: l, out: make([][]element, len(l.sets)+1), in: make([][]element, len(l.sets)+1)}
}

func (c *change) empty() bool { return !c.whole && c.nout+c.nin == 0 }

func (c *change) take(s *set, o owner, key []byte) {
	c.out[s.id] = append(c.out[s.id], element{key: key, owner: o})
	c.nout++
}

func (c *change) takeRange(s *set, o owner, first, last []byte) {
	c.out[s.id] = append(c.out[s.id], element{key: first, last: last, owner: o})
	c.nout++
}

func (c *change) put(s *set, o owner, key, value []byte, comment string) {
	c.in[s.id] = append(c.in[s.id], element{key: key, value: value, comment: comment, owner: o})
	c.nin++
}

func (c *change) putRange(s *set, o owner, first, last []byte) {
	c.in[s.id] = append(c.in[s.id], element{key: first, last: last, owner: o})
	c.nin++
}

// place is where an element of a batch is, for the kernel's word on what it refuses.
type place struct {
	message, offset int
	owner           owner
}

// refused is a change that the kernel did not take; owner is for whom the element stood that it named, if it did.
type refused struct {
	owner owner
	err   error
}

func (r *refused) Error() string { return r.err.Error() }
func (r *refused) Unwrap() error { return r.err }

// commit puts the change in effect. The error is *refused where the kernel said no: then nothing has changed.
func (c *change) commit(conn *nl.Conn) error {
	b := &nl.Batch{}
	if c.whole {
		if c.remove {
			b.Add(unix.NFT_MSG_DELTABLE, 0, unix.NFPROTO_INET, tableAttrs(c.layout.table))
		}
		c.layout.addTo(b, c.layout.version)
	}
	var places []place
	for _, s := range c.layout.sets {
		places = c.encode(b, places, unix.NFT_MSG_DELSETELEM, 0, s, c.out[s.id])
	}
	for _, s := range c.layout.sets {
		places = c.encode(b, places, unix.NFT_MSG_NEWSETELEM, unix.NLM_F_CREATE|unix.NLM_F_EXCL, s, c.in[s.id])
	}
	err := conn.Commit(b)
	var r *nl.Refusal
	if !errors.As(err, &r) {
		return err
	}
	out := &refused{err: fmt.Errorf("the kernel refuses a change of %d and %d elements: %w", c.nout, c.nin, err)}
	for _, p := range places {
		if p.message == r.Message && (p.offset <= r.Offset || out.owner == owner{}) {
			out.owner = p.owner
		}
	}
	return out
}

func tableAttrs(name string) (a nl.Attrs) {
	a.String(unix.NFTA_TABLE_NAME, name)
	return a
}

// encode adds elements to a batch, as many to a message as its length can say.
func (c *change) encode(b *nl.Batch, places []place, kind, flags uint16, s *set, elements []element) []place {
	for len(elements) > 0 {
		var a nl.Attrs
		a.String(unix.NFTA_SET_ELEM_LIST_TABLE, c.layout.table)
		a.String(unix.NFTA_SET_ELEM_LIST_SET, s.name)
		first := len(places)
		list := a.Begin(unix.NFTA_SET_ELEM_LIST_ELEMENTS)
		for len(elements) > 0 && len(a) < nl.MaxList {
			e := &elements[0]
			places = append(places, place{offset: len(a), owner: e.owner})
			e.encode(&a)
			elements = elements[1:]
		}
		a.End(list)
		message := b.Add(kind, flags, unix.NFPROTO_INET, a)
		for i := first; i < len(places); i++ {
			places[i].message = message
		}
	}
	return places
}

func (e *element) encode(a *nl.Attrs) {
	at := a.Begin(unix.NFTA_LIST_ELEM)
	data(a, unix.NFTA_SET_ELEM_KEY, e.key)
	if e.last != nil {
		data(a, nftaElemKeyEnd, e.last)
	}
	if e.value != nil {
		data(a, unix.NFTA_SET_ELEM_DATA, e.value)
	}
	if e.comment != "" {
		a.Bytes(nftaElemUserdata, comment(e.comment))
	}
	a.End(at)
}

func data(a *nl.Attrs, t uint16, b []byte) {
	at := a.Begin(t)
	a.Bytes(unix.NFTA_DATA_VALUE, b)
	a.End(at)
}
