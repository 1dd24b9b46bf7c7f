package lb

import (
	"fmt"
	"net/netip"
	"time"
)

// TenantID is the hub's namespace that a Snapshot was built from.
type TenantID string

// GroupID names a Group within its tenant: selector and address family.
type GroupID string

// PoolID names a Pool within its tenant.
type PoolID string

// Protocol of a Frontend.
type Protocol string

const (
	TCP  Protocol = "TCP"
	UDP  Protocol = "UDP"
	SCTP Protocol = "SCTP"
)

// Hash says what chooses the member of a connection.
type Hash string

const (
	// HashFlow hashes the client's address and port.
	HashFlow Hash = "Flow"
	// HashClientIP hashes the client's address alone.
	HashClientIP Hash = "ClientIP"
)

// CheckKind is how a member is asked whether it can take connections.
type CheckKind string

const (
	CheckNone  CheckKind = "None"
	CheckTCP   CheckKind = "TCP"
	CheckHTTP  CheckKind = "HTTP"
	CheckHTTPS CheckKind = "HTTPS"
)

// Check says how a member is checked. It is comparable: equal Checks of one
// address are one probe, whoever asks for them.
type Check struct {
	Kind CheckKind
	// Port asked; never 0 but for CheckNone.
	Port uint16
	// Path asked by CheckHTTP and CheckHTTPS.
	Path string
	// Interval between two checks; Timeout of one.
	Interval, Timeout time.Duration
	// Rise successes in a row make a member healthy, Fall failures unhealthy.
	Rise, Fall int
	// Alive holds the accepted HTTP status codes beside 200 to 399, ascending, separated by commas.
	Alive string
	// Lenient: a member that takes the connection within a second is alive, unless it hangs then, or answers with an HTTP status of
	// 500 or more.
	Lenient bool
	// ProxyProtocol is the version of the header that a check begins with, saying that nobody is
	// proxied (UNKNOWN, LOCAL); 0: none.
	ProxyProtocol int
}

// String is the check in short, as reports show it: HTTP:10256/healthz.
func (c Check) String() string {
	if c.Kind == CheckNone || c.Kind == "" {
		return string(CheckNone)
	}
	return fmt.Sprintf("%s:%d%s", c.Kind, c.Port, c.Path)
}

// Probe is one check of one address, shared by all pools that ask for it. It is comparable.
type Probe struct {
	Check   Check
	Address netip.Addr
}

// Verdict is what a check found. The zero value means that no check has had a result yet.
type Verdict int

const (
	// Unchecked members are used for traffic.
	Unchecked Verdict = iota
	Healthy
	Unhealthy
)

func (v Verdict) String() string {
	switch v {
	case Healthy:
		return "Healthy"
	case Unhealthy:
		return "Unhealthy"
	}
	return "Unchecked"
}

// Verdicts holds one Check's findings by address; an address that is missing is Unchecked.
type Verdicts map[netip.Addr]Verdict

// Health holds the findings of all checks.
type Health map[Check]Verdicts

// Of is the verdict on one address; Healthy where nothing is to be checked.
func (h Health) Of(c Check, a netip.Addr) Verdict {
	if c.Kind == CheckNone || c.Kind == "" {
		return Healthy
	}
	return h[c][a]
}

// DrainUnset as Member.DrainFor leaves the bound to the Pool.
const DrainUnset time.Duration = -1

// MemberKey names a member within its tenant. A reborn target has another UID and inherits nothing.
type MemberKey struct {
	UID     string
	Address netip.Addr
}

// Member is one address of a Group.
type Member struct {
	// UID of the target, unique among the targets of its tenant.
	UID string
	// Name of the target, for people.
	Name string
	// TargetGroup and GroupUID name the object that the target stands in.
	TargetGroup, GroupUID string
	Address               netip.Addr
	Zone                  string
	// Weight is its share of new connections; 0: none, but while all weigh 0.
	Weight int
	// Ready is what the target's cluster says, for data planes that check nothing.
	Ready bool
	// Draining members get no new connection; open ones end, or are cut after DrainFor (0: never; DrainUnset: the Pool's DrainTimeout).
	Draining bool
	DrainFor time.Duration
}

// Key names the member within its tenant.
func (m *Member) Key() MemberKey { return MemberKey{m.UID, m.Address} }

// Group is the union of the TargetGroups that one selector selects, for one
// address family. Members are sorted by UID, then address, each key once.
type Group struct {
	ID      GroupID
	Members []Member
}

// Pool is a Group with a port: what one or more Frontends send to.
type Pool struct {
	ID    PoolID
	Group GroupID
	// Port on the members.
	Port  uint16
	Check Check
	Hash  Hash
	// FailOpen uses all members when every one is Unhealthy.
	FailOpen bool
	// Zone whose members alone get new connections while one of them may and is not Unhealthy; empty: all zones alike.
	Zone string
	// KeepClient shows members the client's address: they route back through this host. Else they see this host's.
	KeepClient bool
	// DrainTimeout bounds open connections of removed members and frontends; 0: never cut.
	DrainTimeout time.Duration
}

// FrontendID names a Frontend. It is comparable.
type FrontendID struct {
	Tenant       TenantID
	LoadBalancer string
	Address      netip.Addr
	Protocol     Protocol
	Port         uint16
}

// Socket is where the frontend is served.
func (f FrontendID) Socket() Socket { return Socket{f.Address, f.Protocol, f.Port} }

// Socket is an address, protocol and port of this host. It is comparable.
type Socket struct {
	Address  netip.Addr
	Protocol Protocol
	Port     uint16
}

func (s Socket) String() string {
	return fmt.Sprintf("%s/%s", netip.AddrPortFrom(s.Address, s.Port), s.Protocol)
}

// Frontend is one port of one LoadBalancer on one address.
type Frontend struct {
	ID FrontendID
	// Name of the port, for people.
	Name string
	Pool PoolID
	// Sources that may connect, of the address's family, masked, sorted, none within another; empty: all.
	Sources []netip.Prefix
	// AffinityTimeout is how long a client keeps its member, with the Pool's HashClientIP.
	AffinityTimeout time.Duration
	// IdleTimeout closes a connection without traffic; 0: never. A UDP flow ends by it alone; 0: the
	// data plane's own bound.
	IdleTimeout time.Duration
	// ProxyProtocol is the version of the header sent to members, 0: none.
	ProxyProtocol int
	// Assign puts the address on this host while a frontend of it is served there, and takes away
	// what it put.
	Assign bool
}

// Listener is a socket of this host with the frontends that share it. Today
// that is one; later, those told apart by server name.
type Listener struct {
	Socket    Socket
	Frontends []FrontendID
}

// Kinds that Problems are about.
const (
	KindLoadBalancer = "LoadBalancer"
	KindTargetGroup  = "TargetGroup"
)

// ObjectRef names what a Problem is about.
type ObjectRef struct {
	Kind, Namespace, Name string
	// Port and Protocol narrow it to one port; 0: the whole object.
	Port     uint16
	Protocol Protocol
	// Address narrows a port to one of the LoadBalancer's addresses; the zero value: all.
	Address netip.Addr
}

// Effect is what a Problem costs.
type Effect int

const (
	// Refused: the Object is not served.
	Refused Effect = iota
	// ServedWithout: the Object is served, but for the Field.
	ServedWithout
)

func (e Effect) String() string {
	if e == ServedWithout {
		return "ServedWithout"
	}
	return "Refused"
}

// Problem is why something is not served: Field of Object, a Reason (the API's
// condition reasons) and a Message of cause, then fix.
type Problem struct {
	Object  ObjectRef
	Field   string
	Reason  string
	Message string
	Effect  Effect
}

// Absent is a target that this proxy knows by a name alone, which stands for no address that may be sent to, or
// for some that are not.
type Absent struct {
	// TargetGroup and GroupUID name the object that the target stands in; UID and Target name it there.
	TargetGroup, GroupUID, UID, Target string
	// Name is looked up.
	Name string
	// Used counts the addresses that the name stands for and that are members; 0: the target gets no traffic.
	Used int
	// Outside counts those that may not be sent to, Beyond those that are too many.
	Outside, Beyond int
}

// Snapshot is what one tenant is served.
type Snapshot struct {
	// Frontends sorted by LoadBalancer, address, protocol, port.
	Frontends []*Frontend
	Pools     map[PoolID]*Pool
	Groups    map[GroupID]*Group
	// Problems that the objects themselves have, sorted by object, field and reason. Whoever reads the
	// same objects finds the same: a proxy need not report them.
	Problems []Problem
	// Refused is what this proxy doesn't serve, or serves in its last good form only, for reasons of its
	// own; nobody else can know: it must be reported. Sorted like Problems.
	Refused []Problem
	// Absent targets that would be members, whole, and are not draining, sorted by group, then UID. They must be reported, too.
	Absent []Absent
}

// Program is all that a proxy serves. Of two frontends that want one socket the
// ledger chose one before; the other is Refused in its tenant's Snapshot.
type Program struct {
	Tenants map[TenantID]*Snapshot
	// Listeners sorted by address, protocol, port; no socket twice.
	Listeners []Listener
	Health    Health
}
