package dataplanetest

import (
	"fmt"
	"net/netip"
	"slices"

	"fairlead.dev/fairlead/internal/lb"
)

func servingFlows() []flow {
	return []flow{
		{
			name: "NoMembers", says: "A TCP port without members resets its clients at once", members: 1,
			needs: func() []service { return []service{web()} },
			run: func(w *world, p *proxy) {
				p.apply(web())
				w.turnedAway(noSource, vip(1, 80))
				p.apply(web(m(1)))
				w.only(vip(1, 80), 1)
				p.apply(web())
				w.turnedAway(noSource, vip(1, 80))
				p.apply()
				w.unserved(noSource, vip(1, 80))
			},
		},
		{
			name: "Ports", says: "TCP and UDP on one address, each port to a target port of its own", members: 2,
			needs: ports,
			run: func(w *world, p *proxy) {
				p.apply(ports()...)
				w.only(vip(1, 80), 1, 2)
				w.only(vip(1, 443), 2)
				w.only(vip(1, 53), 1)
				if who, _ := w.answers(w.packetsFrom(noSource, vip(1, 53))); who != "m2" {
					w.Errorf("%s answers over UDP, want m2", who)
				}
				w.unserved(noSource, vip(1, 81))
			},
		},
		{
			name: "IPv6", says: "TCP over IPv6, beside IPv4 in the same LoadBalancer", members: 2,
			needs: dualStack,
			run: func(w *world, p *proxy) {
				p.apply(dualStack()...)
				w.only(vip6(1, 80), 1, 2)
				w.only(vip(1, 80), 1, 2)
				two := dualStack()
				two[1].members = two[1].members[1:]
				p.apply(two...)
				w.only(vip6(1, 80), 2)
				w.only(vip(1, 80), 1, 2)
				two[1].members = nil
				p.apply(two...)
				w.turnedAway(noSource, vip6(1, 80))
			},
		},
		{
			name: "Sources", says: "Only clients in sourceRanges are served, IPv4 and IPv6; others are reset or get no answer", members: 1,
			needs: func() []service { return limited("10.2.0.0/24", "fd02::/120") },
			run: func(w *world, p *proxy) {
				p.apply(append(limited("10.2.0.0/24", "fd02::/120"), open())...)
				w.dialFrom(client(7), vip(1, 80))
				w.dialFrom(client6(7), vip6(1, 80))
				w.unserved(client(300), vip(1, 80))
				w.unserved(client6(300), vip6(1, 80))
				w.unserved(from(clientAddress, 0), vip(1, 80))
				w.dialFrom(client(300), open().at)
				p.apply(append(limited("10.2.1.0/24", "10.1.0.2/32", "fd02::100/120"), open())...)
				w.unserved(client(7), vip(1, 80))
				w.unserved(client6(7), vip6(1, 80))
				w.dialFrom(client(300), vip(1, 80))
				w.dialFrom(client6(300), vip6(1, 80))
				w.dialFrom(from(clientAddress, 0), vip(1, 80))
				all := limited()
				p.apply(append(all, open())...)
				w.dialFrom(client(7), vip(1, 80))
				w.dialFrom(client6(300), vip6(1, 80))
			},
		},
		{
			name: "HiddenClient", says: "Members see the load balancer's address, unless the class says otherwise", members: 1,
			needs: func() []service { return []service{web(m(1))} },
			run: func(w *world, p *proxy) {
				p.apply(web(m(1)))
				seen, err := netip.ParseAddrPort(w.dial(vip(1, 80)).seen)
				w.must(err)
				if want := w.hosts[0].backAddress(); seen.Addr().Unmap().String() != want {
					w.Errorf("the member sees %s, want %s", seen, want)
				}
			},
		},
		{
			name: "KeptClient", says: "Members that route back through the load balancer see the client's address", members: 2,
			needs: keepingClients,
			run: func(w *world, p *proxy) {
				p.apply(keepingClients()...)
				for i, at := range []netip.AddrPort{vip(1, 80), vip6(1, 80)} {
					c := w.dialFrom([]netip.AddrPort{client(42), client6(42)}[i], at)
					w.works("a connection whose client the member sees", c)
					if c.seen != c.LocalAddr().String() {
						w.Errorf("the member sees %s, want %s", c.seen, c.LocalAddr())
					}
				}
			},
		},
		{
			name: "Assigned", says: "An address is put on the host while it is served there, and taken away again", members: 1,
			needs: assigned,
			run:   assigns,
		},
	}
}

func ports() []service {
	tls, tcp, udp := web(m(2)), web(m(1)), dns(m(2))
	tls.at, tls.port, tls.group = vip(1, 443), otherPort, "tls"
	tcp.name, tcp.at, tcp.group = "dns", vip(1, 53), "dns-tcp"
	return []service{web(m(1), m(2)), tls, tcp, udp}
}

func dualStack() []service {
	four, six := web(m(1), m(2)), web(m6(1), m6(2))
	six.at, six.group = vip6(1, 80), "web6"
	return []service{four, six}
}

// limited is a service that only these sources may use, over both families.
func limited(sources ...string) []service {
	out := dualStack()
	for i := range out {
		out[i].members = out[i].members[:1]
		for _, s := range sources {
			out[i].front.Sources = append(out[i].front.Sources, netip.MustParsePrefix(s))
		}
		slices.SortFunc(out[i].front.Sources, func(a, b netip.Prefix) int { return a.Addr().Compare(b.Addr()) })
	}
	return out
}

// open is a service for everybody.
func open() service {
	s := web(m(1))
	s.name, s.at = "open", vip(1, 8080)
	return s
}

func keepingClients() []service {
	out := dualStack()
	for i := range out {
		out[i].pool.KeepClient = true
	}
	return out
}

func assigned() []service {
	out := dualStack()
	for i, at := range []netip.AddrPort{vip(assignedVIP, 80), vip6(assignedVIP, 80)} {
		out[i].at, out[i].members, out[i].front.Assign = at, out[i].members[:1], true
	}
	return out
}

func assigns(w *world, p *proxy) {
	has := func() (n int) {
		all, err := w.hosts[0].ns.Addresses()
		w.must(err)
		for _, s := range assigned() {
			if slices.Contains(all, s.at.Addr()) {
				n++
			}
		}
		return n
	}
	other := assigned()
	for i := range other {
		other[i].name, other[i].at = "other", netip.AddrPortFrom(other[i].at.Addr(), 81)
		other[i].group = lb.GroupID(fmt.Sprintf("other%d", i))
	}
	p.apply(append(assigned(), other...)...)
	if n := has(); n != 2 {
		w.Fatalf("%d of 2 addresses are on the host", n)
	}
	w.dial(vip(assignedVIP, 80)).drop()
	w.dial(vip6(assignedVIP, 80)).drop()
	p.apply(other...)
	if n := has(); n != 2 {
		w.Fatalf("%d of 2 addresses are on the host, although each is still served", n)
	}
	w.dial(vip(assignedVIP, 81)).drop()
	p.apply()
	w.until("the addresses are taken away", func() bool { return has() == 0 })
	kept := assigned()
	kept[0].at = from(w.hosts[0].frontAddress(), 8000)
	p.apply(kept[0])
	w.dial(kept[0].at).drop()
	p.apply()
	w.until("nothing is served any more", func() bool { return len(p.observe().Closing) == 0 })
	all, err := w.hosts[0].ns.Addresses()
	w.must(err)
	if !slices.Contains(all, kept[0].at.Addr()) {
		w.Error("an address that the host had before was taken away")
	}
}
