package nftables

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"

	"fairlead.dev/fairlead/internal/dataplane"
	"fairlead.dev/fairlead/internal/dataplane/nl"
	"fairlead.dev/fairlead/internal/lb"
	"golang.org/x/sys/unix"
)

// Name is the word for this data plane in flags, reports and metrics.
const Name = "nftables"

var errClosed = errors.New("the data plane is closed")

// Dataplane serves a Program by one table of the kernel's.
type Dataplane struct {
	o       Options
	log     *slog.Logger
	layout  *layout
	ns      *namespace
	metrics *metrics
	// tables and flows are connections to nf_tables and conntrack. reads is another one to nf_tables,
	// so that no change waits for a long list.
	tables, reads, flows *nl.Conn
	probes               *prober

	changed     chan struct{}
	kick        chan struct{}
	observation atomic.Pointer[dataplane.Observation]
	done        chan struct{}
	watching    sync.WaitGroup
	watchOnce   sync.Once

	// mu is held by Apply and for moments by what watches connections.
	mu     sync.Mutex
	closed bool
	// begun: what ran was read. stale: what is wanted must be worked out anew from the whole Program.
	begun, stale bool
	// missing: the table is to be made, instead of another one with replace.
	missing, replace bool

	// program is what was applied last.
	program   *lb.Program
	guarded   guarded
	health    lb.Health
	groups    map[groupKey]*group
	spreads   map[spreadKey]*spread
	byMark    map[mark]*spread
	byNote    map[string]*spread
	byCheck   map[lb.Check]map[*spread]struct{}
	pools     map[poolKey]*pool
	frontends map[lb.FrontendID]*frontend
	sockets   map[lb.Socket]*socket
	vips      map[netip.Addr]*address
	members   map[netip.Addr]*address
	targets   map[uint16]*target
	// serving counts in how many groups a member stands that may get connections.
	serving map[tenantMember]int
	marks   *marks
	dirty   dirty
	// refused are the frontends that can't be served as they are wanted, and why.
	refused map[lb.FrontendID]lb.Problem

	// closedTo are the families that this host does not forward, with the sysctl that says so.
	closedTo map[*family]string

	leaving  leaving
	assigned assigned
}

// dirty are those of which want and have may differ.
type dirty struct {
	spreads map[*spread]struct{}
	sockets map[*socket]struct{}
	vips    map[*address]struct{}
	members map[*address]struct{}
	targets map[*target]struct{}
	// slots are spreads whose slots are to be worked out again.
	slots map[*spread]struct{}
}

func newDirty() dirty {
	return dirty{
		spreads: map[*spread]struct{}{}, sockets: map[*socket]struct{}{}, slots: map[*spread]struct{}{},
		vips: map[*address]struct{}{}, members: map[*address]struct{}{}, targets: map[*target]struct{}{},
	}
}

var _ dataplane.Dataplane = (*Dataplane)(nil)

// New returns a data plane that has looked at nothing and changed nothing yet.
func New(o Options) (*Dataplane, error) {
	o = o.complete()
	ns, err := openNamespace(o.Namespace)
	if err != nil {
		return nil, err
	}
	d := &Dataplane{
		o: o, log: o.Logger, layout: newLayout(o.Table), ns: ns,
		changed: make(chan struct{}, 1), kick: make(chan struct{}, 1), done: make(chan struct{}),
		groups: map[groupKey]*group{}, spreads: map[spreadKey]*spread{}, byMark: map[mark]*spread{}, byNote: map[string]*spread{},
		byCheck: map[lb.Check]map[*spread]struct{}{}, pools: map[poolKey]*pool{}, frontends: map[lb.FrontendID]*frontend{},
		sockets: map[lb.Socket]*socket{}, vips: map[netip.Addr]*address{}, members: map[netip.Addr]*address{}, targets: map[uint16]*target{},
		marks: newMarks(), serving: map[tenantMember]int{}, dirty: newDirty(), refused: map[lb.FrontendID]lb.Problem{},
		leaving: newLeaving(), assigned: newAssigned(o.Table),
	}
	d.observation.Store(&dataplane.Observation{})
	err = ns.do(func() (err error) {
		for _, c := range []struct {
			conn   **nl.Conn
			family int
		}{{&d.tables, unix.NETLINK_NETFILTER}, {&d.reads, unix.NETLINK_NETFILTER}, {&d.flows, unix.NETLINK_NETFILTER}} {
			if *c.conn, err = nl.Dial(c.family); err != nil {
				return err
			}
		}
		d.probes, err = newProber()
		return err
	})
	if err != nil {
		d.release()
		return nil, err
	}
	d.metrics = newMetrics(d, o.Registerer)
	return d, nil
}

// Name implements dataplane.Dataplane.
func (*Dataplane) Name() string { return Name }

// Changed implements dataplane.Dataplane.
func (d *Dataplane) Changed() <-chan struct{} { return d.changed }

// Observe implements dataplane.Dataplane. It is what was counted last.
func (d *Dataplane) Observe() dataplane.Observation { return *d.observation.Load() }

// Close lets go of the kernel and leaves it as it is: what was applied goes on being served.
func (d *Dataplane) Close(context.Context) error {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return nil
	}
	d.closed = true
	close(d.done)
	d.mu.Unlock()
	d.watching.Wait()
	d.metrics.close()
	d.release()
	return nil
}

func (d *Dataplane) release() {
	for _, c := range []*nl.Conn{d.tables, d.reads, d.flows} {
		if c != nil {
			c.Close()
		}
	}
	if d.probes != nil {
		d.probes.close()
	}
	d.ns.close()
}

// Purge takes away all that the data plane put into the kernel: the table and the addresses. Connections that
// are open lose their way.
func (d *Dataplane) Purge() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return errClosed
	}
	r, err := d.layout.read(d.tables)
	if err != nil {
		return err
	}
	if r.exists {
		b := &nl.Batch{}
		b.Add(unix.NFT_MSG_DELTABLE, 0, unix.NFPROTO_INET, tableAttrs(d.layout.table))
		if err := d.tables.Commit(b); err != nil {
			return fmt.Errorf("deleting table inet %s: %w", d.layout.table, err)
		}
	}
	d.program = nil
	d.begun = false
	return d.unassignAll()
}
