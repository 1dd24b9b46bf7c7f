package dataplanetest

import (
	"context"
	"encoding/binary"
	"hash/crc32"
	"net"
	"time"

	"fairlead.dev/fairlead/internal/lb"
)

func sctpFlows() []flow {
	return []flow{{
		name: "SCTP", says: "SCTP: associations are begun with a member", members: 1,
		needs: func() []service { return []service{signalling(m(1))} },
		run: func(w *world, p *proxy) {
			p.apply(signalling(m(1)))
			member, err := w.members[1].ns.ListenPacket("ip4:132", memberAddress(1))
			w.must(err)
			defer member.Close()
			client, err := w.client.Dial(context.Background(), net.Dialer{}, "ip4:132", vip(1, 0).Addr().String())
			w.must(err)
			defer client.Close()
			got := make([]byte, 1500)
			w.until("the member hears of an association", func() bool {
				_, err := client.Write(SCTPInit(40000, vip(1, 3868).Port()))
				w.must(err)
				member.SetReadDeadline(time.Now().Add(time.Second))
				n, _, err := member.ReadFrom(got)
				return err == nil && n >= 4 && binary.BigEndian.Uint16(got[2:]) == echoPort
			})
		},
	}}
}

// signalling is a service over SCTP.
func signalling(members ...lb.Member) service {
	return service{name: "signalling", at: vip(1, 3868), protocol: lb.SCTP, port: echoPort, members: members}
}

// SCTPInit is an SCTP packet with an INIT chunk, which begins an association: kernels without SCTP have no sockets for it.
func SCTPInit(from, to uint16) []byte {
	b := make([]byte, 32)
	binary.BigEndian.PutUint16(b, from)
	binary.BigEndian.PutUint16(b[2:], to)
	b[12] = 1                                  // INIT
	binary.BigEndian.PutUint16(b[14:], 20)     // length
	binary.BigEndian.PutUint32(b[16:], 0xfeed) // initiate tag
	binary.BigEndian.PutUint32(b[20:], 64<<10) // window
	binary.BigEndian.PutUint16(b[24:], 1)      // streams out
	binary.BigEndian.PutUint16(b[26:], 1)      // streams in
	binary.BigEndian.PutUint32(b[28:], 1)      // first TSN
	binary.LittleEndian.PutUint32(b[8:], crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)))
	return b
}
