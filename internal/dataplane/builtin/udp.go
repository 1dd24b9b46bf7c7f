package builtin

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"
)

const (
	// DefaultIdleFlow is how long a UDP flow without datagrams lives whose frontend doesn't say.
	DefaultIdleFlow = time.Minute
	// DefaultMaxFlows bounds the flows of all frontends, each of which takes a file.
	DefaultMaxFlows = 1 << 16
	// datagramSize holds every UDP datagram.
	datagramSize = 1 << 16
	// receiveBuffer is asked of the kernel for each UDP socket that clients send to.
	receiveBuffer = 4 << 20
)

// Why a datagram is dropped, as metrics have it, besides what turns away a TCP client.
const (
	noRoom  = "no_room"
	notSent = "not_sent"
)

// datagrams is the socket of a UDP listener, and its flows. The socket is kept
// while there are flows: their answers go by it.
type datagrams struct {
	l    *listener
	conn *net.UDPConn
	max  int

	mu    sync.Mutex
	flows map[netip.AddrPort]*flow
	// live counts flows that may still send by this socket.
	live   int
	ending bool // the listener has left the Program; the last flow closes the socket
	closed bool
	// paused datagrams wait in the kernel; woken changes with it. idle: nothing is being forwarded.
	paused, idle bool
	// stopped: somebody else reads the datagrams.
	stopped bool
	woken   *sync.Cond
}

func (d *Dataplane) newDatagrams(l *listener, conn *net.UDPConn) *datagrams {
	conn.SetReadBuffer(receiveBuffer) // less is fine
	u := &datagrams{l: l, conn: conn, max: max(d.o.MaxFlows/perListener, 1), flows: map[netip.AddrPort]*flow{}, paused: d.inheriting}
	u.woken = sync.NewCond(&u.mu)
	d.metrics.listeners.Inc()
	d.running.Add(1)
	go d.receive(u)
	return u
}

// end closes the socket with its last flow.
func (u *datagrams) end() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.ending = true
	u.closeIfOver()
}

// revive goes on after end; false if the socket is closed.
func (u *datagrams) revive(l *listener) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		return false
	}
	u.ending, u.l = false, l
	return true
}

func (u *datagrams) over() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.closed
}

// closeIfOver is called with u.mu held.
func (u *datagrams) closeIfOver() {
	if u.ending && u.live == 0 && !u.closed {
		u.closed = true
		u.conn.Close()
		u.woken.Broadcast()
	}
}

// ended is called when a flow sends nothing any more.
func (u *datagrams) ended() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.live--
	u.closeIfOver()
}

func (u *datagrams) all() []*flow {
	u.mu.Lock()
	defer u.mu.Unlock()
	out := make([]*flow, 0, len(u.flows))
	for _, f := range u.flows {
		out = append(out, f)
	}
	return out
}

// pause returns once no datagram is being forwarded; the next ones wait in the kernel.
func (u *datagrams) pause() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.paused = true
	u.conn.SetReadDeadline(time.Unix(1, 0))
	for !u.idle && !u.closed {
		u.woken.Wait()
	}
}

// resume goes on after pause.
func (u *datagrams) resume() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.paused {
		u.paused = false
		u.conn.SetReadDeadline(time.Time{})
		u.woken.Broadcast()
	}
}

// stop reads no datagram any more; answers still go out. It is called while u is paused.
func (u *datagrams) stop() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.stopped, u.paused = true, false
	u.woken.Broadcast()
}

// rest waits while u is paused; false: for good.
func (u *datagrams) rest() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	for u.paused {
		u.idle = true
		u.woken.Broadcast()
		u.woken.Wait()
	}
	u.idle = false
	return !u.stopped
}

// listener is the one that u belongs to now.
func (u *datagrams) listener() *listener {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.l
}

// forget takes f out, so that its client's next datagram begins another.
func (u *datagrams) forget(f *flow) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.flows[f.client] == f {
		delete(u.flows, f.client)
	}
}

// receive hands each datagram to its flow, in their order.
func (d *Dataplane) receive(u *datagrams) {
	defer d.running.Done()
	defer d.metrics.listeners.Dec()
	buffer := make([]byte, datagramSize)
	out := newSender()
	pause := firstBackoff
	if !u.rest() {
		return
	}
	for {
		n, from, err := u.conn.ReadFromUDPAddrPort(buffer)
		switch {
		case err == nil:
			pause = firstBackoff
			d.forward(u, clientOf(from), buffer[:n], out)
			continue
		case errors.Is(err, net.ErrClosed):
			return
		case errors.Is(err, os.ErrDeadlineExceeded):
			if !u.rest() {
				return
			}
			continue
		}
		d.metrics.acceptErrors.Inc()
		if d.failedAccept.now() {
			d.log.Error("receiving datagrams failed, going on", "socket", u.listener().socket.String(), "err", err)
		}
		time.Sleep(pause)
		pause = min(2*pause, lastBackoff)
	}
}

// forward sends a client's datagram on, on its flow or a new one.
func (d *Dataplane) forward(u *datagrams, client netip.AddrPort, b []byte, out *sender) {
	u.mu.Lock()
	f, l := u.flows[client], u.l
	u.mu.Unlock()
	front := l.front.Load()
	// A member that refuses may say so at this datagram only: it goes to another one then.
	for range d.o.ConnectAttempts {
		if f != nil && !d.stays(f, front) {
			f.cut()
			f = nil
		}
		if f == nil {
			if f = d.begin(u, client, front); f == nil {
				return
			}
		}
		err := out.send(f, b)
		switch {
		case err == nil:
			f.active.Store(moment())
			return
		case errors.Is(err, syscall.EAGAIN), errors.Is(err, syscall.EMSGSIZE), scarce(err):
			d.metrics.drop(f.front.id.Tenant, notSent)
			return
		}
		d.fail(f, err)
		f = nil
	}
	if front != nil {
		d.metrics.drop(front.id.Tenant, notSent)
	}
}

// begin opens a flow; nil: its datagram is dropped.
func (d *Dataplane) begin(u *datagrams, client netip.AddrPort, front *frontend) *flow {
	if front == nil {
		return nil
	}
	f := &flow{client: client, in: u}
	f.inFront.of, f.inMember.of = f, f
	for f.front = front; !f.front.admit(&f.inFront); {
		next := u.listener().front.Load()
		if next == f.front || next == nil {
			return nil
		}
		f.front = next
	}
	f.config = f.front.config.Load()
	because := ""
	switch {
	case !f.config.allows(client.Addr()):
		because = notAllowed
	case !d.room(u, f.front.id.Tenant):
		because = noRoom
	default:
		f.member = d.connect(f, client, f.config.pool)
	}
	if f.member == nil {
		if because != "" {
			d.metrics.drop(f.front.id.Tenant, because)
		}
		f.front.dismiss(&f.inFront)
		return nil
	}
	f.front.metrics.accepted.Inc()
	f.active.Store(moment())
	d.start(f)
	return f
}

// start has f's client's datagrams go to it, and answers back.
func (d *Dataplane) start(f *flow) {
	f.in.mu.Lock()
	f.in.flows[f.client] = f
	f.in.live++
	f.in.mu.Unlock()
	d.flows.Add(1)
	d.flowsOf(f.front.id.Tenant).add(f)
	f.front.metrics.flows.Inc()
	d.running.Add(1)
	go d.answer(f)
}

// sender sends without waiting: a member that takes nothing must not hold up the others' datagrams.
type sender struct {
	b     []byte
	err   error
	write func(fd uintptr) bool
}

func newSender() *sender {
	s := &sender{}
	s.write = func(fd uintptr) bool {
		for {
			if _, s.err = syscall.Write(int(fd), s.b); s.err != syscall.EINTR {
				return true
			}
		}
	}
	return s
}

func (s *sender) send(f *flow, b []byte) error {
	s.b = b
	if err := f.raw.Write(s.write); err != nil {
		return err
	}
	return s.err
}
