package builtin

import (
	"bufio"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"

	"fairlead.dev/fairlead/internal/lb"
)

func contextDone() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx, cancel
}

func TestIPv6(t *testing.T) {
	member := freeUDPPort(t, "::1")
	listen(t, "m1", at("::1", member))
	listenUDP(t, "m1", at("::1", member))
	where := at("::1", freeUDPPort(t, "::1", "127.0.0.1"))
	members := []lb.Member{memberAt("m1", "::1")}
	web := service{name: "web", at: where, port: member, members: members}
	dns := service{name: "dns", protocol: lb.UDP, at: where, port: member, members: members}
	p := start(t, Options{})
	if out := p.apply(web, dns); len(out.Refused) > 0 {
		t.Fatalf("refused: %+v", out.Refused)
	}
	if err := mustConnect(t, where).echoes(); err != nil {
		t.Error(err)
	}
	newAsker(t, where).mustHear(t)
	// The IPv4 side of the same port is somebody else's, or nobody's.
	if _, err := connect(at("127.0.0.1", where.Port())); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("got %v over IPv4, want it refused", err)
	}
}

func TestBothFamiliesOfOneLoadBalancer(t *testing.T) {
	port := freePort(t, "127.0.1.1", "127.0.0.1", "::1")
	listen(t, "four", at("127.0.1.1", port))
	inner := freePort(t, "::1")
	listen(t, "six", at("::1", inner))
	four := service{name: "web", group: "v4", at: at("127.0.0.1", port), port: port, members: []lb.Member{memberAt("m", "127.0.1.1")}}
	six := service{name: "web-6", group: "v6", at: at("::1", port), port: inner, members: []lb.Member{memberAt("m", "::1")}}
	p := start(t, Options{})
	p.apply(four, six)
	for _, s := range []service{four, six} {
		want := map[bool]string{true: "four", false: "six"}[s.at.Addr().Is4()]
		if c := mustConnect(t, s.at); c.name != want {
			t.Errorf("%v went to %s", s.at, c.name)
		}
	}
}

func TestIPv6IsServedWhereItArrives(t *testing.T) {
	member := freePort(t, "::1")
	listen(t, "m1", at("::1", member))
	as, err := ParseTranslation("2001:db8:1::1/128=::1/128")
	if err != nil {
		t.Fatal(err)
	}
	port := freePort(t, "::1")
	p := start(t, Options{BindAs: []Translation{as}})
	p.apply(service{name: "web", at: at("2001:db8:1::1", port), port: member, members: []lb.Member{memberAt("m1", "::1")}})
	mustConnect(t, at("::1", port))
}

func TestClientsFromElsewhereAreReset(t *testing.T) {
	web, _, _ := pair(t)
	web.front.Sources = []netip.Prefix{netip.MustParsePrefix("127.0.7.0/24"), netip.MustParsePrefix("127.0.9.1/32")}
	p := start(t, Options{})
	p.apply(web)
	from := func(a string) error {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(a)}}
		c, err := d.Dial("tcp", web.at.String())
		if err != nil {
			return err
		}
		defer c.Close()
		_, err = bufio.NewReader(c).ReadString('\n')
		return err
	}
	for _, inside := range []string{"127.0.7.1", "127.0.7.200", "127.0.9.1"} {
		if err := from(inside); err != nil {
			t.Errorf("%s: %v", inside, err)
		}
	}
	for _, outside := range []string{"127.0.8.1", "127.0.9.2"} {
		if err := from(outside); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("%s: got %v, want a reset", outside, err)
		}
	}
}

func TestMemberHearsWhoIsProxied(t *testing.T) {
	for version := 1; version <= 2; version++ {
		t.Run(fmt.Sprintf("version %d", version), func(t *testing.T) {
			port := freePort(t, "127.0.1.1", "127.0.0.1")
			got := make(chan string, 1)
			listenWith(t, "m1", at("127.0.1.1", port), func(c net.Conn) {
				b, _ := io.ReadAll(c)
				got <- string(b)
			})
			where := at("127.0.0.1", port)
			p := start(t, Options{})
			p.apply(service{name: "web", at: where, port: port, members: []lb.Member{memberAt("m1", "127.0.1.1")}, front: lb.Frontend{ProxyProtocol: version}})
			c, err := net.Dial("tcp", where.String())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			io.WriteString(c, "hello")
			c.(*net.TCPConn).CloseWrite()
			client := c.LocalAddr().(*net.TCPAddr).AddrPort()
			want := string(proxyHeader(version, client, where)) + "hello"
			if b := <-got; b != want {
				t.Errorf("heard %q, want %q", b, want)
			}
		})
	}
}

func TestProxyHeaders(t *testing.T) {
	v4, front4 := netip.MustParseAddrPort("192.0.2.7:56324"), netip.MustParseAddrPort("198.51.100.1:443")
	v6, front6 := netip.MustParseAddrPort("[2001:db8::7]:56324"), netip.MustParseAddrPort("[2001:db8:1::1]:443")
	const start = "0d0a0d0a000d0a515549540a"
	for _, test := range []struct {
		version       int
		client, front netip.AddrPort
		want          string
	}{
		{1, v4, front4, "PROXY TCP4 192.0.2.7 198.51.100.1 56324 443\r\n"},
		{1, v6, front6, "PROXY TCP6 2001:db8::7 2001:db8:1::1 56324 443\r\n"},
		{2, v4, front4, start + "2111000cc0000207c6336401dc0401bb"},
		{2, v6, front6, start + "21210024" + "20010db8000000000000000000000007" + "20010db8000100000000000000000001" + "dc0401bb"},
	} {
		got := string(proxyHeader(test.version, test.client, test.front))
		if strings.HasPrefix(test.want, start) {
			got = hex.EncodeToString([]byte(got))
		}
		if got != test.want {
			t.Errorf("got %q, want %q", got, test.want)
		}
	}
}

func TestTwoTenantsOnOneAddress(t *testing.T) {
	web, _, _ := pair(t)
	theirs := web
	theirs.tenant, theirs.name, theirs.at = "other", "web", at("127.0.0.1", freePort(t, "127.0.0.1"))
	theirs.members = web.members[1:]
	web.members = web.members[:1]
	p := start(t, Options{})
	p.apply(web, theirs)
	onlyOn(t, web.at, "m1")
	onlyOn(t, theirs.at, "m2")
	p.apply(theirs)
	onlyOn(t, theirs.at, "m2")
	if _, err := connect(web.at); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("got %v, want it refused", err)
	}
}
