package nftables_test

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/dataplane/dataplanetest"
	"fairlead.dev/fairlead/internal/lb"
)

const vip6 = "[2001:db8::1]:80"

// both is one service at an address of each family, over members 11 to 13.
func both(proto lb.Protocol, edit func(*lb.Pool), members ...int) *lb.Program {
	var four, six []lb.Member
	for _, m := range members {
		four, six = append(four, member(m, false)), append(six, member(m, true))
	}
	return newProgram().
		group("acme", "nodes", four...).group("acme", "nodes6", six...).
		pool("acme", "four", "nodes", 8080, edit).pool("acme", "six", "nodes6", 8080, edit).
		frontend("acme", "web", proto, vip, "four").frontend("acme", "web", proto, vip6, "six").done()
}

func asIs(*lb.Pool) {}

func byClient(p *lb.Pool) { p.Hash = lb.HashClientIP }

func TestIPv6(t *testing.T) {
	w := newWorld(t)
	w.serve(8080, 11, 12)
	w.apply(both(lb.TCP, asIs, 11, 12))
	if got := w.spread("", vip6, 40); got["fd02::11"] < 8 || got["fd02::12"] < 8 {
		t.Errorf("spread = %v, want about 20 each", got)
	}
	w.apply(both(lb.TCP, asIs))
	if _, err := w.dial(w.client, "", vip6); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("without members: %v, want it refused", err)
	}
}

func TestClientsKeepTheirMember(t *testing.T) {
	w := newWorld(t)
	w.serve(8080, 11, 12, 13)
	w.apply(both(lb.TCP, byClient, 11, 12, 13))
	for _, to := range []string{vip, vip6} {
		from := "10.1.0.3"
		if to == vip6 {
			from = "fd01::3"
		}
		if got := w.spread(from, to, 12); len(got) != 1 {
			t.Errorf("one client to %s gets %v", to, got)
		}
	}
}

// TestASecondProxyChoosesTheSameMember: what a client's address and port say does not depend on the host.
func TestASecondProxyChoosesTheSameMember(t *testing.T) {
	p := both(lb.TCP, asIs, 11, 12, 13)
	var seen [2][]string
	for i := range seen {
		w := newWorld(t)
		w.serve(8080, 11, 12, 13)
		if i == 1 { // Its marks differ.
			w.apply(newProgram().group("zeta", "nodes", member(15, false)).pool("zeta", "web", "nodes", 1).frontend("zeta", "web", lb.TCP, "198.18.0.9:1", "web").done())
		}
		w.apply(p)
		for port := 20000; port < 20040; port++ {
			for _, c := range [][2]string{{"10.1.0.2", vip}, {"[fd01::2]", vip6}} {
				s, err := w.dial(w.client, fmt.Sprintf("%s:%d", c[0], port), c[1])
				if err != nil {
					t.Fatal(err)
				}
				seen[i] = append(seen[i], s.member)
				s.Close()
			}
		}
	}
	if a, b := fmt.Sprint(seen[0]), fmt.Sprint(seen[1]); a != b {
		t.Errorf("two proxies differ:\n%s\n%s", a, b)
	}
	if members := strings.Count(fmt.Sprint(seen[0]), "10.2.0.11"); members == 0 || members == 40 {
		t.Errorf("flows are not spread: %s", seen[0])
	}
}

func TestMembersSeeTheClientOnlyWhereTheyShould(t *testing.T) {
	for _, c := range []struct {
		keep     bool
		from, to string
		want     string
	}{
		{false, "10.1.0.3", vip, "10.2.0.1"}, {true, "10.1.0.3", vip, "10.1.0.3"},
		{false, "fd01::3", vip6, "fd02::1"}, {true, "fd01::3", vip6, "fd01::3"},
	} {
		w := newWorld(t)
		w.serve(8080, 11)
		w.apply(both(lb.TCP, func(p *lb.Pool) { p.KeepClient = c.keep }, 11))
		if s := w.mustDial(c.from, c.to); s.seen != c.want {
			t.Errorf("keep %v: the member of %s sees %s, want %s", c.keep, c.to, s.seen, c.want)
		}
	}
}

// TestAMemberReachesItsOwnService although it is its own client, and keeps the client's address.
func TestAMemberReachesItsOwnService(t *testing.T) {
	w := newWorld(t)
	w.serve(8080, 11, 12)
	w.apply(both(lb.TCP, func(p *lb.Pool) { p.KeepClient = true }, 11, 12))
	for _, c := range [][2]string{{"10.2.0.11", vip}, {"fd02::11", vip6}, {"10.2.0.12", vip}} {
		s, err := w.dial(w.members, c[0], c[1])
		if err != nil {
			t.Errorf("%s to %s: %v", c[0], c[1], err)
			continue
		}
		if err := s.echo(); err != nil {
			t.Errorf("%s to %s: %v", c[0], c[1], err)
		}
	}
}

func TestTheHostItselfReachesItsServices(t *testing.T) {
	w := newWorld(t)
	w.serve(8080, 11)
	assigned := both(lb.TCP, func(p *lb.Pool) { p.KeepClient = true }, 11)
	for _, f := range assigned.Tenants["acme"].Frontends {
		f.Assign = true
	}
	w.apply(assigned)
	for _, to := range []string{vip, vip6} {
		if s, err := w.dial(w.host, "", to); err != nil {
			t.Errorf("the host to %s: %v", to, err)
		} else if err := s.echo(); err != nil {
			t.Errorf("the host to %s: %v", to, err)
		} else if of := netip.MustParseAddrPort(to).Addr().String(); s.seen == of {
			t.Errorf("the member sees %s, which members can't answer: another proxy may have it too", of)
		}
		if _, err := w.dial(w.host, "", strings.Replace(to, ":80", ":81", 1)); to == vip && !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("the host to another port of %s: %v, want it refused", to, err)
		}
	}
}

func TestSources(t *testing.T) {
	w := newWorld(t)
	w.serve(8080, 11)
	p := func(sources ...string) *lb.Program {
		p := both(lb.TCP, asIs, 11)
		for _, f := range p.Tenants["acme"].Frontends {
			for _, s := range sources {
				f.Sources = append(f.Sources, netip.MustParsePrefix(s))
			}
		}
		return p
	}
	may := func(from, to string, want bool) {
		t.Helper()
		d := net.Dialer{Timeout: 300 * time.Millisecond, LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
		c, err := w.client.Dial(w.ctx, d, "tcp", to)
		if err == nil {
			c.Close()
		}
		if (err == nil) != want {
			t.Errorf("%s to %s: %v, want it allowed: %v", from, to, err, want)
		}
	}
	w.apply(p("10.1.0.3/32", "fd01::3/128"))
	may("10.1.0.3", vip, true)
	may("10.1.0.2", vip, false)
	may("fd01::3", vip6, true)
	may("fd01::2", vip6, false)
	w.apply(p("10.1.0.2/31", "10.1.0.0/24", "10.1.0.3/32"))
	may("10.1.0.3", vip, true)
	may("10.1.0.2", vip, true)
	may("fd01::3", vip6, false)
	w.apply(p())
	may("10.1.0.4", vip, true)
	may("fd01::3", vip6, true)
	if o := w.apply(p("10.1.0.4/32")); len(o.Refused) > 0 {
		t.Errorf("refused: %v", o.Refused)
	}
	may("10.1.0.4", vip, true)
	may("10.1.0.3", vip, false)
}

func TestUDP(t *testing.T) {
	w := newWorld(t)
	w.serveUDP(8080, 11, 12)
	w.apply(both(lb.UDP, asIs, 11, 12))
	for _, to := range []string{vip, vip6} {
		got := map[string]int{}
		for range 40 {
			got[ask(w.dialUDP(to))]++
		}
		if len(got) != 2 || got[""] > 0 {
			t.Errorf("spread at %s = %v", to, got)
		}
	}
	w.apply(both(lb.UDP, asIs))
	if got := ask(w.dialUDP(vip)); got != "" {
		t.Errorf("without members, %s answers", got)
	}
}

// TestSCTP has no SCTP sockets to use (the kernel may be without): a packet that opens an association must arrive.
func TestSCTP(t *testing.T) {
	w := newWorld(t)
	w.apply(newProgram().group("acme", "nodes", member(11, false)).pool("acme", "m3ua", "nodes", 2905).
		frontend("acme", "m3ua", lb.SCTP, "198.18.0.1:2900", "m3ua").done())
	raw, err := w.members.ListenPacket("ip4:132", "10.2.0.11")
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	c, err := w.client.Dial(w.ctx, net.Dialer{}, "ip4:132", "198.18.0.1")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write(dataplanetest.SCTPInit(40000, 2900)); err != nil {
		t.Fatal(err)
	}
	raw.SetReadDeadline(time.Now().Add(2 * time.Second))
	b := make([]byte, 200)
	n, _, err := raw.ReadFrom(b)
	if errors.Is(err, os.ErrDeadlineExceeded) || n < 4 {
		t.Fatalf("no packet arrives at the member: %v", err)
	}
	if port := int(b[2])<<8 | int(b[3]); port != 2905 {
		t.Errorf("it arrives at port %d, want 2905", port)
	}
}
