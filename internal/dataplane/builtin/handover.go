package builtin

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"time"

	"fairlead.dev/fairlead/internal/dataplane"
	"fairlead.dev/fairlead/internal/lb"
	"golang.org/x/sys/unix"
)

var _ dataplane.Heritable = (*Dataplane)(nil)

// bound is where a socket is bound on this host.
type bound struct {
	Protocol lb.Protocol    `json:"protocol"`
	At       netip.AddrPort `json:"at"`
}

// handedFlow is a flow, as its successor needs it; its file is the socket to its member.
type handedFlow struct {
	Client   netip.AddrPort `json:"client"`
	Frontend lb.FrontendID  `json:"frontend"`
	Member   lb.MemberKey   `json:"member"`
	// Quiet is how long no datagram has gone either way.
	Quiet time.Duration `json:"quiet"`
}

func (d *Dataplane) boundTo(s lb.Socket) bound {
	return bound{s.Protocol, netip.AddrPortFrom(d.o.bindAddress(s.Address), s.Port)}
}

// fdOf is c's file descriptor, which stays c's; -1: it is closed.
func fdOf(c interface {
	Control(func(fd uintptr)) error
}) int {
	fd := -1
	if c.Control(func(n uintptr) { fd = int(n) }) != nil {
		return -1
	}
	return fd
}

func part(what any, fd int) dataplane.Part {
	b, err := json.Marshal(what)
	if err != nil {
		panic(err) // plain values only
	}
	return dataplane.Part{What: string(b), FD: fd}
}

// Listeners implements dataplane.Heritable.
func (d *Dataplane) Listeners() []dataplane.Part {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := make([]dataplane.Part, 0, len(d.listeners))
	for s, l := range d.listeners {
		if fd := l.fd(); fd >= 0 {
			out = append(out, part(d.boundTo(s), fd))
		}
	}
	return out
}

// fd is that of l's socket; -1: it has none.
func (l *listener) fd() int {
	switch {
	case l.ln != nil:
		return fdOf(l.ln.raw)
	case l.udp != nil:
		if raw, err := l.udp.conn.SyscallConn(); err == nil {
			return fdOf(raw)
		}
	}
	return -1
}

// Suspend implements dataplane.Heritable.
func (d *Dataplane) Suspend() []dataplane.Part {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []dataplane.Part
	now := moment()
	for _, l := range d.listeners {
		if l.udp == nil {
			continue
		}
		l.udp.pause()
		for _, f := range l.udp.all() {
			if fd := fdOf(f.raw); fd >= 0 && !f.dead.Load() {
				out = append(out, part(handedFlow{f.client, f.front.id, f.member.target.member, time.Duration(now - f.active.Load())}, fd))
			}
		}
	}
	return out
}

// Resume implements dataplane.Heritable.
func (d *Dataplane) Resume() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, l := range d.listeners {
		if l.udp != nil {
			l.udp.resume()
		}
	}
}

// Yield implements dataplane.Heritable.
func (d *Dataplane) Yield() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.yielded = true
	d.assigned.yield()
	for s, l := range d.listeners {
		l.close() // Its frontend stays: clients that were accepted a moment ago look for it.
		if l.udp != nil {
			l.front.Store(nil)
			for _, f := range l.udp.all() {
				f.cut() // It lives on in the successor, which has its socket too.
			}
			l.udp.stop()
		}
		delete(d.listeners, s)
	}
	clear(d.unbound)
}

// Open implements dataplane.Heritable. Its cost follows what is served, not what is open.
func (d *Dataplane) Open() dataplane.Open {
	members, frontends := d.counts()
	if r := d.remain.Load(); r != nil {
		for _, m := range r.Members {
			members[targetKey{m.Tenant, m.Key}] += m.Count
		}
		for _, f := range r.Frontends {
			frontends[f.ID] += f.Count
		}
	}
	var out dataplane.Open
	for k, n := range members {
		out.Members = append(out.Members, dataplane.OpenMember{Tenant: k.tenant, Key: k.member, Count: n})
	}
	for id, n := range frontends {
		out.Frontends = append(out.Frontends, dataplane.OpenFrontend{ID: id, Count: n})
	}
	slices.SortFunc(out.Members, func(a, b dataplane.OpenMember) int {
		return cmp.Or(cmp.Compare(a.Tenant, b.Tenant), a.Key.Compare(b.Key))
	})
	slices.SortFunc(out.Frontends, func(a, b dataplane.OpenFrontend) int { return a.ID.Compare(b.ID) })
	return out
}

// counts is what is open in this process.
func (d *Dataplane) counts() (map[targetKey]int64, map[lb.FrontendID]int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	members, frontends := map[targetKey]int64{}, map[lb.FrontendID]int64{}
	for _, g := range d.groups {
		for _, m := range g.members {
			if n := m.open.Load(); n > 0 {
				members[m.target.targetKey] += n
			}
		}
	}
	count := func(f *frontend) {
		if n := f.open.Load(); n > 0 {
			frontends[f.id] += n
		}
	}
	for _, f := range d.frontends {
		count(f)
	}
	for _, f := range d.leaving.retired() {
		if d.frontends[f.id] != f {
			count(f)
		}
	}
	return members, frontends
}

// Inherit implements dataplane.Heritable.
func (d *Dataplane) Inherit(parts []dataplane.Part) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.inheriting = true
	for _, p := range parts {
		var b bound
		if err := json.Unmarshal([]byte(p.What), &b); err != nil {
			d.log.Error("inherited socket is not understood", "what", p.What, "err", err)
			unix.Close(p.FD)
			continue
		}
		if twice, ok := d.inherited[b]; ok {
			unix.Close(twice)
		}
		d.inherited[b] = p.FD
	}
}

// heir takes the inherited socket for s, if there is one.
func (d *Dataplane) heir(s lb.Socket) *os.File {
	b := d.boundTo(s)
	fd, ok := d.inherited[b]
	if !ok {
		return nil
	}
	delete(d.inherited, b)
	return os.NewFile(uintptr(fd), s.String())
}

// Adopt implements dataplane.Heritable.
func (d *Dataplane) Adopt(parts []dataplane.Part) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for b, fd := range d.inherited { // The Program has no use for them.
		unix.Close(fd)
		delete(d.inherited, b)
	}
	for _, p := range parts {
		var h handedFlow
		if err := json.Unmarshal([]byte(p.What), &h); err != nil || !d.adopt(h, p.FD) {
			unix.Close(p.FD)
		}
	}
	d.inheriting = false
	for _, l := range d.listeners {
		if l.udp != nil {
			l.udp.resume()
		}
	}
}

// adopt goes on with a flow; false: its frontend or member is not served here.
func (d *Dataplane) adopt(h handedFlow, fd int) bool {
	front := d.frontends[h.Frontend]
	l := d.listeners[h.Frontend.Socket()]
	if front == nil || l == nil || l.udp == nil || l.front.Load() != front {
		return false
	}
	config := front.config.Load()
	m := d.groups[groupKey{h.Frontend.Tenant, config.pool.config.Load().Group}].members[h.Member]
	if m == nil {
		return false
	}
	f := &flow{client: h.Client, in: l.udp, front: front, member: m, config: config}
	f.inFront.of, f.inMember.of = f, f
	f.target = os.NewFile(uintptr(fd), "flow")
	raw, err := f.target.SyscallConn()
	if err != nil || !front.admit(&f.inFront) {
		return false
	}
	f.raw = raw
	m.take(&f.inMember)
	d.start(f)
	f.active.Store(moment() - int64(max(h.Quiet, 0)))
	return true
}

// Remain implements dataplane.Heritable.
func (d *Dataplane) Remain(o dataplane.Open) {
	d.remain.Store(&o)
	d.leaving.notify()
}

// addRemain adds to o what the predecessor has open and this one's Program doesn't serve.
func (d *Dataplane) addRemain(o *dataplane.Observation) {
	r := d.remain.Load()
	if r == nil || r.Empty() {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, m := range r.Members {
		if t := d.targets[targetKey{m.Tenant, m.Key}]; t != nil && t.serving.Load() > 0 {
			continue
		}
		of := o.Draining[m.Tenant]
		if of == nil {
			of = map[lb.MemberKey]int64{}
			o.Draining[m.Tenant] = of
		}
		of[m.Key] += m.Count
	}
	for _, f := range r.Frontends {
		if d.frontends[f.ID] == nil {
			o.Closing[f.ID] += f.Count
		}
	}
}

// filePacketConn makes a socket of an inherited file.
func filePacketConn(f *os.File) (*net.UDPConn, error) {
	defer f.Close()
	c, err := net.FilePacketConn(f)
	if err != nil {
		return nil, err
	}
	u, ok := c.(*net.UDPConn)
	if !ok {
		c.Close()
		return nil, fmt.Errorf("the inherited socket is one of %s, not of UDP", c.LocalAddr().Network())
	}
	return u, nil
}
