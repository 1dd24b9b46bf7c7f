package hollow

import (
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
	"k8s.io/utils/ptr"
)

// dns adds UDP port 53 beside the Service's TCP port, on the same node port.
func dns(s *v1.Service) *v1.Service {
	s.Spec.Ports = append(s.Spec.Ports, v1.ServicePort{Name: "dns", Protocol: v1.ProtocolUDP, Port: 53, NodePort: s.Spec.Ports[0].NodePort})
	return s
}

func dnsSlice(s *discovery.EndpointSlice) *discovery.EndpointSlice {
	s.Ports = append(s.Ports, discovery.EndpointPort{Name: ptr.To("dns"), Protocol: ptr.To(v1.ProtocolUDP), Port: ptr.To[int32](8053)})
	return s
}

func (w *world) dial(port uint16) *net.UDPConn {
	w.t.Helper()
	c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(w.proxy.address, port)))
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { c.Close() })
	return c
}

// say sends a datagram and returns who answered, or "refused", or "silence".
func (w *world) say(c *net.UDPConn, text string) string {
	w.t.Helper()
	if _, err := c.Write([]byte(text)); err != nil && !errors.Is(err, syscall.ECONNREFUSED) {
		w.t.Fatal(err)
	}
	if err := c.SetReadDeadline(time.Now().Add(500 * time.Millisecond)); err != nil {
		w.t.Fatal(err)
	}
	b := make([]byte, 2048)
	n, err := c.Read(b)
	var timeout net.Error
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "refused"
	case errors.As(err, &timeout) && timeout.Timeout():
		return "silence"
	case err != nil:
		w.t.Fatal(err)
	}
	var a Answer
	if err := json.Unmarshal(b[:n], &a); err != nil {
		w.t.Fatal(err)
	}
	if a.Method != "UDP" || a.Path != text || a.Client != c.LocalAddr().String() || a.Port != 8053 {
		w.t.Errorf("answer %+v", a)
	}
	return a.Pod
}

func TestUDPFlowStaysWithItsEndpoint(t *testing.T) {
	w := newWorld(t, "127.30.0.8")
	w.run("a", "10.244.1.1")
	w.run("b", "10.244.1.2")
	w.proxy.onService(nil, dns(newService("web", 30001)))
	w.sync()
	c := w.dial(30001)
	if got := w.say(c, "hello"); got != "refused" {
		t.Errorf("without endpoints: %s", got)
	}
	w.proxy.onSlice(dnsSlice(newSlice("web", "10.244.1.1 here", "10.244.1.2 there")), false)
	w.sync()
	first := w.say(c, "hello")
	for range 20 {
		if got := w.say(c, "again"); got != first {
			t.Fatalf("moved from %s to %s", first, got)
		}
	}
	seen := map[string]bool{}
	for range 40 {
		seen[w.say(w.dial(30001), "hello")] = true
	}
	if !seen["a"] || !seen["b"] {
		t.Errorf("40 flows went to %v", seen)
	}
	left, rest := "10.244.1.1 here", "a"
	if first == "a" {
		left, rest = "10.244.1.2 there", "b"
	}
	w.proxy.onSlice(dnsSlice(newSlice("web", left)), false)
	w.sync()
	if got := w.say(c, "moved"); got != rest {
		t.Errorf("its endpoint is gone: %s", got)
	}
	w.want(30001, rest) // TCP, on the same number
	w.proxy.setNode(false, nil)
	w.sync()
	if got := w.say(c, "dead"); got != "refused" {
		t.Errorf("of a dead node: %s", got)
	}
}

func TestPodAnswersNoDatagramsOfOtherPorts(t *testing.T) {
	w := newWorld(t, "127.30.0.9")
	w.run("a", "10.244.1.1")
	slice := dnsSlice(newSlice("web", "10.244.1.1 here"))
	slice.Ports[1].Port = ptr.To[int32](8080) // TCP only
	w.proxy.onService(nil, dns(newService("web", 30001)))
	w.proxy.onSlice(slice, false)
	w.sync()
	if got := w.say(w.dial(30001), "hello"); got != "silence" {
		t.Errorf("answered by %s", got)
	}
}

func TestEachFamilyHasItsPorts(t *testing.T) {
	w := newWorld(t, "127.30.0.10")
	n := &node{spec: NodeSpec{Name: "here", Address: netip.MustParseAddr("127.30.0.11"), Address6: netip.MustParseAddr("::1")}}
	both := newNodeProxies(n, w, slog.New(slog.DiscardHandler))
	if len(both) != 2 || both[0].family != v1.IPv4Protocol || both[1].family != v1.IPv6Protocol {
		t.Fatalf("%d proxies", len(both))
	}
	w.run("four", "10.244.1.1")
	w.run("six", "fd00:10:244:1::1")
	svc := newService("web", 30621)
	svc.Spec.IPFamilies = append(svc.Spec.IPFamilies, v1.IPv6Protocol)
	svc.Spec.ClusterIPs = append(svc.Spec.ClusterIPs, "fd00:96::1")
	six := newSlice("web", "fd00:10:244:1::1 here")
	six.Name, six.AddressType = "web-2", discovery.AddressTypeIPv6
	for i, p := range both {
		t.Cleanup(p.closeAll)
		p.alive = true
		p.onService(nil, svc)
		p.onSlice(newSlice("web", "10.244.1.1 here"), false)
		p.onSlice(six, false)
		w.proxy = p
		w.sync()
		w.want(30621, []string{"four", "six"}[i])
	}
}
