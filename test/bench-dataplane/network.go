package main

import (
	"errors"
	"fmt"
	"net/netip"
)

const (
	// httpPort is where members answer load.
	httpPort = 8080
	// whoPort, and the port after it, are where a member says its own address.
	whoPort = 9000
	// servicePort is where a load balancer serves the measured frontend.
	servicePort = 80
)

// quiet keeps closed connections from being remembered, which would bound new
// connections by the number of ports, not by what carries them.
var quiet = map[string]string{
	"net/ipv4/tcp_max_tw_buckets":        "0",
	"net/ipv4/ip_local_port_range":       "1024 65535",
	"net/ipv4/conf/all/rp_filter":        "0",
	"net/ipv4/conf/default/rp_filter":    "0",
	"net/ipv4/ip_forward":                "1",
	"net/ipv6/conf/all/disable_ipv6":     "1",
	"net/ipv4/tcp_max_syn_backlog":       "8192",
	"net/ipv4/icmp_ratelimit":            "0",
	"net/ipv4/conf/all/send_redirects":   "0",
	"net/ipv4/conf/default/log_martians": "0",
}

// forgetful has conntrack forget what is closed soon; else its table would fill up.
var forgetful = map[string]string{
	"net/netfilter/nf_conntrack_tcp_timeout_time_wait": "3",
	"net/netfilter/nf_conntrack_tcp_timeout_close":     "3",
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
	client   *host
	backends [2]*host
	made     int
}

func newNetwork() (n *network, err error) {
	n = &network{}
	defer func() {
		if err != nil {
			n.close()
		}
	}()
	if n.client, err = newHost("client", quiet); err != nil {
		return nil, err
	}
	for i := range n.backends {
		if n.backends[i], err = newHost(fmt.Sprintf("backend %d", i+1), quiet); err != nil {
			return nil, err
		}
		if err := n.backends[i].own(memberPrefix(i)); err != nil {
			return nil, err
		}
	}
	return n, nil
}

func (n *network) close() {
	for _, h := range []*host{n.client, n.backends[0], n.backends[1]} {
		if h != nil {
			h.close()
		}
	}
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

// balancer makes one more. Its services are addresses of its own; local says whether the host itself has them.
func (n *network) balancer(name string) (*balancer, error) {
	h, err := newHost(name, quiet)
	if err != nil {
		return nil, err
	}
	n.made++
	k := byte(n.made)
	b := &balancer{
		host:    h,
		client:  netip.AddrFrom4([4]byte{10, 1, k, 2}),
		service: netip.AddrFrom4([4]byte{10, 100 + k, 0, 1}),
	}
	services := netip.PrefixFrom(b.service, 16).Masked()
	gateway := netip.AddrFrom4([4]byte{10, 1, k, 1})
	wire := fmt.Sprintf("lb%d", k)
	err = errors.Join(
		connect(n.client, h, wire, netip.PrefixFrom(b.client, 24), netip.PrefixFrom(gateway, 24)),
		n.client.route(services, gateway),
		h.own(services),
	)
	for i, backend := range n.backends {
		near, far := netip.AddrFrom4([4]byte{10, 2, k, byte(i*4 + 1)}), netip.AddrFrom4([4]byte{10, 2, k, byte(i*4 + 2)})
		err = errors.Join(err,
			connect(h, backend, fmt.Sprintf("lb%db%d", k, i+1), netip.PrefixFrom(near, 30), netip.PrefixFrom(far, 30)),
			h.route(memberPrefix(i), far),
			backend.route(netip.PrefixFrom(b.client, 24).Masked(), near),
		)
	}
	if err != nil {
		h.close()
		return nil, err
	}
	return b, nil
}

// straight has the client reach the backends themselves through this host.
func (n *network) straight(b *balancer) error {
	for i := range n.backends {
		if err := n.client.route(memberPrefix(i), netip.AddrFrom4([4]byte{10, 1, b.client.As4()[2], 1})); err != nil {
			return err
		}
	}
	return nil
}
