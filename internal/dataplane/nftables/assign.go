package nftables

import (
	"errors"
	"fmt"
	"net/netip"

	"fairlead.dev/fairlead/internal/dataplane/hostaddr"
)

// assigned are the addresses that we put on this host.
type assigned struct {
	owner hostaddr.Owner
	ours  map[netip.Addr]bool
	// look are those of which it may have to change.
	look map[netip.Addr]struct{}
}

func newAssigned(table string) assigned {
	return assigned{owner: hostaddr.OwnerOf("nftables " + table), ours: map[netip.Addr]bool{}, look: map[netip.Addr]struct{}{}}
}

// readAssigned finds what a former process put.
func (d *Dataplane) readAssigned() error {
	clear(d.assigned.ours)
	host, err := d.addresses()
	if err != nil {
		return err
	}
	for a, ours := range host {
		if ours {
			d.assigned.ours[a] = true
			d.use(a, 0, 0)
			d.assigned.look[a] = struct{}{}
		}
	}
	return nil
}

// addresses are all of the host; true: those that this table's processes put there.
func (d *Dataplane) addresses() (host map[netip.Addr]bool, err error) {
	err = d.ns.do(func() (err error) {
		host, err = d.assigned.owner.List()
		return err
	})
	return host, err
}

// assign puts addresses on this host that are wanted there and takes away those of ours that are not.
func (d *Dataplane) assign() {
	var put, take []netip.Addr
	for a := range d.assigned.look {
		v := d.vips[a]
		wanted := v != nil && v.assigners > 0
		switch {
		case wanted && !d.assigned.ours[a]:
			put = append(put, a)
		case !wanted && d.assigned.ours[a]:
			take = append(take, a)
		default:
			delete(d.assigned.look, a)
		}
	}
	if len(put)+len(take) == 0 {
		return
	}
	err := d.ns.do(func() error {
		d.put(put)
		d.take(take)
		return nil
	})
	if err != nil {
		d.log.Error("addresses of this host can't be changed", "err", err)
	}
}

// put is called on a thread in the namespace, as is take. What can't be done is tried again.
func (d *Dataplane) put(addresses []netip.Addr) {
	if len(addresses) == 0 {
		return
	}
	host, err := d.assigned.owner.List()
	for _, a := range addresses {
		if _, there := host[a]; there { // It is this host's already, by somebody else's hand: it stays when we go.
			delete(d.assigned.look, a)
			continue
		}
		failed := err
		if failed == nil {
			failed = d.assigned.owner.Put(a)
		}
		if failed != nil {
			d.refuseAddress(a, failed)
			continue
		}
		d.assigned.ours[a] = true
		delete(d.assigned.look, a)
		d.log.Info("address put on this host", "address", a.String())
	}
}

func (d *Dataplane) take(addresses []netip.Addr) {
	for _, a := range addresses {
		if err := d.assigned.owner.Take(a); err != nil {
			d.log.Error("address can't be taken away from this host", "address", a.String(), "err", err)
			continue
		}
		delete(d.assigned.ours, a)
		delete(d.assigned.look, a)
		d.log.Info("address taken away from this host", "address", a.String())
	}
}

func (d *Dataplane) unassignAll() error {
	if err := d.readAssigned(); err != nil {
		return err
	}
	return d.ns.do(func() error {
		var errs []error
		for a := range d.assigned.ours {
			if err := d.assigned.owner.Take(a); err != nil {
				errs = append(errs, err)
				continue
			}
			delete(d.assigned.ours, a)
		}
		return errors.Join(errs...)
	})
}

// refuseAddress names the frontends that wait for an address.
func (d *Dataplane) refuseAddress(a netip.Addr, err error) {
	for id, f := range d.frontends {
		if id.Address == a && f.f.Assign {
			d.refuse(id, reasonAddressNotLocal, fmt.Sprintf("%s can't be put on this host: %v; the operator of the proxies must look why", a, err))
		}
	}
}
