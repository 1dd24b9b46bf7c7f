package nftables

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"fairlead.dev/fairlead/internal/dataplane/nftables/nl"
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
	if err := c.commit(d.tables); err != nil {
		return err
	}
	id, err := generation(d.tables)
	if err != nil {
		return fmt.Errorf("asking for the rules' generation: %w", err)
	}
	d.guarded.changed = d.guarded.changed || id != d.guarded.generation+1
	d.guarded.generation = id
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
	defer d.mu.Unlock()
	if d.closed || d.program == nil || d.stale {
		return
	}
	if err := d.mend(now); err != nil {
		d.log.Error("table can't be looked after", "table", d.layout.table, "err", err)
	}
}

func (d *Dataplane) mend(now time.Time) error {
	id, err := generation(d.tables)
	if err != nil {
		return err
	}
	if id != d.guarded.generation {
		d.guarded.generation, d.guarded.changed = id, true
		handle, err := d.layout.handle(d.tables)
		if err != nil {
			return err
		}
		if handle != d.guarded.handle {
			d.log.Warn("somebody took our table away; it is made again", "table", d.layout.table)
			return d.restore()
		}
	}
	if !d.guarded.changed || now.Sub(d.guarded.read) < readEvery {
		return nil
	}
	return d.restore()
}

// restore reads what runs and makes it what is wanted.
func (d *Dataplane) restore() error {
	d.guarded.read, d.guarded.changed = time.Now(), false
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
	d.stale = false
	d.leave(&lb.Changes{}, gone)
	d.assign()
	return nil
}
