package nftables

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"fairlead.dev/fairlead/internal/dataplane/nl"
	"fairlead.dev/fairlead/internal/lb"
	"golang.org/x/sys/unix"
)

const (
	// lookEvery is how often it is asked whether somebody else has changed rules. While nobody has, that is all it costs.
	lookEvery = time.Second
	// readEvery bounds how often our table is read whole because somebody has.
	readEvery = time.Minute
)

// guarded is what was last known of the kernel's rules, by which others' changes are noticed: `nft flush ruleset`
// takes our table too.
type guarded struct {
	// generation of all rules, after our last change.
	generation uint32
	// handle of our table; another one is another table.
	handle uint64
	// commits of ours.
	commits int
	// torn: our table is not what it should be, and could not be mended; that is tried again.
	torn bool
	// changed by others since the table was read; read is when that was.
	changed bool
	read    time.Time
}

func generation(c *nl.Conn) (id uint32, err error) {
	err = c.Get(nl.Tables<<8|unix.NFT_MSG_GETGEN, nl.Head(unix.AF_UNSPEC, 0), nil, nl.HeadLen, func(_ []byte, a nl.Attrs) {
		for t, v := range a.All() {
			if t == 1 && len(v) == 4 {
				id = binary.BigEndian.Uint32(v)
			}
		}
	})
	return id, err
}

// handle of our table; 0: there is none.
func (l *layout) handle(c *nl.Conn) (id uint64, err error) {
	err = c.Get(nl.Tables<<8|unix.NFT_MSG_GETTABLE, nl.Head(unix.NFPROTO_INET, 0), tableAttrs(l.table), nl.HeadLen, func(_ []byte, a nl.Attrs) {
		for t, v := range a.All() {
			if t == nftaTableHandle && len(v) == 8 {
				id = binary.BigEndian.Uint64(v)
			}
		}
	})
	if errors.Is(err, unix.ENOENT) {
		return 0, nil
	}
	return id, err
}

// commit puts c in effect and notes whether somebody else changed something since.
func (d *Dataplane) commit(c *change) error {
	if c.empty() {
		return nil
	}
	if err := c.commit(d.tables); err != nil {
		return err
	}
	id, err := generation(d.tables)
	if err != nil {
		return fmt.Errorf("asking for the rules' generation: %w", err)
	}
	d.guarded.changed = d.guarded.changed || id != d.guarded.generation+1
	d.guarded.generation = id
	d.guarded.commits++
	if c.whole {
		if d.guarded.handle, err = d.layout.handle(d.tables); err != nil {
			return fmt.Errorf("asking for table inet %s: %w", d.layout.table, err)
		}
	}
	return nil
}

// lookAround notices others' changes, and mends what they did to our table.
func (d *Dataplane) lookAround(now time.Time) {
	d.mu.Lock()
	commits, whole := d.guarded.commits, false
	var err error
	switch {
	case d.guarded.torn && !d.closed:
		err = d.restore()
	case d.lookable():
		whole, err = d.mend(now)
	}
	d.mu.Unlock()
	if err == nil && whole {
		err = d.compare(commits)
	}
	if err != nil && !errors.Is(err, nl.ErrInterrupted) {
		d.log.Error("table can't be looked after", "table", d.layout.table, "err", err)
	}
}

// lookable says that something is served and known.
func (d *Dataplane) lookable() bool { return !d.closed && d.program != nil && !d.stale }

// compare reads our table, which takes long, and mends it if it is not what it was when commits were made.
func (d *Dataplane) compare(commits int) error {
	r, err := d.layout.readOnce(d.reads)
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.lookable() || d.guarded.commits != commits {
		return nil // Another time.
	}
	d.guarded.read, d.guarded.changed = time.Now(), false
	if r.current && d.has(r) {
		return nil
	}
	d.log.Warn("somebody changed our table; it is mended", "table", d.layout.table)
	return d.restore()
}

// has says that r is what the kernel is believed to have.
func (d *Dataplane) has(r *running) bool {
	same := len(r.vips) == countAll(d.vips, func(a *address) bool { return a.have && r.vips[a.at] }, func(a *address) bool { return a.have }) &&
		len(r.members) == countAll(d.members, func(a *address) bool { return a.have && r.members[a.at] }, func(a *address) bool { return a.have }) &&
		len(r.targets) == countAll(d.targets, func(t *target) bool { return t.have && r.targets[t.port] }, func(t *target) bool { return t.have })
	if !same {
		return false
	}
	sockets, spreads := 0, 0
	for at, s := range d.sockets {
		if s.have == nil {
			continue
		}
		if sockets++; !s.have.is(r.sockets[at]) {
			return false
		}
	}
	for m, s := range d.byMark {
		if s.listed {
			if spreads++; r.spreads[m] == nil || !r.spreads[m].listed || !slices.Equal(s.have, r.spreads[m].slots) {
				return false
			}
		}
	}
	return sockets == len(r.sockets) && spreads == len(r.spreads)
}

// countAll is how many are found; -1 if not all that should be are.
func countAll[K comparable, V any](all map[K]V, found, should func(V) bool) (n int) {
	wanted := 0
	for _, v := range all {
		if should(v) {
			wanted++
		}
		if found(v) {
			n++
		}
	}
	if n != wanted {
		return -1
	}
	return n
}

// is says that the kernel has the route.
func (r *route) is(s *runningSocket) bool {
	if s == nil || s.mark != r.mark || s.port != r.port || s.open != r.open || s.admitted != r.admitted || s.hasPort != r.hasPort ||
		s.limited != r.limited || s.comment != r.comment || len(s.sources) != len(r.sources) {
		return false
	}
	for _, k := range s.sources {
		if !slices.Contains(r.sources, k) {
			return false
		}
	}
	return true
}

// mend makes our table again if it is gone; whole: it is to be compared whole.
func (d *Dataplane) mend(now time.Time) (whole bool, err error) {
	id, err := generation(d.tables)
	if err != nil {
		return false, err
	}
	if id != d.guarded.generation {
		d.guarded.generation, d.guarded.changed = id, true
		handle, err := d.layout.handle(d.tables)
		if err != nil {
			return false, err
		}
		if handle != d.guarded.handle {
			d.log.Warn("somebody took our table away; it is made again", "table", d.layout.table)
			return false, d.restore()
		}
	}
	return d.guarded.changed && now.Sub(d.guarded.read) >= readEvery, nil
}

// restore reads what runs and makes it what is wanted.
func (d *Dataplane) restore() error {
	d.guarded.read, d.guarded.changed, d.guarded.torn = time.Now(), false, true
	if err := d.reread(); err != nil {
		return err
	}
	d.forget()
	whole := lb.Diff(nil, d.program)
	d.plan(&whole)
	gone, err := d.commitAll(d.program)
	if err != nil {
		return err
	}
	d.stale, d.guarded.torn = false, false
	d.leave(&lb.Changes{}, gone)
	d.assign()
	return nil
}
