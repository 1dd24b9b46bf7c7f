package builtin

import (
	"errors"
	"net/netip"
	"os"
	"syscall"
	"time"
)

// Results of a connect, as metrics have them.
const (
	connected   = "ok"
	refused     = "refused"
	timedOut    = "timeout"
	unreachable = "unreachable"
	// resetAtOnce: connected, and reset before the member said anything.
	resetAtOnce = "reset"
	// noResources: this host's fault, not the member's.
	noResources = "local"
)

var results = []string{connected, refused, timedOut, unreachable, resetAtOnce, noResources}

// scarcePause is the wait before the next attempt when this host has no files left.
const scarcePause = 10 * time.Millisecond

// Why a client is turned away, as metrics have it.
const (
	noMembers    = "no_members"
	notConnected = "not_connected"
	notAllowed   = "not_allowed"
)

// declined is no result: the member drains, or the client is gone.
const declined = ""

// caller wants to reach a member: a TCP connection, or a UDP flow.
type caller interface {
	carried
	// reach has the member count it and goes to it. Any result but connected leaves no trace at the member.
	reach(d *Dataplane, m *member, to netip.AddrPort) (result string)
}

// attempts is how often, and on whom, a connection was tried.
type attempts struct {
	left  int
	tried []*member
}

func (a *attempts) has(m *member) bool {
	for _, t := range a.tried {
		if t == m {
			return true
		}
	}
	return false
}

// connect finds a member for c and goes to it; nil if none takes it. The
// member counts c from before the connect; the caller dismisses c.
func (d *Dataplane) connect(c caller, from netip.AddrPort, p *pool) *member {
	var first [DefaultConnectAttempts]*member
	a := attempts{left: d.o.ConnectAttempts, tried: first[:0]}
	for {
		config := p.config.Load()
		state := config.table.state.Load()
		if m := d.try(c, from, config, state.built(), &a); m != nil {
			return m
		}
		if a.left > 0 && !c.over() && (p.config.Load() != config || config.table.state.Load() != state) {
			continue // The members have changed meanwhile.
		}
		because := notConnected
		if len(state.members) == 0 {
			because = noMembers
		}
		d.metrics.refuse(p.tenant, because)
		return nil
	}
}

// try goes through the members in the order of c's flow, those that failed just now last.
func (d *Dataplane) try(c caller, from netip.AddrPort, p *poolConfig, s *tableState, a *attempts) *member {
	var last []*member
	for i := range s.table.Order(p.Hash.Of(from)) {
		m := s.members[i]
		if d.penalties.has(netip.AddrPortFrom(m.target.member.Address, p.Port)) {
			last = append(last, m)
			continue
		}
		if d.reach(c, m, p.Port, a) {
			return m
		}
		if a.left == 0 {
			return nil
		}
	}
	for _, m := range last {
		if d.reach(c, m, p.Port, a) {
			return m
		}
		if a.left == 0 {
			return nil
		}
	}
	return nil
}

// reach has c go to m; false if that is to be tried elsewhere.
func (d *Dataplane) reach(c caller, m *member, port uint16, a *attempts) bool {
	if a.has(m) {
		return false
	}
	result := c.reach(d, m, netip.AddrPortFrom(m.target.member.Address, port))
	if result == declined {
		if c.over() {
			a.left = 0
		}
		return false
	}
	if len(a.tried) > 0 {
		d.metrics.retries.WithLabelValues(string(m.target.tenant)).Inc()
	}
	a.left--
	a.tried = append(a.tried, m)
	m.target.metrics.connects[result].Inc()
	if result == connected {
		return true
	}
	if c.over() {
		a.left = 0
	}
	if result == noResources {
		time.Sleep(scarcePause)
	}
	return false
}

const (
	// early is how soon after the connect a reset says that a member takes connections and can't serve them.
	early = time.Second
	// resetsInARow are enough to have it tried last, though clients spoke first and so may have provoked them.
	resetsInARow = 3
)

// heard: the member speaks.
func (m *member) heard() {
	if m.resets.Load() != 0 {
		m.resets.Store(0)
	}
}

// resetEarly takes in that a member reset a connection of which it had said nothing.
func (d *Dataplane) resetEarly(m *member, c *conn, clientSpoke bool, after time.Duration) {
	d.o.Suspect(m.target.member.Address)
	if after > early {
		return
	}
	m.target.metrics.connects[resetAtOnce].Inc()
	if n := m.resets.Add(1); !clientSpoke || n >= resetsInARow {
		port := c.front.config.Load().pool.config.Load().Port
		d.penalties.add(netip.AddrPortFrom(m.target.member.Address, port), refusedPenalty)
	}
}

// judge says what became of a connect and makes its failure known.
func (d *Dataplane) judge(address netip.AddrPort, err error) string {
	switch {
	case err == nil:
		return connected
	case scarce(err), errors.Is(err, syscall.EADDRNOTAVAIL):
		if d.fewFiles.now() {
			d.log.Error("connecting to a member failed for want of files or ports on this host", "member", address.String(), "err", err)
		}
		return noResources
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ECONNRESET): // it takes no connection at this port
		d.penalties.add(address, refusedPenalty)
		d.o.Suspect(address.Addr())
		return refused
	}
	d.penalties.add(netip.AddrPortFrom(address.Addr(), 0), silentPenalty)
	d.o.Suspect(address.Addr())
	if os.IsTimeout(err) || errors.Is(err, os.ErrDeadlineExceeded) {
		return timedOut
	}
	return unreachable
}
