package builtin

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"

	"fairlead.dev/fairlead/internal/dataplane"
	"fairlead.dev/fairlead/internal/lb"
	"golang.org/x/sys/unix"
)

// Name is the word for this data plane in flags, reports and metrics.
const Name = "builtin"

var errClosed = errors.New("the data plane is closed")

// Dataplane serves a Program in this process.
type Dataplane struct {
	o         Options
	log       *slog.Logger
	metrics   *metrics
	penalties penalties
	leaving   *leaving
	assigned  *assigned
	buffers   sync.Pool
	pipes     pipes
	datagrams sync.Pool
	// flows counts those of UDP, tenantFlows has them by lb.TenantID, in a *tenantFlows each.
	flows       atomic.Int64
	tenantFlows sync.Map
	// fewFiles and failedAccept keep the log short.
	fewFiles, failedAccept seldom
	// remain is what the predecessor has open.
	remain atomic.Pointer[dataplane.Open]
	// running counts accept loops and connections.
	running sync.WaitGroup

	// mu is held by Apply and Close, never on the way of a connection.
	mu     sync.Mutex
	closed bool
	// inherited are sockets of the predecessor; inheriting: datagrams are not read yet; yielded: a successor has the sockets.
	inherited           map[bound]int
	inheriting, yielded bool
	health              lb.Health
	groups              map[groupKey]*group
	// ended groups have left the Program and may have open connections.
	ended     map[groupKey]struct{}
	targets   map[targetKey]*target
	tables    map[lb.TableKey]*table
	byCheck   map[lb.Check]map[*table]struct{}
	pools     map[poolKey]*pool
	frontends map[lb.FrontendID]*frontend
	listeners map[lb.Socket]*listener
	// ending are the sockets that have left the Program and still serve UDP flows.
	ending map[lb.Socket]*datagrams
	// unbound are the listeners that could not be opened yet.
	unbound map[*listener]lb.Problem
}

var _ dataplane.Dataplane = (*Dataplane)(nil)

// New returns a data plane that serves nothing yet.
func New(o Options) *Dataplane {
	o = o.complete()
	return &Dataplane{
		o:         o,
		log:       o.Logger,
		metrics:   newMetrics(o.Registerer),
		penalties: newPenalties(),
		leaving:   newLeaving(),
		assigned:  newAssigned(o.Logger),
		buffers:   sync.Pool{New: func() any { return new([bufferSize]byte) }},
		datagrams: sync.Pool{New: func() any { return new([datagramSize]byte) }},
		inherited: map[bound]int{},
		pipes:     make(pipes, maxIdlePipes),
		groups:    map[groupKey]*group{},
		ending:    map[lb.Socket]*datagrams{},
		ended:     map[groupKey]struct{}{},
		targets:   map[targetKey]*target{},
		tables:    map[lb.TableKey]*table{},
		byCheck:   map[lb.Check]map[*table]struct{}{},
		pools:     map[poolKey]*pool{},
		frontends: map[lb.FrontendID]*frontend{},
		listeners: map[lb.Socket]*listener{},
		unbound:   map[*listener]lb.Problem{},
	}
}

// Name implements dataplane.Dataplane.
func (*Dataplane) Name() string { return Name }

// Recover finds nothing running, since this data plane lives and dies with its process, but for addresses that a
// process before it put on this host.
func (d *Dataplane) Recover(_ context.Context, lastGood *lb.Program) (dataplane.Drift, error) {
	var drift dataplane.Drift
	if lastGood == nil {
		return drift, nil
	}
	for _, l := range lastGood.Listeners {
		drift.Missing += len(l.Frontends)
	}
	for _, t := range lastGood.Tenants {
		for _, f := range t.Frontends {
			if f.Assign {
				d.assigned.remember(d.o.bindAddress(f.ID.Address))
			}
		}
	}
	return drift, nil
}

// Changed implements dataplane.Dataplane.
func (d *Dataplane) Changed() <-chan struct{} { return d.leaving.changed }

// Observe implements dataplane.Dataplane. Its cost follows what drains, not what is served.
func (d *Dataplane) Observe() dataplane.Observation {
	o := d.leaving.observe()
	d.addRemain(&o)
	return o
}

// Close closes all listeners, waits for open connections until ctx ends, and
// cuts what is left. It returns ctx's cause if it had to cut.
func (d *Dataplane) Close(ctx context.Context) error {
	d.mu.Lock()
	d.closed = true
	open := make([]*frontend, 0, len(d.frontends))
	for _, l := range d.listeners {
		l.close()
		l.front.Store(nil)
		if l.udp != nil {
			l.udp.resume()
		}
	}
	for _, fd := range d.inherited {
		unix.Close(fd)
	}
	clear(d.inherited)
	for _, f := range d.frontends {
		f.retire(0)
		open = append(open, f)
	}
	d.mu.Unlock()

	ended := make(chan struct{})
	go func() {
		d.running.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		d.pipes.closeIdle()
		return nil
	case <-ctx.Done():
	}
	for _, f := range append(open, d.leaving.retired()...) {
		f.cutAll()
	}
	<-ended
	d.pipes.closeIdle()
	return context.Cause(ctx)
}
