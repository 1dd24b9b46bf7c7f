package app_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/app"
	"fairlead.dev/fairlead/internal/testkit/kubetest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// targets makes a TargetGroup that LoadBalancers of that name select.
func (h *hub) targets(t *testing.T, name string, addresses ...string) {
	t.Helper()
	h.create(t, &v1alpha1.TargetGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"for": name}},
		Spec:       v1alpha1.TargetGroupSpec{Targets: []v1alpha1.Target{{Name: name, UID: "uid-" + name, Addresses: addresses}}},
	})
}

// balance makes a LoadBalancer over the TargetGroup of its name, as mend has it.
func (h *hub) balance(t *testing.T, name string, mend func(*clusterv1.LoadBalancerSpec)) {
	t.Helper()
	l := &clusterv1.LoadBalancer{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       clusterv1.LoadBalancerSpec{ClassName: "edge", Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"for": name}}},
	}
	mend(&l.Spec)
	h.create(t, l)
}

// grant is the ledger's line of an address.
func (h *hub) grant(t *testing.T, at netip.Addr, holders map[string]string) {
	t.Helper()
	a := &v1alpha1.Address{
		ObjectMeta: metav1.ObjectMeta{Name: strings.ReplaceAll(at.StringExpanded(), ":", "-")},
		Spec:       v1alpha1.AddressSpec{Address: at.String(), Pool: "public", ProxyPool: "edge", Phase: v1alpha1.AddressGranted},
	}
	for name, ports := range holders {
		a.Spec.Holders = append(a.Spec.Holders, v1alpha1.Holder{Namespace: namespace, Name: name, Ports: strings.Fields(ports)})
	}
	h.create(t, a)
}

// serve has each connection to a free port of an address answered, line by line.
func serve(t *testing.T, address string, header []byte) int32 {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				got := make([]byte, len(header))
				if _, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, header) {
					return
				}
				if len(header) > 0 { // the header's last two bytes say how long its addresses are
					rest := make([]byte, 2)
					io.ReadFull(c, rest)
					io.CopyN(io.Discard, c, int64(rest[0])<<8|int64(rest[1]))
				}
				for s := bufio.NewScanner(c); s.Scan(); {
					fmt.Fprintf(c, "one %s\n", s.Text())
				}
			}()
		}
	}()
	return int32(l.Addr().(*net.TCPAddr).Port)
}

// serveUDP has each datagram answered.
func serveUDP(t *testing.T) int32 {
	t.Helper()
	c, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	go func() {
		b := make([]byte, 1500)
		for {
			n, from, err := c.ReadFrom(b)
			if err != nil {
				return
			}
			c.WriteTo(append([]byte("one "), b[:n]...), from)
		}
	}()
	return int32(c.LocalAddr().(*net.UDPAddr).Port)
}

func answersUDP(at netip.AddrPort) error {
	c, err := net.Dial("udp", at.String())
	if err != nil {
		return err
	}
	defer c.Close()
	return say(c)
}

func TestProxyServesAllOfLayer4(t *testing.T) {
	h := startHub(t)
	h.startProxy(t, "edge-1", app.ProxyOptions{StateDir: t.TempDir(), Zone: "east"})
	v4, v6 := h.address(101), netip.MustParseAddr("::1")
	in := func(protocol clusterv1.Protocol, port, target int32) clusterv1.Port {
		return clusterv1.Port{Protocol: protocol, Port: port, TargetPort: target}
	}
	const plain = "TCP/8080"
	v2 := []byte{'\r', '\n', '\r', '\n', 0, '\r', '\n', 'Q', 'U', 'I', 'T', '\n', 0x21, 0x11}

	// Four LoadBalancers on one address: two protocols of one port, a name, source ranges, PROXY headers.
	h.targets(t, "dns", "127.0.0.1", "::1")
	h.balance(t, "dns", func(s *clusterv1.LoadBalancerSpec) {
		s.Ports = []clusterv1.Port{in("TCP", 5353, int32(h.echo.Port())), in("UDP", 5353, serveUDP(t)), in("TCP", 5454, serve(t, "::1", nil))}
	})
	h.targets(t, "named", "localhost")
	h.balance(t, "named", func(s *clusterv1.LoadBalancerSpec) {
		s.Ports = []clusterv1.Port{in("TCP", 8080, int32(h.echo.Port()))}
	})
	h.targets(t, "private", "127.0.0.1")
	h.balance(t, "private", func(s *clusterv1.LoadBalancerSpec) {
		s.Ports = []clusterv1.Port{in("TCP", 8081, int32(h.echo.Port()))}
		s.SourceRanges = []string{"198.51.100.0/24"}
	})
	h.targets(t, "proxied", "127.0.0.1")
	h.balance(t, "proxied", func(s *clusterv1.LoadBalancerSpec) {
		s.Ports = []clusterv1.Port{in("TCP", 8082, serve(t, "127.0.0.1", v2))}
		s.ProxyProtocol = "V2"
	})
	h.grant(t, v4, map[string]string{"dns": "TCP/5353 UDP/5353", "named": plain, "private": "TCP/8081", "proxied": "TCP/8082"})
	h.grant(t, v6, map[string]string{"dns": "TCP/5454"})

	kubetest.Eventually(t, soon, "an answer over TCP", func(context.Context) error { return answers(netip.AddrPortFrom(v4, 5353)) })
	kubetest.Eventually(t, soon, "an answer over UDP", func(context.Context) error { return answersUDP(netip.AddrPortFrom(v4, 5353)) })
	kubetest.Eventually(t, soon, "an answer over IPv6", func(context.Context) error { return answers(netip.AddrPortFrom(v6, 5454)) })
	kubetest.Eventually(t, soon, "an answer of a target that has a name", func(context.Context) error { return answers(netip.AddrPortFrom(v4, 8080)) })
	kubetest.Eventually(t, soon, "an answer behind a PROXY header", func(context.Context) error { return answers(netip.AddrPortFrom(v4, 8082)) })

	// Who is outside of the source ranges isn't served, until they say otherwise.
	if err := answers(netip.AddrPortFrom(v4, 8081)); err == nil {
		t.Error("served although it is outside of the source ranges")
	}
	kubetest.Eventually(t, soon, "the ranges to be written", func(ctx context.Context) error {
		l := &clusterv1.LoadBalancer{}
		if err := h.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "private"}, l); err != nil {
			return err
		}
		l.Spec.SourceRanges = []string{"127.0.0.0/8"}
		return h.client.Update(ctx, l)
	})
	kubetest.Eventually(t, soon, "an answer from within the source ranges", func(context.Context) error { return answers(netip.AddrPortFrom(v4, 8081)) })

	// A name that nobody knows is told.
	h.targets(t, "lost", "lost.invalid")
	h.balance(t, "lost", func(s *clusterv1.LoadBalancerSpec) { s.Ports = []clusterv1.Port{in("TCP", 9090, 80)} })
	h.grant(t, h.address(102), map[string]string{"lost": "TCP/9090"})
	kubetest.Eventually(t, soon, "the report of the name", func(ctx context.Context) error {
		r, err := h.report(ctx, "edge-1")
		if err == nil && !slices.ContainsFunc(r.Members, func(m v1alpha1.ReportedMember) bool {
			return m.Target == "lost" && m.Address == "lost.invalid" && m.State == v1alpha1.ReportedUnhealthy && m.Message != ""
		}) {
			err = fmt.Errorf("members: %+v", r.Members)
		}
		return err
	})
	r, err := h.report(t.Context(), "edge-1")
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Refused) > 0 || len(r.Members) != 1 {
		t.Errorf("also reported: %+v %+v", r.Refused, r.Members)
	}
}
