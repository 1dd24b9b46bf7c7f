package builtin

import (
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// refusedPenalty and silentPenalty are how long an address is tried last after it refused a connection or didn't
	// answer: until health has noticed. Silence costs each client a timeout, and health needs longer.
	refusedPenalty = time.Second
	silentPenalty  = 5 * time.Second
	// maxPenalties bounds the memory; beyond, penalties are forgotten.
	maxPenalties = 10_000
)

// penalties remembers which addresses failed just now. Port 0 stands for all ports.
type penalties struct {
	any   atomic.Bool
	mu    sync.RWMutex
	until map[netip.AddrPort]time.Time
}

func newPenalties() penalties { return penalties{until: map[netip.AddrPort]time.Time{}} }

func (p *penalties) add(a netip.AddrPort, d time.Duration) {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.until) >= maxPenalties {
		clear(p.until)
	}
	p.until[a] = now.Add(d)
	p.any.Store(true)
}

// has says whether a is to be tried last. It costs next to nothing while nothing is.
func (p *penalties) has(a netip.AddrPort) bool {
	if !p.any.Load() {
		return false
	}
	now, all := time.Now(), netip.AddrPortFrom(a.Addr(), 0)
	p.mu.RLock()
	until, ofPort := p.until[a]
	untilAll, ofAll := p.until[all]
	p.mu.RUnlock()
	if ofPort && now.Before(until) || ofAll && now.Before(untilAll) {
		return true
	}
	if ofPort || ofAll {
		p.expire(now, a, all)
	}
	return false
}

func (p *penalties) expire(now time.Time, keys ...netip.AddrPort) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, k := range keys {
		if until, ok := p.until[k]; ok && !now.Before(until) {
			delete(p.until, k)
		}
	}
	p.any.Store(len(p.until) > 0)
}
