package differential_test

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"testing"

	"fairlead.dev/fairlead/internal/testkit"
	"fairlead.dev/fairlead/internal/testkit/netns"
)

// Pods of node n, counted from 1, are in 10.244.n.0/24 and fd00:10:244:n::/64, as hollow nodes have them.
var podCIDRs = []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16"), netip.MustParsePrefix("fd00:10:244::/48")}

// network is hosts on one switch. Host number n is 10.20.0.n and fd00:20::n.
type network struct {
	t testing.TB
	*netns.Network
	fabric *netns.Namespace
}

func newNetwork(t testing.TB) *network {
	t.Helper()
	n := &network{t: t, Network: netns.New()}
	t.Cleanup(n.Close)
	n.fabric = n.Namespace("switch")
	n.fabric.Bridge("br0")
	n.whole()
	return n
}

// whole fails the test if the network could not be made.
func (n *network) whole() {
	n.t.Helper()
	if err := n.Err(); err != nil {
		n.t.Fatal(err)
	}
}

// host makes a host of these numbers.
func (n *network) host(name string, numbers ...int) *netns.Namespace {
	ns := n.Namespace(name)
	n.fabric.Link(name, ns, "eth0")
	n.fabric.Plug("br0", name)
	for _, number := range numbers {
		ns.Address("eth0", address(number)+"/24", address6(number)+"/64")
	}
	return ns
}

func address(number int) string  { return fmt.Sprintf("10.20.0.%d", number) }
func address6(number int) string { return fmt.Sprintf("fd00:20::%d", number) }

// Numbers of hosts.
const (
	clientHost  = 100
	gatewayHost = 200 // node hub-1
)

// node is the number of the host that is node n, counted from 1.
func node(n int) int { return 10 + n }

// machine is a node with a place for its Pods behind it.
type machine struct {
	host, pods *netns.Namespace
}

// machines makes node-1 to node-N.
func (n *network) machines(count int) []machine {
	n.t.Helper()
	all := []machine{}
	for i := 1; i <= count; i++ {
		m := machine{host: n.host(fmt.Sprintf("node-%d", i), node(i)), pods: n.Namespace(fmt.Sprintf("pods-%d", i))}
		m.host.Link("pods", m.pods, "eth0")
		inside4, inside6 := fmt.Sprintf("10.99.%d.", i), fmt.Sprintf("fd00:99:%d::", i)
		m.host.Address("pods", inside4+"1/24", inside6+"1/64")
		m.pods.Address("eth0", inside4+"2/24", inside6+"2/64")
		m.pods.Route("10.0.0.0/8", inside4+"1")
		m.pods.Route("fd00::/16", inside6+"1")
		for other := 1; other <= count; other++ {
			pods4, pods6 := fmt.Sprintf("10.244.%d.0/24", other), fmt.Sprintf("fd00:10:244:%d::/64", other)
			if other == i {
				m.pods.Local(pods4)
				m.pods.Local(pods6)
				m.host.Route(pods4, inside4+"2")
				m.host.Route(pods6, inside6+"2")
				continue
			}
			m.host.Route(pods4, address(node(other)))
			m.host.Route(pods6, address6(node(other)))
		}
		m.pods.Set("ipv6/ip_nonlocal_bind", "1") // addresses of a prefix that is local can be bound then, as those of IPv4 can
		forward(m.host)
		all = append(all, m)
	}
	n.whole()
	return all
}

func forward(ns *netns.Namespace) {
	ns.Set("ipv4/ip_forward", "1")
	ns.Set("ipv6/conf/all/forwarding", "1")
}

// reaches lets processes of a namespace reach a control plane, which is on this host's loopback, at its own address.
func (n *network) reaches(ns *netns.Namespace, c *testkit.ControlPlane) {
	n.t.Helper()
	l, err := ns.Listen("tcp", c.APIServerAddress().String())
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { l.Close() })
	go func() {
		for {
			here, err := l.Accept()
			if err != nil {
				return // closed
			}
			go relay(here, c.APIServerAddress())
		}
	}()
}

// relay passes a connection on; where one side ends, so does the other.
func relay(here net.Conn, to netip.AddrPort) {
	defer here.Close()
	there, err := net.Dial("tcp", to.String())
	if err != nil {
		return
	}
	go func() {
		defer there.Close()
		_, _ = io.Copy(there, here)
	}()
	_, _ = io.Copy(here, there)
}

// at is a port of an address.
func at(a string, port int) netip.AddrPort {
	return netip.MustParseAddrPort(net.JoinHostPort(a, fmt.Sprint(port)))
}
