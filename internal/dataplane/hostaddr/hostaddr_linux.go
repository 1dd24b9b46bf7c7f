package hostaddr

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"net/netip"
	"syscall"

	"fairlead.dev/fairlead/internal/dataplane/nl"
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
	c, err := nl.Dial(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	for range 5 { // It changes meanwhile.
		var out map[netip.Addr]bool
		if out, err = o.list(c); !errors.Is(err, nl.ErrInterrupted) {
			return out, err
		}
	}
	return nil, err
}

func (o Owner) list(c *nl.Conn) (map[netip.Addr]bool, error) {
	out := map[netip.Addr]bool{}
	err := c.Dump(unix.RTM_GETADDR, make([]byte, unix.SizeofIfAddrmsg), nil, unix.SizeofIfAddrmsg, func(_ []byte, attrs nl.Attrs) error {
		local, address := netip.Addr{}, netip.Addr{}
		fairlead, owner := false, Owner(0)
		for t, v := range attrs.All() {
			switch t {
			case unix.IFA_LOCAL:
				local, _ = netip.AddrFromSlice(v)
			case unix.IFA_ADDRESS:
				address, _ = netip.AddrFromSlice(v)
			case ifaProto:
				fairlead = len(v) == 1 && v[0] == protoFairlead
			case ifaMetric:
				if len(v) == 4 {
					owner = Owner(binary.NativeEndian.Uint32(v))
				}
			}
		}
		if local.IsValid() { // Of a point-to-point link IFA_ADDRESS is the other end.
			address = local
		}
		out[address] = out[address] || fairlead && owner == o
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("listing addresses: %w", err)
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

func (o Owner) change(what, flags uint16, a netip.Addr) error {
	c, err := nl.Dial(unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer c.Close()
	head := make([]byte, unix.SizeofIfAddrmsg) // family, prefix length, flags, scope, index of the interface
	head[0], head[1] = unix.AF_INET, byte(a.BitLen())
	if !a.Is4() {
		head[0], head[2] = unix.AF_INET6, unix.IFA_F_NODAD // lo has no neighbours who could have it
	}
	binary.NativeEndian.PutUint32(head[4:], loopback)
	var attrs nl.Attrs
	attrs.Bytes(unix.IFA_LOCAL, a.AsSlice())
	attrs.Bytes(unix.IFA_ADDRESS, a.AsSlice())
	attrs.U8(ifaProto, protoFairlead)
	attrs.Bytes(ifaMetric, binary.NativeEndian.AppendUint32(nil, uint32(o)))
	if !a.Is4() {
		// Preferred never, valid for ever: this host must not speak from it by itself.
		forever := make([]byte, 16)
		binary.NativeEndian.PutUint32(forever[4:], 1<<32-1)
		attrs.Bytes(unix.IFA_CACHEINFO, forever)
	}
	return c.Do(what, flags, head, attrs)
}

// Forbidden says that this process lacks the right to change addresses.
func Forbidden(err error) bool {
	return errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EACCES)
}
