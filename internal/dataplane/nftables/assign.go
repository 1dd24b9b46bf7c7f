package nftables

import (
	"errors"
	"fmt"
	"net/netip"

	"fairlead.dev/fairlead/internal/dataplane/nftables/nl"
	"golang.org/x/sys/unix"
)

const (
	// ifaProto and protoFairlead: the kernel keeps beside an address who put it (`ip address` prints it).
	ifaProto      = 11
	protoFairlead = 0xfa
	headAddr      = unix.SizeofIfAddrmsg
	loopback      = 1 // The kernel gives lo the first index of each namespace.
)

// assigned are the addresses that we put on this host.
type assigned struct {
	ours map[netip.Addr]bool
	// look are those of which it may have to change.
	look map[netip.Addr]struct{}
}

func newAssigned() assigned {
	return assigned{ours: map[netip.Addr]bool{}, look: map[netip.Addr]struct{}{}}
}

// readAssigned finds what a former process put.
func (d *Dataplane) readAssigned() error {
	clear(d.assigned.ours)
	return d.eachAddress(func(a netip.Addr, ours bool) {
		if ours {
			d.assigned.ours[a] = true
			d.use(a, 0, 0)
			d.assigned.look[a] = struct{}{}
		}
	})
}

// eachAddress lists all addresses of this host.
func (d *Dataplane) eachAddress(each func(a netip.Addr, ours bool)) error {
	head := make([]byte, headAddr)
	err := d.links.Dump(unix.RTM_GETADDR, head, nil, headAddr, func(head []byte, attrs nl.Attrs) error {
		var a netip.Addr
		var local, ours bool
		for t, v := range attrs.All() {
			switch t {
			case unix.IFA_LOCAL:
				a, local = addrOf(v), true
			case unix.IFA_ADDRESS:
				if !local {
					a = addrOf(v)
				}
			case ifaProto:
				ours = len(v) == 1 && v[0] == protoFairlead
			}
		}
		if a.IsValid() {
			each(a, ours)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("listing addresses: %w", err)
	}
	return nil
}

func addrOf(b []byte) netip.Addr {
	a, _ := netip.AddrFromSlice(b)
	return a
}

// assign puts addresses on this host that are wanted there and takes away those of ours that are not.
func (d *Dataplane) assign() {
	for a := range d.assigned.look {
		v := d.vips[a]
		wanted := v != nil && v.assigners > 0
		switch {
		case wanted && !d.assigned.ours[a]:
			if err := d.assignOne(a); err != nil {
				d.refuseAddress(a, err)
				continue
			}
		case !wanted && d.assigned.ours[a]:
			if err := d.unassignOne(a); err != nil {
				d.log.Error("address can't be taken away from this host", "address", a.String(), "err", err)
				continue
			}
		}
		delete(d.assigned.look, a)
	}
}

func (d *Dataplane) assignOne(a netip.Addr) error {
	there := false
	if err := d.eachAddress(func(b netip.Addr, ours bool) { there = there || b == a && !ours }); err != nil {
		return err
	}
	if there { // It is this host's already, by somebody else's hand: it stays when we go.
		return nil
	}
	err := d.links.Do(unix.RTM_NEWADDR, unix.NLM_F_CREATE|unix.NLM_F_EXCL, addressHead(a), addressAttrs(a))
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return err
	}
	d.assigned.ours[a] = true
	d.log.Info("address put on this host", "address", a.String())
	return nil
}

func (d *Dataplane) unassignOne(a netip.Addr) error {
	err := d.links.Do(unix.RTM_DELADDR, 0, addressHead(a), addressAttrs(a))
	if err != nil && !errors.Is(err, unix.EADDRNOTAVAIL) {
		return err
	}
	delete(d.assigned.ours, a)
	d.log.Info("address taken away from this host", "address", a.String())
	return nil
}

func (d *Dataplane) unassignAll() error {
	if err := d.readAssigned(); err != nil {
		return err
	}
	var errs []error
	for a := range d.assigned.ours {
		if err := d.unassignOne(a); err != nil {
			errs = append(errs, fmt.Errorf("taking away address %s: %w", a, err))
		}
	}
	return errors.Join(errs...)
}

// refuseAddress names the frontends that wait for an address.
func (d *Dataplane) refuseAddress(a netip.Addr, err error) {
	for id, f := range d.frontends {
		if id.Address == a && f.f.Assign {
			d.refuse(id, reasonAddressNotLocal, fmt.Sprintf("%s can't be put on this host: %v; the operator of the proxies must look why", a, err))
		}
	}
}

func addressHead(a netip.Addr) []byte {
	head := make([]byte, headAddr)
	head[0], head[1] = unix.AF_INET, byte(a.BitLen())
	if !a.Is4() {
		head[0], head[2] = unix.AF_INET6, unix.IFA_F_NODAD
	}
	head[4] = loopback
	return head
}

func addressAttrs(a netip.Addr) (out nl.Attrs) {
	out.Bytes(unix.IFA_LOCAL, a.AsSlice())
	out.Bytes(unix.IFA_ADDRESS, a.AsSlice())
	out.U8(ifaProto, protoFairlead)
	if !a.Is4() {
		// Valid for ever, preferred never: this host must not speak from it by itself.
		forever := u32le(1<<32 - 1)
		out.Bytes(unix.IFA_CACHEINFO, append(append(u32le(0), forever...), make([]byte, 8)...))
	}
	return out
}
