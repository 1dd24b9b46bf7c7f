package ipam

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/labels"
)

// Ref names a LoadBalancer.
type Ref struct{ Namespace, Name string }

func (r Ref) String() string { return r.Namespace + "/" + r.Name }

// Port of an address. It is comparable.
type Port struct {
	Protocol string
	Number   int32
}

// String is the port as an Address shows it: TCP/80.
func (p Port) String() string { return p.Protocol + "/" + strconv.Itoa(int(p.Number)) }

// ParsePort reads what String wrote.
func ParsePort(s string) (Port, error) {
	protocol, number, ok := strings.Cut(s, "/")
	n, err := strconv.ParseUint(number, 10, 16)
	if !ok || err != nil {
		return Port{}, fmt.Errorf("port %q: must be protocol/number", s)
	}
	return Port{protocol, int32(n)}, nil
}

func comparePorts(a, b Port) int {
	return cmp.Or(cmp.Compare(a.Number, b.Number), cmp.Compare(a.Protocol, b.Protocol))
}

// SortPorts returns the ports ascending, each once.
func SortPorts(ports []Port) []Port {
	out := slices.Clone(ports)
	slices.SortFunc(out, comparePorts)
	return slices.Compact(out)
}

// Unbounded as a bound bounds nothing.
const Unbounded = -1

// Quota bounds what a Tenant may hold; Unbounded for no bound.
type Quota struct{ LoadBalancers, Addresses, Ports int }

// NoQuota bounds nothing.
var NoQuota = Quota{Unbounded, Unbounded, Unbounded}

// Owner is whom a LoadBalancer belongs to: its namespace, and the Tenant whose namespace that is, if any.
type Owner struct {
	Namespace string
	Labels    labels.Set
	// Tenant is empty for namespaces of the hub's operator.
	Tenant       string
	TenantLabels labels.Set
	Quota        Quota
}

// Share says who may hold an address together.
type Share string

const (
	ShareNone      Share = "None"
	ShareNamespace Share = "Namespace"
	ShareAny       Share = "Any"
)

// Pool is where addresses come from.
type Pool struct {
	Name string
	// Created orders pools whose ranges overlap: the oldest keeps the overlap.
	Created time.Time
	Ranges  []Range
	// ByPort: a grant is one port of an address, and all whom the pool admits share its addresses.
	ByPort bool
	// Hosts is the pool of proxies whose hosts' own addresses are granted, by port and all at once; empty: Ranges are.
	Hosts string
	// HostPorts are those that may be granted of Hosts.
	HostPorts PortRange
	// Tenants and Namespaces admit owners; both nil: all Tenants.
	Tenants, Namespaces labels.Selector
	Share               Share
	// PerTenant bounds the grants of one namespace: addresses, ByPort those ports; Unbounded for no bound.
	PerTenant int
	// Requestable lets Tenants name addresses.
	Requestable bool
	// Restoring stops grants but for wishes, requestable or not.
	Restoring bool
	// IgnoreSilent takes what silent proxies serve for not served.
	IgnoreSilent bool
	// Unusable is why nothing can be granted from the pool; empty: it can.
	Unusable string
}

// Admits says whether the owner may use the pool.
func (p *Pool) Admits(o Owner) bool {
	if p.Namespaces != nil && p.Namespaces.Matches(o.Labels) {
		return true
	}
	if o.Tenant == "" {
		return false
	}
	if p.Tenants != nil {
		return p.Tenants.Matches(o.TenantLabels)
	}
	return p.Namespaces == nil
}

// Phase of an Entry.
type Phase string

const (
	Granted   Phase = "Granted"
	Releasing Phase = "Releasing"
	Moved     Phase = "Moved"
)

// Holder is a LoadBalancer that holds an address, with the ports that it holds.
type Holder struct {
	Ref
	// Ports ascending.
	Ports []Port
}

// Entry is one line of the ledger. It is a value: nobody changes the slices of an Entry that he was given.
type Entry struct {
	Name string
	// Address; the unspecified one of a family stands for all the own addresses of the hosts of ProxyPool.
	Address netip.Addr
	// Port that is held alone; the zero Port: the whole address is, with the ports of its Holders.
	Port            Port
	Pool, ProxyPool string
	// Holders sorted by namespace and name.
	Holders []Holder
	Phase   Phase
	// Created orders an owner's surplus entries; the zero time: not yet written.
	Created time.Time
}

// What is what the entry holds, which its name says.
func (e *Entry) What() What {
	w := What{Address: e.Address, Port: e.Port}
	if w.Address.IsUnspecified() {
		w.Hosts = e.ProxyPool
	}
	return w
}

// ByPort says that one port is held, not the address.
func (e *Entry) ByPort() bool { return e.Port != Port{} }

// OfHosts says that it is the port of all hosts of a pool of proxies.
func (e *Entry) OfHosts() bool { return e.Address.IsUnspecified() }

// Holder finds a LoadBalancer among the holders.
func (e *Entry) Holder(r Ref) (Holder, bool) {
	for _, h := range e.Holders {
		if h.Ref == r {
			return h, true
		}
	}
	return Holder{}, false
}

// With returns the entry with r holding ports.
func (e Entry) With(r Ref, ports []Port) Entry {
	e = e.Without(r)
	e.Holders = append(e.Holders, Holder{r, SortPorts(ports)})
	slices.SortFunc(e.Holders, func(a, b Holder) int { return compareRefs(a.Ref, b.Ref) })
	return e
}

// Without returns the entry with r no longer holding it.
func (e Entry) Without(r Ref) Entry {
	kept := make([]Holder, 0, len(e.Holders)+1)
	for _, h := range e.Holders {
		if h.Ref != r {
			kept = append(kept, h)
		}
	}
	e.Holders = kept
	return e
}

// Equal says whether both say the same.
func (e Entry) Equal(o Entry) bool {
	return e.Name == o.Name && e.Address == o.Address && e.Port == o.Port && e.Pool == o.Pool && e.ProxyPool == o.ProxyPool && e.Phase == o.Phase &&
		slices.EqualFunc(e.Holders, o.Holders, equalHolders)
}

func compareRefs(a, b Ref) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// Family of an address.
type Family string

const (
	IPv4 Family = "IPv4"
	IPv6 Family = "IPv6"
	// AnyFamily will do with either.
	AnyFamily Family = ""
)

// FamilyOf tells an address's family.
func FamilyOf(a netip.Addr) Family {
	if a.Unmap().Is4() {
		return IPv4
	}
	return IPv6
}

// Has tells whether an address is of the family.
func (f Family) Has(a netip.Addr) bool { return f == AnyFamily || f == FamilyOf(a) }

// Needs is what a LoadBalancer asks of the ledger.
type Needs struct {
	Ref
	// Created orders waiters: the oldest is served first.
	Created time.Time
	Owner   Owner
	Ports   []Port
	// Pools by name, in order of preference.
	Pools []string
	// Families, the primary first: an address of each. Empty: one address, of whichever family.
	Families []Family
	// Required says that one family alone is nothing; else one is enough, and the other comes when it can be had.
	Required bool
	// Wanted addresses, of each family the first that can be had; none of it: any.
	Wanted []netip.Addr
	// ProxyPool whose proxies will serve the address.
	ProxyPool string
}

// CompareNeeds orders waiters: oldest first, then by namespace and name.
func CompareNeeds(a, b Needs) int {
	return cmp.Or(a.Created.Compare(b.Created), compareRefs(a.Ref, b.Ref))
}
