package nftables_test

import (
	"encoding/binary"
	"hash/crc32"
)

// sctpInit is an SCTP packet with an INIT chunk.
func sctpInit(from, to uint16) []byte {
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
	sum := crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli))
	binary.LittleEndian.PutUint32(b[8:], sum)
	return b
}
