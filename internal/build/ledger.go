package build

import (
	"cmp"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/ipam"
	"fairlead.dev/fairlead/internal/lb"
)

// holder names a LoadBalancer.
type holder struct{ namespace, name string }

// line is one Address as far as it grants something to this proxy's pool.
type line struct {
	name string
	// created is the Address's creation, in Unix nanoseconds: the older line wins.
	created int64
	holders []held
}

type held struct {
	holder
	sockets []lb.Socket
	// own: the sockets are on this host's own addresses; of the unspecified one, where it knows none.
	own bool
}

// claim is one holder's right to a socket.
type claim struct {
	line   *line
	index  int
	holder holder
}

// ledger is what all Addresses say.
type ledger struct {
	pool string
	// own addresses of this host.
	own   []netip.Addr
	lines map[string]*line
	// of names the lines that list a holder, sorted.
	of map[holder][]string
	// claims on a socket, the winner first.
	claims map[lb.Socket][]claim
}

func newLedger(pool string, own []netip.Addr) *ledger {
	return &ledger{pool: pool, own: own, lines: map[string]*line{}, of: map[holder][]string{}, claims: map[lb.Socket][]claim{}}
}

// readLine is nil for an Address that grants nothing here.
func readLine(a *v1alpha1.Address, pool string, own []netip.Addr) *line {
	if a == nil || a.DeletionTimestamp != nil || a.Spec.ProxyPool != pool ||
		a.Spec.Phase != v1alpha1.AddressGranted && a.Spec.Phase != v1alpha1.AddressMoved {
		return nil
	}
	addr, err := netip.ParseAddr(a.Spec.Address)
	if err != nil || addr.Zone() != "" {
		return nil
	}
	addr = addr.Unmap()
	l := &line{name: a.Name, created: a.CreationTimestamp.UnixNano()}
	for _, h := range a.Spec.Holders {
		x := held{holder: holder{h.Namespace, h.Name}, own: addr.IsUnspecified()}
		for _, s := range h.Ports {
			p, port, ok := parsePort(s)
			if !ok {
				continue
			}
			for _, at := range places(addr, own) {
				x.sockets = append(x.sockets, lb.Socket{Address: at, Protocol: p, Port: port})
			}
		}
		l.holders = append(l.holders, x)
	}
	return l
}

// places are where an Address is served here: that of all hosts on this host's own addresses of the family. A host that
// knows none has it on the unspecified address, which is refused.
func places(a netip.Addr, own []netip.Addr) []netip.Addr {
	if !a.IsUnspecified() || len(own) == 0 {
		return []netip.Addr{a}
	}
	var out []netip.Addr
	for _, o := range own {
		if familyOf(o) == familyOf(a) {
			out = append(out, o)
		}
	}
	return out
}

// ServedAt is where an Address of this host's pool may have been served here: a whole address or, where one port is granted
// by itself, the sockets of that one.
func ServedAt(a *v1alpha1.Address, own []netip.Addr) (whole []netip.Addr, sockets []lb.Socket) {
	addr, err := netip.ParseAddr(a.Spec.Address)
	if err != nil {
		return nil, nil
	}
	at := places(addr.Unmap(), own)
	w, err := ipam.ParseName(a.Name)
	if err != nil || w.Port == (ipam.Port{}) {
		return at, nil
	}
	for _, x := range at {
		sockets = append(sockets, lb.Socket{Address: x, Protocol: lb.Protocol(w.Port.Protocol), Port: uint16(w.Port.Number)})
	}
	return nil, sockets
}

// GrantedAtHost says that an Address grants something to a proxy pool at a host's own addresses, as one of them or on all hosts.
func GrantedAtHost(a *v1alpha1.Address, pool string, own []netip.Addr) bool {
	if len(own) == 0 || a.DeletionTimestamp != nil || a.Spec.ProxyPool != pool ||
		a.Spec.Phase != v1alpha1.AddressGranted && a.Spec.Phase != v1alpha1.AddressMoved {
		return false
	}
	addr, err := netip.ParseAddr(a.Spec.Address)
	return err == nil && (addr.IsUnspecified() || slices.Contains(own, addr.Unmap()))
}

// FrontendsOf are what an Address of this host's pool lists for its holders, where it is served here.
func FrontendsOf(a *v1alpha1.Address, own []netip.Addr) []lb.FrontendID {
	addr, err := netip.ParseAddr(a.Spec.Address)
	if err != nil {
		return nil
	}
	var out []lb.FrontendID
	for _, at := range places(addr.Unmap(), own) {
		for _, h := range a.Spec.Holders {
			for _, s := range h.Ports {
				if p, port, ok := parsePort(s); ok {
					out = append(out, lb.FrontendID{Tenant: lb.TenantID(h.Namespace), LoadBalancer: h.Name, Address: at, Protocol: p, Port: port})
				}
			}
		}
	}
	return out
}

// parsePort reads a holder's port, such as TCP/80.
func parsePort(s string) (lb.Protocol, uint16, bool) {
	p, n, ok := strings.Cut(s, "/")
	port, err := strconv.ParseUint(n, 10, 16)
	return lb.Protocol(p), uint16(port), ok && err == nil && port > 0
}

func (l *line) equal(o *line) bool {
	if l == nil || o == nil {
		return l == o
	}
	return l.created == o.created && slices.EqualFunc(l.holders, o.holders, func(a, b held) bool {
		return a.holder == b.holder && a.own == b.own && slices.Equal(a.sockets, b.sockets)
	})
}

// set takes an Address in its new form, nil if it is gone, and returns the
// LoadBalancers that may be served otherwise now.
func (g *ledger) set(name string, a *v1alpha1.Address) map[holder]bool {
	old, next := g.lines[name], readLine(a, g.pool, g.own)
	if old.equal(next) {
		return nil
	}
	touched := map[holder]bool{}
	g.remove(old, touched)
	g.add(next, touched)
	return touched
}

func (g *ledger) remove(l *line, touched map[holder]bool) {
	if l == nil {
		return
	}
	delete(g.lines, l.name)
	for _, h := range l.holders {
		touched[h.holder] = true
		names := slices.DeleteFunc(g.of[h.holder], func(n string) bool { return n == l.name })
		if g.of[h.holder] = names; len(names) == 0 {
			delete(g.of, h.holder)
		}
		for _, s := range h.sockets {
			left := slices.DeleteFunc(g.claims[s], func(c claim) bool { return c.line == l })
			if g.claims[s] = left; len(left) == 0 {
				delete(g.claims, s)
			}
			for _, c := range left {
				touched[c.holder] = true
			}
		}
	}
}

func (g *ledger) add(l *line, touched map[holder]bool) {
	if l == nil {
		return
	}
	g.lines[l.name] = l
	for i, h := range l.holders {
		touched[h.holder] = true
		if at, found := slices.BinarySearch(g.of[h.holder], l.name); !found {
			g.of[h.holder] = slices.Insert(g.of[h.holder], at, l.name)
		}
		for _, s := range h.sockets {
			c := claim{l, i, h.holder}
			for _, x := range g.claims[s] {
				touched[x.holder] = true
			}
			at, _ := slices.BinarySearchFunc(g.claims[s], c, compareClaims)
			g.claims[s] = slices.Insert(g.claims[s], at, c)
		}
	}
}

// compareClaims puts the one first that has the socket.
func compareClaims(a, b claim) int {
	return cmp.Or(
		cmp.Compare(a.line.created, b.line.created),
		strings.Compare(a.line.name, b.line.name),
		cmp.Compare(a.index, b.index),
	)
}

// grants are the sockets that a LoadBalancer is listed with, sorted, each once;
// true where it has the socket, false where another has.
func (g *ledger) grants(h holder) []grant {
	var out []grant
	for _, name := range g.of[h] {
		for _, x := range g.lines[name].holders {
			if x.holder != h {
				continue
			}
			for _, s := range x.sockets {
				out = append(out, grant{s, g.claims[s][0].holder == h, x.own})
			}
		}
	}
	slices.SortFunc(out, func(a, b grant) int { return a.socket.Compare(b.socket) })
	return slices.CompactFunc(out, func(a, b grant) bool { return a.socket == b.socket })
}

type grant struct {
	socket lb.Socket
	won    bool
	// own: the address is the host's, whoever is served there.
	own bool
}
