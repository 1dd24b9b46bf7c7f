package builtin

import (
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"fairlead.dev/fairlead/internal/lb"
)

// frontend holds the connections of one lb.Frontend that go, or went, to one
// group and port.
type frontend struct {
	id      lb.FrontendID
	config  atomic.Pointer[frontendConfig]
	leaving *leaving
	metrics *loadBalancerMetrics
	open    atomic.Int64

	// release lets go of its address on this host.
	release func()

	mu      sync.Mutex
	retired bool
	// assigned: it holds its address on this host.
	assigned bool
	held     ties
	timer    *time.Timer
}

type frontendConfig struct {
	*lb.Frontend
	pool *pool
}

// allows says whether a client may connect.
func (c *frontendConfig) allows(client netip.Addr) bool {
	if len(c.Sources) == 0 {
		return true
	}
	for _, s := range c.Sources {
		if s.Contains(client) {
			return true
		}
	}
	return false
}

func (d *Dataplane) newFrontend(f *lb.Frontend, p *pool) *frontend {
	n := &frontend{
		id:      f.ID,
		leaving: d.leaving,
		metrics: d.metrics.loadBalancer(f.ID.Tenant, f.ID.LoadBalancer),
	}
	n.config.Store(&frontendConfig{f, p})
	p.frontends[n] = struct{}{}
	n.release = func() { d.assigned.release(d.o.bindAddress(n.id.Address)) }
	d.assign(n)
	return n
}

// admit takes one on; false if the frontend has retired.
func (f *frontend) admit(t *tie) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.retired {
		return false
	}
	f.held.add(t)
	f.open.Add(1)
	return true
}

// dismiss lets go of one.
func (f *frontend) dismiss(t *tie) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.held.remove(t)
	f.open.Add(-1)
	if !f.retired {
		return
	}
	if f.held.n == 0 {
		f.end()
	}
	f.leaving.notify()
}

// retire lets the open connections live on for timeout; 0: for good.
func (f *frontend) retire(timeout time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.retired {
		return
	}
	f.retired = true
	if f.held.n == 0 {
		f.end()
		return
	}
	f.leaving.addFrontend(f)
	if timeout > 0 {
		f.timer = time.AfterFunc(timeout, f.cutAll)
	}
}

// end tidies up after the last connection of a retired frontend. f.mu is held.
func (f *frontend) end() {
	if f.timer != nil {
		f.timer.Stop()
	}
	f.leaving.dropFrontend(f)
	f.metrics.release()
	if f.assigned {
		f.assigned = false
		f.release()
	}
}

func (f *frontend) cutAll() {
	f.mu.Lock()
	cut := f.held.all()
	f.mu.Unlock()
	for _, c := range cut {
		c.cut()
	}
}
