package hostaddr

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"net/netip"
	"syscall"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

const (
	// ifaProto names who put an address, protoFairlead us; ifaMetric has the Owner.
	ifaProto      = 11
	protoFairlead = 0xfa
	ifaMetric     = unix.IFA_RT_PRIORITY
	// loopback: the kernel gives lo the first index of each network namespace.
	loopback = 1
)

// Owner is who puts addresses on a host. It works in the network namespace of the calling thread.
type Owner uint32

// OwnerOf is the owner of a name. It is the same for each process that says the same name.
func OwnerOf(name string) Owner {
	h := fnv.New32a()
	h.Write([]byte(name))
	return Owner(max(h.Sum32(), 1)) // The kernel does not keep 0.
}

// List returns the addresses of this host's interfaces; true: of those that o put.
func (o Owner) List() (map[netip.Addr]bool, error) {
	req := nl.NewNetlinkRequest(unix.RTM_GETADDR, unix.NLM_F_DUMP)
	req.AddData(nl.NewIfAddrmsg(unix.AF_UNSPEC))
	messages, err := req.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWADDR)
	if err != nil {
		return nil, fmt.Errorf("listing addresses: %w", err)
	}
	out := make(map[netip.Addr]bool, len(messages))
	for _, m := range messages {
		attrs, err := nl.ParseRouteAttr(m[nl.DeserializeIfAddrmsg(m).Len():])
		if err != nil {
			return nil, fmt.Errorf("listing addresses: %w", err)
		}
		local, address := netip.Addr{}, netip.Addr{}
		fairlead, owner := false, Owner(0)
		for _, a := range attrs {
			switch a.Attr.Type {
			case unix.IFA_LOCAL:
				local, _ = netip.AddrFromSlice(a.Value)
			case unix.IFA_ADDRESS:
				address, _ = netip.AddrFromSlice(a.Value)
			case ifaProto:
				fairlead = len(a.Value) == 1 && a.Value[0] == protoFairlead
			case ifaMetric:
				if len(a.Value) == 4 {
					owner = Owner(binary.NativeEndian.Uint32(a.Value))
				}
			}
		}
		if local.IsValid() { // Of a point-to-point link IFA_ADDRESS is the other end.
			address = local
		}
		out[address] = out[address] || fairlead && owner == o
	}
	return out, nil
}

// Put adds an address to lo. One that is there already is no error.
func (o Owner) Put(a netip.Addr) error {
	if err := o.change(unix.RTM_NEWADDR, unix.NLM_F_CREATE|unix.NLM_F_EXCL, a); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("putting address %s on lo: %w", a, err)
	}
	return nil
}

// Take removes an address from lo. One that is not there is no error.
func (o Owner) Take(a netip.Addr) error {
	if err := o.change(unix.RTM_DELADDR, 0, a); err != nil && !errors.Is(err, unix.EADDRNOTAVAIL) {
		return fmt.Errorf("taking address %s from lo: %w", a, err)
	}
	return nil
}

func (o Owner) change(what, flags int, a netip.Addr) error {
	family := unix.AF_INET
	if !a.Is4() {
		family = unix.AF_INET6
	}
	req := nl.NewNetlinkRequest(what, flags|unix.NLM_F_ACK)
	head := nl.NewIfAddrmsg(family)
	head.Prefixlen, head.Index = uint8(a.BitLen()), loopback
	if !a.Is4() {
		head.IfAddrmsg.Flags = unix.IFA_F_NODAD // lo has no neighbours who could have it
	}
	req.AddData(head)
	req.AddData(nl.NewRtAttr(unix.IFA_LOCAL, a.AsSlice()))
	req.AddData(nl.NewRtAttr(unix.IFA_ADDRESS, a.AsSlice()))
	req.AddData(nl.NewRtAttr(ifaProto, []byte{protoFairlead}))
	req.AddData(nl.NewRtAttr(int(ifaMetric), binary.NativeEndian.AppendUint32(nil, uint32(o))))
	if !a.Is4() {
		// Preferred never, valid for ever: this host must not speak from it by itself.
		forever := make([]byte, 16)
		binary.NativeEndian.PutUint32(forever[4:], 1<<32-1)
		req.AddData(nl.NewRtAttr(unix.IFA_CACHEINFO, forever))
	}
	_, err := req.Execute(unix.NETLINK_ROUTE, 0)
	return err
}

// Forbidden says that this process lacks the right to change addresses.
func Forbidden(err error) bool {
	return errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EACCES)
}
