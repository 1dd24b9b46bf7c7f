package builtin

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"strconv"
	"strings"
	"testing"
)

// readHeader reads a header as a member would, by the protocol's specification and not by our code.
func readHeader(t *testing.T, b []byte) (client, front netip.AddrPort) {
	if text, ok := strings.CutPrefix(string(b), "PROXY "); ok {
		line, rest, _ := strings.Cut(text, "\r\n")
		words := strings.Split(line, " ")
		if rest != "" || len(words) != 5 || len(b) > 107 {
			t.Fatalf("header %q", b)
		}
		read := func(address, port string) netip.AddrPort {
			a, err := netip.ParseAddr(address)
			if err != nil || a.Is4() != (words[0] == "TCP4") || a.Is6() != (words[0] == "TCP6") || a.Zone() != "" {
				t.Fatalf("%q names the address %q, %v", b, address, err)
			}
			n, err := strconv.ParseUint(port, 10, 16)
			if err != nil || strconv.FormatUint(n, 10) != port {
				t.Fatalf("%q names the port %q, %v", b, port, err)
			}
			return netip.AddrPortFrom(a, uint16(n))
		}
		return read(words[1], words[3]), read(words[2], words[4])
	}
	body, ok := bytes.CutPrefix(b, []byte("\x0d\x0a\x0d\x0a\x00\x0d\x0a\x51\x55\x49\x54\x0a\x21"))
	if !ok || len(body) < 3 || len(body) != 3+int(binary.BigEndian.Uint16(body[1:])) {
		t.Fatalf("header % x", b)
	}
	size := map[byte]int{0x11: 4, 0x21: 16}[body[0]]
	if size == 0 || len(body) != 3+2*size+4 {
		t.Fatalf("header % x", b)
	}
	a, _ := netip.AddrFromSlice(body[3:][:size])
	c, _ := netip.AddrFromSlice(body[3+size:][:size])
	ports := body[3+2*size:]
	return netip.AddrPortFrom(a, binary.BigEndian.Uint16(ports)), netip.AddrPortFrom(c, binary.BigEndian.Uint16(ports[2:]))
}

// Whoever the client is, and wherever it connected: a member reads just that.
func FuzzProxyHeader(f *testing.F) {
	for _, v := range []bool{false, true} {
		f.Add(v, []byte{192, 0, 2, 1}, uint16(1234), []byte{192, 0, 2, 2}, uint16(80), "")
		f.Add(v, bytes.Repeat([]byte{255}, 16), uint16(65535), bytes.Repeat([]byte{255}, 16), uint16(65535), "eth0")
		f.Add(v, []byte{192, 0, 2, 1}, uint16(0), bytes.Repeat([]byte{0}, 16), uint16(0), "")
		f.Add(v, []byte("\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\xc0\x00\x02\x01"), uint16(1), []byte{192, 0, 2, 2}, uint16(1), "")
	}
	f.Fuzz(func(t *testing.T, second bool, client []byte, clientPort uint16, front []byte, frontPort uint16, zone string) {
		c, ok := netip.AddrFromSlice(client)
		if !ok {
			return
		}
		a, ok := netip.AddrFromSlice(front)
		if !ok {
			return
		}
		if c.Is6() {
			c = c.WithZone(zone)
		}
		version := 1
		if second {
			version = 2
		}
		from, to := netip.AddrPortFrom(c, clientPort), netip.AddrPortFrom(a, frontPort)
		gotFrom, gotTo := readHeader(t, proxyHeader(version, from, to))
		if plainly(gotFrom) != plainly(from) || plainly(gotTo) != plainly(to) {
			t.Fatalf("a member reads %s to %s, and it is %s to %s", gotFrom, gotTo, from, to)
		}
	})
}

// plainly is without zone, and IPv4 where it is that.
func plainly(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr().WithZone("").Unmap(), a.Port())
}
