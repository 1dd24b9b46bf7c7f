package testkit

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
)

const (
	apiServerPort  = 6443
	etcdPort       = 2379
	etcdPeerPort   = 2380
	claimPort      = 6442
	firstNodeHost  = 11
	lastNodeHost   = 250
	claimHost      = 254
	subnetAttempts = 100
)

// errTaken says that another control plane has this subnet.
var errTaken = errors.New("subnet is taken")

// subnet is a control plane's own /24 of loopback addresses. It is claimed by a
// listening socket, which the kernel frees with this process.
type subnet struct {
	prefix netip.Prefix
	claim  net.Listener
}

// claimSubnet takes the wanted one, or a free one between 127.64.0.0 and 127.191.255.0.
func claimSubnet(wanted netip.Prefix) (*subnet, error) {
	if wanted.IsValid() {
		return tryClaim(wanted)
	}
	for range subnetAttempts {
		base := netip.AddrFrom4([4]byte{127, byte(64 + rand.IntN(128)), byte(rand.IntN(256)), 0})
		if s, err := tryClaim(netip.PrefixFrom(base, 24)); err == nil {
			return s, nil
		}
	}
	return nil, fmt.Errorf("no loopback subnet is free after %d tries", subnetAttempts)
}

func tryClaim(p netip.Prefix) (*subnet, error) {
	if p.Bits() != 24 || !p.Addr().Is4() || !p.Addr().IsLoopback() {
		return nil, fmt.Errorf("subnet %s: want a /24 within 127.0.0.0/8", p)
	}
	s := &subnet{prefix: p.Masked()}
	l, err := net.Listen("tcp4", netip.AddrPortFrom(s.host(claimHost), claimPort).String())
	if err != nil {
		return nil, fmt.Errorf("subnet %s: %w (%w)", p, errTaken, err)
	}
	s.claim = l
	// The claim is among those who know it; others may use the ports anyway.
	for _, port := range []uint16{apiServerPort, etcdPort, etcdPeerPort} {
		l, err := net.Listen("tcp4", netip.AddrPortFrom(s.host(1), port).String())
		if err != nil {
			s.release()
			return nil, fmt.Errorf("subnet %s: %w (%w)", p, errTaken, err)
		}
		_ = l.Close()
	}
	return s, nil
}

func (s *subnet) release() { _ = s.claim.Close() }

// host is the n-th address.
func (s *subnet) host(n byte) netip.Addr {
	a := s.prefix.Addr().As4()
	a[3] = n
	return netip.AddrFrom4(a)
}
