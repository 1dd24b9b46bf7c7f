package builtin

import (
	"encoding/binary"
	"fmt"
	"io"
	"net/netip"
)

// signature begins a PROXY protocol header of version 2.
const signature = "\r\n\r\n\x00\r\nQUIT\n"

// sayProxied begins the stream to a member with who is proxied: the client,
// and the address that it connected to (the frontend's, however it is bound).
func sayProxied(to io.Writer, version int, client, front netip.AddrPort) error {
	_, err := to.Write(proxyHeader(version, client, front))
	return err
}

func proxyHeader(version int, client, front netip.AddrPort) []byte {
	v4 := client.Addr().Is4() && front.Addr().Is4()
	if version == 1 {
		family := "TCP4"
		if !v4 {
			family = "TCP6"
		}
		return fmt.Appendf(nil, "PROXY %s %s %s %d %d\r\n", family, bare(client.Addr(), v4), bare(front.Addr(), v4), client.Port(), front.Port())
	}
	b := append(make([]byte, 0, 52), signature...)
	b = append(b, 0x21) // version 2, a proxied connection
	if v4 {
		b = append(b, 0x11, 0, 12)
	} else {
		b = append(b, 0x21, 0, 36)
	}
	b = append(b, bare(client.Addr(), v4).AsSlice()...)
	b = append(b, bare(front.Addr(), v4).AsSlice()...)
	b = binary.BigEndian.AppendUint16(b, client.Port())
	return binary.BigEndian.AppendUint16(b, front.Port())
}

// bare is an address as a header holds it: without zone, and all of one family.
func bare(a netip.Addr, v4 bool) netip.Addr {
	if v4 {
		return a
	}
	return netip.AddrFrom16(a.As16())
}
