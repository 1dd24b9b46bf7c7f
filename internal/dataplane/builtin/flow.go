package builtin

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"fairlead.dev/fairlead/internal/lb"
	"golang.org/x/sys/unix"
)

// flow is what one client's address and port and one frontend have to do with
// each other over UDP. It has a socket of its own to its member, so that what
// comes back is its client's, and the kernel tells of a member that refuses.
type flow struct {
	client netip.AddrPort
	in     *datagrams
	front  *frontend
	member *member
	// inFront and inMember keep it in the lists of those two.
	inFront, inMember tie

	target *os.File
	raw    syscall.RawConn
	// active is when a datagram last went either way.
	active atomic.Int64
	dead   atomic.Bool
	mu     sync.Mutex // of target, until it is there

	// config, pool and state are what it was last found right with. The goroutine that receives clients' datagrams has them.
	config *frontendConfig
	pool   *poolConfig
	state  *tableState
}

func (f *flow) over() bool         { return f.dead.Load() }
func (f *flow) through() *frontend { return f.front }

// cut ends the flow: the client's next datagram begins another.
func (f *flow) cut() {
	f.mu.Lock()
	f.dead.Store(true)
	target := f.target
	f.mu.Unlock()
	if target != nil {
		target.Close()
	}
	f.in.forget(f)
}

// reach opens a socket to a member. UDP has no connect that could fail: a member that refuses says so later.
func (f *flow) reach(d *Dataplane, m *member, to netip.AddrPort) (result string) {
	if !m.admit(&f.inMember) {
		return declined
	}
	target, err := dialDatagrams(to)
	if err == nil {
		if f.raw, err = target.SyscallConn(); err == nil && f.reaches(target) {
			return connected
		}
		target.Close()
	}
	m.dismiss(&f.inMember)
	if err == nil {
		return declined
	}
	return d.judge(to, err)
}

// reaches has f go on to target; false if f was cut meanwhile.
func (f *flow) reaches(target *os.File) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.dead.Load() {
		return false
	}
	f.target = target
	return true
}

func dialDatagrams(to netip.AddrPort) (*os.File, error) {
	family, address := sockaddr(to)
	fd, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	if err := unix.Connect(fd, address); err != nil {
		unix.Close(fd)
		return nil, os.NewSyscallError("connect", err)
	}
	return os.NewFile(uintptr(fd), "flow"), nil
}

func sockaddr(a netip.AddrPort) (family int, s unix.Sockaddr) {
	if a.Addr().Is4() {
		return unix.AF_INET, &unix.SockaddrInet4{Addr: a.Addr().As4(), Port: int(a.Port())}
	}
	return unix.AF_INET6, &unix.SockaddrInet6{Addr: a.Addr().As16(), Port: int(a.Port()), ZoneId: zoneOf(a.Addr())}
}

func zoneOf(a netip.Addr) uint32 {
	if a.Zone() == "" {
		return 0
	}
	i, err := net.InterfaceByName(a.Zone())
	if err != nil {
		return 0
	}
	return uint32(i.Index)
}

// stays says that f may go on with its member. front is what its socket serves now; nil: nothing any more.
func (d *Dataplane) stays(f *flow, front *frontend) bool {
	switch {
	case f.dead.Load():
		return false
	case front == nil:
		return true // It can't go elsewhere.
	case front.id != f.front.id:
		return false // The socket is somebody else's now.
	}
	// Who may send is what the Program says now, whatever the flow began with.
	if config := front.config.Load(); config != f.config {
		if !config.allows(f.client.Addr()) {
			return false
		}
		f.config = config
	}
	pool := f.front.config.Load().pool.config.Load()
	state := pool.table.state.Load()
	if pool == f.pool && state == f.state {
		return true
	}
	if !state.keeps(f.member, pool.Check) {
		return false
	}
	f.pool, f.state = pool, state
	return true
}

// keeps says that a flow that m has may stay there: m is in the group still, and
// not found dead while others live. While it drains it keeps its flows.
func (s *tableState) keeps(m *member, check lb.Check) bool {
	for i, is := range s.view.members {
		if is != m {
			continue
		}
		if s.health.Of(check, s.view.Members[i].Address) != lb.Unhealthy {
			return true
		}
		for _, up := range s.built().members {
			if up == m {
				return true // They all fail, and the pool fails open.
			}
		}
		return false
	}
	return false
}

// fail ends a flow whose member can't be sent to, and makes that known.
func (d *Dataplane) fail(f *flow, err error) {
	if f.dead.Load() {
		return
	}
	config := f.front.config.Load().pool.config.Load()
	member := netip.AddrPortFrom(f.member.target.member.Address, config.Port)
	result := d.judge(member, err)
	if result == refused { // Nobody can try whether it is back, but by a datagram that may be lost.
		d.penalties.add(member, silentPenalty)
	}
	f.member.target.metrics.connects[result].Inc()
	f.cut()
}

// answer carries a flow from member to client, until it is idle or cut.
func (d *Dataplane) answer(f *flow) {
	defer d.running.Done()
	defer func() {
		f.cut()
		f.in.ended()
		d.flows.Add(-1)
		d.flowsOf(f.front.id.Tenant).remove(f)
		f.front.metrics.flows.Dec()
		f.member.dismiss(&f.inMember)
		f.front.dismiss(&f.inFront)
	}()
	var n int
	var failed error
	var buffer *[datagramSize]byte
	read := func(fd uintptr) bool {
		for {
			n, failed = syscall.Read(int(fd), buffer[:])
			if failed != syscall.EINTR {
				return failed != syscall.EAGAIN
			}
		}
	}
	// While it waits it holds no buffer.
	wait := func(fd uintptr) bool {
		buffer = d.datagrams.Get().(*[datagramSize]byte)
		if read(fd) {
			return true
		}
		d.datagrams.Put(buffer)
		buffer = nil
		return false
	}
	f.target.SetReadDeadline(time.Now().Add(f.idle()))
	for {
		err := f.raw.Read(wait)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			left := f.idle() - time.Duration(moment()-f.active.Load())
			if left <= 0 {
				return
			}
			f.target.SetReadDeadline(time.Now().Add(left))
			continue
		case err != nil:
			return
		}
		if failed == nil {
			f.active.Store(moment())
			_, err = f.in.conn.WriteToUDPAddrPort(buffer[:n], f.client)
		}
		d.datagrams.Put(buffer)
		buffer = nil
		switch {
		case failed != nil && f.dead.Load():
			return
		case failed != nil:
			d.fail(f, failed)
			return
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil: // The client's fault, or its network's.
			d.metrics.drop(f.front.id.Tenant, notSent)
		}
	}
}

func (f *flow) idle() time.Duration {
	if t := f.front.config.Load().IdleTimeout; t > 0 {
		return t
	}
	return DefaultIdleFlow
}
