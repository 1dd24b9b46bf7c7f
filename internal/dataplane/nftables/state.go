package nftables

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"fairlead.dev/fairlead/internal/lb"
)

// What the Program wants and what the kernel has stand side by side in each of these: want is worked out from the
// Program, have follows what was committed, and where the two differ an element is changed.

type groupKey struct {
	tenant lb.TenantID
	id     lb.GroupID
}

// tag names a group in the kernel, where its name would be too long.
type tag string

func (k groupKey) tag() tag { return tag(digest(string(k.tenant), string(k.id))) }

func digest(parts ...string) string {
	h := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(h[:8])
}

// group is a lb.Group, with the addresses in it and the spreads over it.
type group struct {
	key       groupKey
	tag       tag
	g         *lb.Group
	addresses map[netip.Addr]struct{}
	spreads   map[*spread]struct{}
}

// spreadKey names a spread: pools that agree in it share one.
type spreadKey struct {
	lb.TableKey
	keep bool
}

func (k spreadKey) groupKey() groupKey { return groupKey{k.Tenant, k.Group} }

// bits of the mark that say what the key says.
func (k spreadKey) bits() (m mark) {
	if k.keep {
		m |= markKeep
	}
	if k.Hash == lb.HashClientIP {
		m |= markIP
	}
	return m
}

// note is how the kernel remembers whose a mark is: tenant, group, all of the key. A process of another version has to write the
// same, or else finds none of its marks again: connections stay then, but nobody keeps his member. So a field that came later
// counts where it is set.
func (k spreadKey) note() string {
	text := fmt.Sprintf("%#v", k)
	const later = "Lenient:false, "
	if i := strings.LastIndex(text, later); i >= 0 && !k.Check.Lenient {
		text = text[:i] + text[i+len(later):]
	}
	return fmt.Sprintf("%s %s %s", k.Tenant, k.groupKey().tag(), digest(text))
}

func noteTag(note string) tag {
	if f := strings.Fields(note); len(f) == 3 {
		return tag(f[1])
	}
	return ""
}

// spread is a lb.Table in the kernel: which member each slot has. Its mark is on every connection that went by it.
type spread struct {
	mark mark
	note string
	tag  tag
	// key and group are not known of a spread that a former process left.
	key   spreadKey
	group *group
	// pool is one of its pools: they agree in what matters here.
	pool *lb.Pool
	// pools that use it.
	pools map[*pool]struct{}

	want, have []netip.Addr
	// listed: the kernel knows whose the mark is.
	listed bool
	// quiet counts the sweeps in a row that found no connection of it, once no pool uses it.
	quiet int
}

type tenantMember struct {
	tenant lb.TenantID
	member lb.MemberKey
}

type poolKey struct {
	tenant lb.TenantID
	id     lb.PoolID
}

type pool struct {
	p *lb.Pool
	// target is its port in the set of targets; nil: its members don't see clients.
	target    *target
	spread    *spread
	frontends map[lb.FrontendID]*frontend
}

type frontend struct {
	f    *lb.Frontend
	pool *pool
}

// route is how a socket is served.
type route struct {
	id   lb.FrontendID
	mark mark
	tag  tag
	port uint16
	// open: everybody may connect, the mark is in the map of frontends. admitted: it is in the map of those whose sources are
	// limited. What the kernel had when this process began may be half of a route, or too much.
	open, admitted   bool
	hasPort, limited bool
	sources          []sourceKeys
	comment          string
	drain            time.Duration
	assign           bool
}

// served says that new connections are sent by it.
func (r *route) served() bool { return r.open || r.admitted }

// socket is an address, protocol and port with the route that it has.
type socket struct {
	at lb.Socket
	// owner is its frontend; zero: none.
	owner      lb.FrontendID
	want, have *route
	// users and assigners are what it counts for at its address.
	users, assigners int
}

// address is one of this host's for our clients (a VIP), or a member's.
type address struct {
	at netip.Addr
	// users hold it in its set; assigners want it on this host.
	users, assigners int
	have             bool
}

// target is a port of members that see the client's address.
type target struct {
	port  uint16
	users int
	have  bool
}

// commentLimit is what nft keeps of a comment. It holds the longest there is: two names of 63. A name that was cut short
// would be another LoadBalancer's to the process that reads it after a restart.
const commentLimit = 127

func frontendComment(id lb.FrontendID) string {
	s := string(id.Tenant) + "/" + id.LoadBalancer
	return s[:min(len(s), commentLimit)]
}

func idOf(comment string, s lb.Socket) lb.FrontendID {
	tenant, name, _ := strings.Cut(comment, "/")
	return lb.FrontendID{Tenant: lb.TenantID(tenant), LoadBalancer: name, Address: s.Address, Protocol: s.Protocol, Port: s.Port}
}

// sourcesOf are the ranges of the prefixes of an address's family, none within another.
func sourcesOf(s lb.Socket, prefixes []netip.Prefix) []sourceKeys {
	own := make([]netip.Prefix, 0, len(prefixes))
	for _, p := range prefixes {
		if p.IsValid() && p.Addr().Is4() == s.Address.Is4() {
			own = append(own, p.Masked())
		}
	}
	slices.SortFunc(own, func(a, b netip.Prefix) int {
		if c := a.Addr().Compare(b.Addr()); c != 0 {
			return c
		}
		return a.Bits() - b.Bits()
	})
	var out []sourceKeys
	var last netip.Prefix
	for _, p := range own {
		if last.IsValid() && last.Contains(p.Addr()) {
			continue
		}
		first, end := sourceRange(s, p)
		out, last = append(out, sourceKeys{string(first), string(end)}), p
	}
	return out
}

func (s *spread) slotsOf(h lb.Health) []netip.Addr {
	eligible := lb.Eligible(s.group.g, s.pool, h)
	if len(eligible) == 0 {
		return nil
	}
	t := s.pool.Hash.NewTable(eligible, slots)
	out := make([]netip.Addr, slots)
	for i := range out {
		if a := eligible[t.Slot(i)].Address; usable(a) {
			out[i] = a
		}
	}
	return out
}

// put adds to c what makes the kernel's form of the spread into the wanted one.
func (s *spread) put(c *change, l *layout) {
	o := owner{spread: s}
	listed := len(s.pools) > 0 || s.quiet < quietSweeps
	switch {
	case listed && !s.listed:
		c.put(l.groups, o, markKey(s.mark), nil, s.note)
	case !listed && s.listed:
		c.take(l.groups, o, markKey(s.mark))
	}
	for i := range max(len(s.want), len(s.have)) {
		want, have := at(s.want, i), at(s.have, i)
		if want == have {
			continue
		}
		if have.IsValid() {
			c.take(l.of(have).node, o, slotKey(s.mark, i))
		}
		if want.IsValid() {
			c.put(l.of(want).node, o, slotKey(s.mark, i), want.AsSlice(), "")
		}
	}
}

func at(s []netip.Addr, i int) netip.Addr {
	if i < len(s) {
		return s[i]
	}
	return netip.Addr{}
}

// put adds to c what makes the kernel's form of the socket into the wanted one.
func (s *socket) put(c *change, l *layout) {
	f, o, key := l.of(s.at.Address), owner{socket: s}, frontendKey(s.at)
	want, have := s.want, s.have
	if want == nil {
		want = &route{}
	}
	if have == nil {
		have = &route{}
	}
	same := have.mark == want.mark && have.comment == want.comment
	for _, m := range []struct {
		set        *set
		have, want bool
	}{{f.fe, have.open, want.open}, {f.admitted, have.admitted, want.admitted}} {
		if m.have && !(m.want && same) {
			c.take(m.set, o, key)
		}
		if m.want && !(m.have && same) {
			c.put(m.set, o, key, markKey(want.mark), want.comment)
		}
	}
	if have.hasPort != want.hasPort || have.port != want.port {
		if have.hasPort {
			c.take(f.port, o, key)
		}
		if want.hasPort {
			c.put(f.port, o, key, portValue(want.port), "")
		}
	}
	if have.limited != want.limited {
		if have.limited {
			c.take(f.limited, o, key)
		} else {
			c.put(f.limited, o, key, nil, "")
		}
	}
	if slices.Equal(have.sources, want.sources) {
		return
	}
	keep := map[sourceKeys]bool{}
	for _, k := range want.sources {
		keep[k] = true
	}
	for _, k := range have.sources {
		if keep[k] {
			delete(keep, k)
		} else {
			c.takeRange(f.sources, o, []byte(k.first), []byte(k.last))
		}
	}
	for _, k := range want.sources {
		if keep[k] {
			c.putRange(f.sources, o, []byte(k.first), []byte(k.last))
		}
	}
}

// put adds to c what makes the port a target, or not.
func (t *target) put(c *change, l *layout) {
	switch wanted := t.users > 0; {
	case wanted && !t.have:
		c.put(l.targets, owner{}, targetKey(t.port), nil, "")
	case !wanted && t.have:
		c.take(l.targets, owner{}, targetKey(t.port))
	}
}

// put adds to c what makes the address a member of set, or not.
func (a *address) put(c *change, s *set) {
	switch wanted := a.users > 0; {
	case wanted && !a.have:
		c.put(s, owner{}, a.at.AsSlice(), nil, "")
	case !wanted && a.have:
		c.take(s, owner{}, a.at.AsSlice())
	}
}
