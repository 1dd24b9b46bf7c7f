package builtin

import (
	"errors"
	"net"
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
	// noResources: this host's fault, not the member's.
	noResources = "local"
)

var results = []string{connected, refused, timedOut, unreachable, noResources}

// scarcePause is the wait before the next attempt when this host has no files left.
const scarcePause = 10 * time.Millisecond

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

// connect finds a member for c and connects to it; nil if none takes it. The
// member counts c from before the connect; the caller dismisses c.
func (d *Dataplane) connect(c *conn, p *pool) *member {
	a := attempts{left: d.o.ConnectAttempts}
	for {
		config := p.config.Load()
		state := config.table.state.Load()
		if m := d.try(c, config, state.built(), &a); m != nil {
			return m
		}
		if a.left > 0 && !c.dead.Load() && (p.config.Load() != config || config.table.state.Load() != state) {
			continue // The members have changed meanwhile.
		}
		because := "not_connected"
		if len(state.members) == 0 {
			because = "no_members"
		}
		d.metrics.refusedClients.WithLabelValues(string(p.tenant), because).Inc()
		return nil
	}
}

// try goes through the members in the order of c's flow, those that failed just now last.
func (d *Dataplane) try(c *conn, p *poolConfig, s *tableState, a *attempts) *member {
	var last []*member
	for i := range s.table.Order(p.Hash.Of(c.from)) {
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

// reach connects c to m; false if that is to be tried elsewhere.
func (d *Dataplane) reach(c *conn, m *member, port uint16, a *attempts) bool {
	if a.has(m) || !m.admit(c) {
		return false
	}
	if len(a.tried) > 0 {
		d.metrics.retries.WithLabelValues(string(m.target.tenant)).Inc()
	}
	a.left--
	a.tried = append(a.tried, m)
	address := netip.AddrPortFrom(m.target.member.Address, port)
	target, err := d.dial(address)
	result := d.judge(address, err)
	m.target.metrics.connects[result].Inc()
	if err == nil && c.reaches(target) {
		return true
	}
	m.dismiss(c)
	if c.dead.Load() {
		a.left = 0
	}
	if result == noResources {
		time.Sleep(scarcePause)
	}
	return false
}

func (d *Dataplane) dial(address netip.AddrPort) (*net.TCPConn, error) {
	dialer := net.Dialer{Timeout: d.o.ConnectTimeout, KeepAliveConfig: keepAlive}
	// Not DialTCP: it binds before it connects, and so shares one range of ports among all destinations.
	c, err := dialer.Dial("tcp4", address.String())
	if err != nil {
		return nil, err
	}
	return c.(*net.TCPConn), nil
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
	case errors.Is(err, syscall.ECONNREFUSED):
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
