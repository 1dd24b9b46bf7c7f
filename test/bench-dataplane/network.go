package main

import (
	"fmt"
	"net/netip"

	"fairlead.dev/fairlead/internal/testkit/netns"
	"github.com/ti-mo/conntrack"
)

const (
	// httpPort is where members answer load.
	httpPort = 8080
	// whoPort, and the port after it, are where a member says its own address.
	whoPort = 9000
	// servicePort is where a load balancer serves the measured frontend.
	servicePort = 80
)

// host is a network namespace. It has no name and is gone when its last process and this program are, however they end.
type host struct {
	*netns.Namespace
	network *netns.Network
}

// quiet keeps closed connections from being remembered, which would bound new
// connections by the number of ports, not by what carries them.
var quiet = map[string]string{
	"ipv4/tcp_max_tw_buckets":          "0",
	"ipv4/ip_local_port_range":         "1024 65535",
	"ipv4/conf/all/rp_filter":          "0",
	"ipv4/conf/default/rp_filter":      "0",
	"ipv4/ip_forward":                  "1",
	"ipv4/tcp_max_syn_backlog":         "8192",
	"ipv4/icmp_ratelimit":              "0",
	"ipv4/conf/all/send_redirects":     "0",
	"ipv4/conf/default/send_redirects": "0",
	"ipv6/conf/all/disable_ipv6":       "1",
}

// forgetful has conntrack forget what is closed soon; else its table would fill up.
var forgetful = map[string]string{
	"netfilter/nf_conntrack_tcp_timeout_time_wait": "3",
	"netfilter/nf_conntrack_tcp_timeout_close":     "3",
}

// set makes kernel settings, by their paths below /proc/sys/net.
func (h *host) set(settings map[string]string) error {
	for path, value := range settings {
		h.Set(path, value)
	}
	return h.network.Err()
}

// forget empties conntrack's memory.
func (h *host) forget() error {
	err := h.Do(func() error {
		c, err := conntrack.Dial(nil)
		if err != nil {
			return err
		}
		defer c.Close()
		return c.Flush()
	})
	if err != nil {
		return fmt.Errorf("emptying conntrack on %s: %w", h.Name(), err)
	}
	return nil
}

// network is a client and two backends, and any number of load balancers, each with
// wires of its own between them. Which one carries a connection follows from where it goes to:
//
//	            ┌──────────────┐
//	         ┌──┤ direct       ├──┐   ┌───────────┐
//	┌──────┐ │  └──────────────┘  ├───┤ backend 1 │
//	│client├─┤  ┌──────────────┐  │   └───────────┘
//	└──────┘ ├──┤ nftables     ├──┤   ┌───────────┐
//	         │  └──────────────┘  ├───┤ backend 2 │
//	         └──┤ …            ├──┘   └───────────┘
type network struct {
	*netns.Network
	client   *host
	backends [2]*host
	made     int
}

func newNetwork() (*network, error) {
	n := &network{Network: netns.New()}
	n.client = n.host("client")
	for i := range n.backends {
		n.backends[i] = n.host(fmt.Sprintf("backend %d", i+1))
		n.backends[i].Local(memberPrefix(i).String())
	}
	if err := n.Err(); err != nil {
		n.Close()
		return nil, err
	}
	return n, nil
}

func (n *network) host(name string) *host {
	h := &host{n.Namespace(name), n.Network}
	h.set(quiet)
	return h
}

// memberPrefix holds the members of a backend.
func memberPrefix(backend int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 3, byte(backend + 1), 0}), 24)
}

// members are n addresses, spread over the backends.
func members(n int) []netip.Addr {
	out := make([]netip.Addr, n)
	for i := range out {
		out[i] = netip.AddrFrom4([4]byte{10, 3, byte(i%2 + 1), byte(i/2 + 1)})
	}
	return out
}

// balancer is a host between client and backends.
type balancer struct {
	*host
	// client is the client's address, as seen by this host.
	client netip.Addr
	// service is the address of the measured frontend; more follow it.
	service netip.Addr
}

// balancer makes one more. The host has its services' addresses itself.
func (n *network) balancer(name string) (*balancer, error) {
	n.made++
	k := byte(n.made)
	b := &balancer{
		host:    n.host(name),
		client:  netip.AddrFrom4([4]byte{10, 1, k, 2}),
		service: netip.AddrFrom4([4]byte{10, 100 + k, 0, 1}),
	}
	services := netip.PrefixFrom(b.service, 16).Masked()
	b.Local(services.String())
	clients := netip.PrefixFrom(b.client, 24)
	n.wire(n.client, b.host, fmt.Sprintf("lb%d", k), clients, netip.PrefixFrom(b.gateway(), 24))
	n.client.Route(services.String(), b.gateway().String())
	for i, backend := range n.backends {
		near, far := netip.AddrFrom4([4]byte{10, 2, k, byte(i*4 + 1)}), netip.AddrFrom4([4]byte{10, 2, k, byte(i*4 + 2)})
		n.wire(b.host, backend, fmt.Sprintf("lb%db%d", k, i+1), netip.PrefixFrom(near, 30), netip.PrefixFrom(far, 30))
		b.Route(memberPrefix(i).String(), far.String())
		backend.Route(clients.Masked().String(), near.String())
	}
	return b, n.Err()
}

// gateway is the host's own address on the client's wire.
func (b *balancer) gateway() netip.Addr { return b.client.Prev() }

// wire joins two hosts; both ends have one name.
func (n *network) wire(a, b *host, name string, atA, atB netip.Prefix) {
	a.Link(name, b.Namespace, name)
	a.Address(name, atA.String())
	b.Address(name, atB.String())
}

// straight has the client reach the backends themselves through this host.
func (n *network) straight(b *balancer) error {
	for i := range n.backends {
		n.client.Route(memberPrefix(i).String(), b.gateway().String())
	}
	return n.Err()
}
