package netns

import (
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Link joins two namespaces by a cable: a link of each, both up.
func (ns *Namespace) Link(name string, peer *Namespace, peerName string) {
	ns.network.try(fmt.Sprintf("joining %s of %s and %s of %s", name, ns.name, peerName, peer.name), func() error {
		err := ns.handle.LinkAdd(&netlink.Veth{
			LinkAttrs: netlink.LinkAttrs{Name: name}, PeerName: peerName, PeerNamespace: netlink.NsFd(int(peer.file.Fd())),
		})
		if err != nil {
			return err
		}
		if err := ns.up(name); err != nil {
			return err
		}
		return peer.up(peerName)
	})
}

// Bridge makes a switch, up, without ports.
func (ns *Namespace) Bridge(name string) {
	ns.network.try(fmt.Sprintf("making bridge %s in %s", name, ns.name), func() error {
		snoop := false
		if err := ns.handle.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: name}, MulticastSnooping: &snoop}); err != nil {
			return err
		}
		return ns.up(name)
	})
}

// Plug puts a link of this namespace into a bridge of it.
func (ns *Namespace) Plug(bridge, link string) {
	ns.network.try(fmt.Sprintf("putting %s into bridge %s in %s", link, bridge, ns.name), func() error {
		b, err := ns.handle.LinkByName(bridge)
		if err != nil {
			return err
		}
		l, err := ns.handle.LinkByName(link)
		if err != nil {
			return err
		}
		return ns.handle.LinkSetMaster(l, b)
	})
}

// Up and Down switch a link.
func (ns *Namespace) Up(link string) {
	ns.network.try(fmt.Sprintf("switching %s on in %s", link, ns.name), func() error { return ns.up(link) })
}

// Down switches a link off: what is sent over it is lost. Its IPv6 addresses and the routes over it are lost too.
func (ns *Namespace) Down(link string) {
	ns.network.try(fmt.Sprintf("switching %s off in %s", link, ns.name), func() error {
		l, err := ns.handle.LinkByName(link)
		if err != nil {
			return err
		}
		return ns.handle.LinkSetDown(l)
	})
}

func (ns *Namespace) up(link string) error {
	l, err := ns.handle.LinkByName(link)
	if err != nil {
		return err
	}
	return ns.handle.LinkSetUp(l)
}

// Address gives a link addresses, each with its prefix's length (10.0.0.1/24). They can be used at once.
func (ns *Namespace) Address(link string, addresses ...string) {
	for _, a := range addresses {
		ns.network.try(fmt.Sprintf("giving %s of %s address %s", link, ns.name, a), func() error {
			l, err := ns.handle.LinkByName(link)
			if err != nil {
				return err
			}
			addr, err := netlink.ParseAddr(a)
			if err != nil {
				return err
			}
			addr.Flags = unix.IFA_F_NODAD
			return ns.handle.AddrReplace(l, addr)
		})
	}
}

// Addresses are all addresses of the namespace but link-local ones and loopback's own.
func (ns *Namespace) Addresses() ([]netip.Addr, error) {
	if ns.network.err != nil {
		return nil, ns.network.err
	}
	all, err := ns.handle.AddrList(nil, netlink.FAMILY_ALL)
	if err != nil {
		return nil, fmt.Errorf("listing the addresses of %s: %w", ns.name, err)
	}
	var out []netip.Addr
	for _, a := range all {
		ip, ok := netip.AddrFromSlice(a.IP)
		if ip = ip.Unmap(); ok && !ip.IsLoopback() && !ip.IsLinkLocalUnicast() {
			out = append(out, ip)
		}
	}
	return out, nil
}

// Route sends a prefix by a neighbour, in place of where it went before.
func (ns *Namespace) Route(prefix, via string) {
	ns.network.try(fmt.Sprintf("routing %s via %s in %s", prefix, via, ns.name), func() error {
		_, to, err := net.ParseCIDR(prefix)
		if err != nil {
			return err
		}
		return ns.handle.RouteReplace(&netlink.Route{Dst: to, Gw: net.ParseIP(via)})
	})
}

// Local makes a whole prefix this host's own: each of its addresses can be bound and reached here.
func (ns *Namespace) Local(prefix string) {
	ns.network.try(fmt.Sprintf("making %s local in %s", prefix, ns.name), func() error {
		_, to, err := net.ParseCIDR(prefix)
		if err != nil {
			return err
		}
		lo, err := ns.handle.LinkByName("lo")
		if err != nil {
			return err
		}
		return ns.handle.RouteReplace(&netlink.Route{
			LinkIndex: lo.Attrs().Index, Dst: to, Type: unix.RTN_LOCAL, Table: unix.RT_TABLE_LOCAL, Scope: netlink.SCOPE_HOST,
		})
	})
}
