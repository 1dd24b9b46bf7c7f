package builtin

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"

	"fairlead.dev/fairlead/internal/dataplane"
	"fairlead.dev/fairlead/internal/lb"
)

func TestServesTranslatedAddresses(t *testing.T) {
	web, _, _ := pair(t)
	translation, err := ParseTranslation("127.80.0.0/24=127.81.0.0/24")
	if err != nil {
		t.Fatal(err)
	}
	p := start(t, Options{BindAs: []Translation{translation}})
	public, here := web, web
	public.at = at("127.80.0.7", web.at.Port())
	here.name, here.at = "here", web.at
	p.apply(public, here)
	mustConnect(t, at("127.81.0.7", web.at.Port()))
	mustConnect(t, web.at) // not translated
	if _, err := connect(public.at); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("the address itself: got %v, want refused", err)
	}
}

func TestTranslationKeepsTheHostPart(t *testing.T) {
	for _, test := range []struct{ translation, from, to string }{
		{"203.0.113.0/24=10.0.0.0/24", "203.0.113.77", "10.0.0.77"},
		{"203.0.113.64/26=10.0.0.128/26", "203.0.113.77", "10.0.0.141"},
		{"203.0.113.9/32=10.0.0.1/32", "203.0.113.9", "10.0.0.1"},
		{"0.0.0.0/0=0.0.0.0/0", "1.2.3.4", "1.2.3.4"},
		{"203.0.112.0/23=10.2.0.0/23", "203.0.113.1", "10.2.1.1"},
		{"2001:db8::/64=fd00:1::/64", "2001:db8::7:8", "fd00:1::7:8"},
		{"2001:db8::/64=fd00:1::/64", "203.0.113.1", "203.0.113.1"},
	} {
		tr, err := ParseTranslation(test.translation)
		if err != nil {
			t.Fatal(err)
		}
		o := Options{BindAs: []Translation{tr}}
		if got := o.bindAddress(netip.MustParseAddr(test.from)); got.String() != test.to {
			t.Errorf("%s: %s is served at %s, want %s", test.translation, test.from, got, test.to)
		}
	}
	for _, wrong := range []string{"", "1.2.3.0/24", "1.2.3.0/24=1.2.3.4", "1.2.3.0/24=10.0.0.0/16", "fd00::/64=10.0.0.0/8", "::ffff:1.2.3.0/120=::ffff:1.2.4.0/120"} {
		if tr, err := ParseTranslation(wrong); err == nil {
			t.Errorf("%q was taken as %v", wrong, tr)
		}
	}
}

func TestRefusedBindNamesCauseAndFixAndIsTriedAgain(t *testing.T) {
	web, _, _ := pair(t)
	taken, err := net.Listen("tcp4", "127.0.0.9:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	inUse, foreign := web, web
	inUse.name, inUse.at, inUse.tenant = "in-use", taken.Addr().(*net.TCPAddr).AddrPort(), "other"
	foreign.name, foreign.at = "foreign", at("192.0.2.1", web.at.Port())

	p := start(t, Options{})
	want := "PortInUse in-use, AddressNotLocal foreign"
	if got := reasons(p.apply(web, foreign, inUse)); got != want {
		t.Fatalf("refused %s, want %s", got, want)
	}
	c := mustConnect(t, web.at) // Nobody else minds.
	if got := reasons(p.apply(web, foreign, inUse)); got != want {
		t.Errorf("once more: refused %s, want %s", got, want)
	}
	taken.Close()
	out := p.apply(web, foreign, inUse)
	if got := reasons(out); got != "AddressNotLocal foreign" {
		t.Errorf("with the port free: refused %s", got)
	}
	if out.How != dataplane.Hot {
		t.Errorf("opened a listener by %s", out.How)
	}
	mustConnect(t, inUse.at)
	if out := p.apply(web, inUse); len(out.Refused) != 0 {
		t.Errorf("refused %v, which is gone", out.Refused)
	}
	if err := c.echoes(); err != nil {
		t.Error(err)
	}
}

func reasons(o dataplane.Outcome) string {
	var out []string
	for _, p := range o.Refused {
		out = append(out, p.Reason+" "+p.Object.Name)
	}
	return strings.Join(out, ", ")
}

func TestBindErrorsHaveReasons(t *testing.T) {
	id := lb.FrontendID{Tenant: "prod", LoadBalancer: "web", Address: netip.MustParseAddr("192.0.2.7"), Protocol: lb.TCP, Port: 80}
	o := &Options{}
	for _, test := range []struct {
		errno           syscall.Errno
		reason, message string
	}{
		{syscall.EACCES, "PortNotPermitted", "the proxy may not bind 192.0.2.7:80; use a port above 1023, or give the proxy CAP_NET_BIND_SERVICE"},
		{syscall.EPERM, "PortNotPermitted", "the proxy may not bind 192.0.2.7:80; use a port above 1023, or give the proxy CAP_NET_BIND_SERVICE"},
		{syscall.EADDRINUSE, "PortInUse", "another program on the proxy's host listens on 192.0.2.7:80; stop it, or use another port"},
		{syscall.EADDRNOTAVAIL, "AddressNotLocal", "address 192.0.2.7 is not on the proxy's host; add it there, or start the proxy with --bind-as"},
		{syscall.EMFILE, "Pending", "the proxy has no files or memory left to open 192.0.2.7:80; it tries again, raise its limit of open files"},
	} {
		err := &net.OpError{Op: "listen", Err: os.NewSyscallError("bind", test.errno)}
		got := o.bindProblem(id, err)
		want := problem(id, got.Field, test.reason, test.message)
		if got != want {
			t.Errorf("%v:\ngot  %+v\nwant %+v", test.errno, got, want)
		}
	}
}

func TestAcceptOutlivesALackOfFiles(t *testing.T) {
	web, _, _ := pair(t)
	p := start(t, Options{})
	p.apply(web)
	held := connectWithoutFiles(t, net.TCPAddrFromAddrPort(web.at))
	until(t, "an accept fails", func() bool { return counter(t, p.metrics.acceptErrors) > 0 })
	held.release()
	mustConnect(t, web.at)
	if n := counter(t, p.metrics.acceptErrors); n > 50 {
		t.Errorf("%v accepts failed: it spins", n)
	}
}

func TestCheckNamesWhatItCannotExpress(t *testing.T) {
	v4, v6 := netip.MustParseAddr("192.0.2.7"), netip.MustParseAddr("2001:db8::7")
	front := func(port uint16, a netip.Addr, proto lb.Protocol, change func(*lb.Frontend)) *lb.Frontend {
		f := &lb.Frontend{ID: lb.FrontendID{Tenant: "prod", LoadBalancer: "web", Address: a, Protocol: proto, Port: port}, Pool: "web"}
		if change != nil {
			change(f)
		}
		return f
	}
	s := &lb.Snapshot{
		Pools: map[lb.PoolID]*lb.Pool{"web": {ID: "web"}, "keep": {ID: "keep", KeepClient: true}, "odd": {ID: "odd", Check: lb.Check{Kind: "GRPC", Port: 1}}},
		Frontends: []*lb.Frontend{
			front(1, v4, lb.TCP, nil),
			front(2, v4, lb.UDP, nil),
			front(3, v4, lb.SCTP, nil),
			front(4, v6, lb.TCP, nil),
			front(5, v4, lb.TCP, func(f *lb.Frontend) { f.Sources = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")} }),
			front(6, v4, lb.TCP, func(f *lb.Frontend) { f.ProxyProtocol = 2 }),
			front(7, v4, lb.TCP, func(f *lb.Frontend) { f.Pool = "odd" }),
			front(9, v6, lb.UDP, func(f *lb.Frontend) { f.ProxyProtocol = 2 }),
			front(10, v4, lb.UDP, func(f *lb.Frontend) { f.Pool = "keep" }),
			front(8, v4, lb.TCP, func(f *lb.Frontend) { f.IdleTimeout, f.AffinityTimeout = 1, 1 }),
		},
	}
	var got []string
	for _, p := range New(Options{}).Check(s) {
		got = append(got, fmt.Sprintf("%d %s %s %s", p.Object.Port, p.Effect, p.Reason, p.Field))
	}
	want := []string{
		"3 Refused NotSupported spec.ports.protocol", "7 Refused NotSupported spec.healthCheck.type",
		"9 Refused NotSupported spec.proxyProtocol", "10 ServedWithout NotSupported spec.proxy.clientAddress",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
