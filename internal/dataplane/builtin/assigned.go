package builtin

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"

	"fairlead.dev/fairlead/internal/dataplane/hostaddr"
	"fairlead.dev/fairlead/internal/lb"
)

// assigned puts addresses on this host for as long as frontends want them
// there: from before their listeners are opened until their last connection has ended.
type assigned struct {
	log   *slog.Logger
	owner hostaddr.Owner

	mu   sync.Mutex
	refs map[netip.Addr]int
	// ours were put by us, or by a process before this one.
	ours map[netip.Addr]bool
	// host is what was found on this host in the present Apply; nil: it was not looked.
	host map[netip.Addr]bool
	// former were wanted by the Program of a process before this one.
	former map[netip.Addr]bool
	// yielded: a successor sees to them.
	yielded bool
}

func newAssigned(log *slog.Logger) *assigned {
	return &assigned{log: log, owner: hostaddr.OwnerOf(Name), refs: map[netip.Addr]int{}, ours: map[netip.Addr]bool{}, former: map[netip.Addr]bool{}}
}

func (a *assigned) hold(at netip.Addr) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.refs[at]++
}

// release takes an address away with the last that wanted it.
func (a *assigned) release(at netip.Addr) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.refs[at]--; a.refs[at] > 0 {
		return
	}
	delete(a.refs, at)
	a.take(at)
}

// take is called with a.mu held.
func (a *assigned) take(at netip.Addr) {
	if !a.ours[at] || a.yielded {
		return
	}
	delete(a.ours, at)
	delete(a.host, at)
	if err := a.owner.Take(at); err != nil {
		a.log.Error("address can't be taken from this host", "address", at.String(), "err", err)
		return
	}
	a.log.Info("address taken from this host", "address", at.String())
}

// ensure puts an address on this host, unless it is there.
func (a *assigned) ensure(at netip.Addr) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ours[at] {
		return nil
	}
	if a.host == nil {
		var err error
		if a.host, err = a.owner.List(); err != nil {
			return err
		}
	}
	if ours, there := a.host[at]; there {
		if ours {
			a.ours[at] = true // A process before this one put it.
		}
		return nil // Else it stays when we go.
	}
	if err := a.owner.Put(at); err != nil {
		return err
	}
	a.ours[at], a.host[at] = true, true
	a.log.Info("address put on this host", "address", at.String())
	return nil
}

// remember takes in what was wanted before this process; settle takes away what of it nobody wants
// now, and forgets what the host had.
func (a *assigned) remember(at netip.Addr) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.former[at] = true
}

func (a *assigned) settle() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for at := range a.former {
		if a.refs[at] > 0 || a.yielded {
			continue
		}
		if a.host == nil {
			var err error
			if a.host, err = a.owner.List(); err != nil {
				a.log.Error("addresses that a process before this one put can't be found", "err", err)
				break
			}
		}
		if a.host[at] {
			a.ours[at] = true
			a.take(at)
		}
	}
	clear(a.former)
	a.host = nil
}

// Purge takes away the addresses that proxies with this data plane put on this host, and that one which was killed left there.
func (d *Dataplane) Purge() error {
	host, err := d.assigned.owner.List()
	if err != nil {
		return err
	}
	var errs []error
	for at, ours := range host {
		if ours {
			errs = append(errs, d.assigned.owner.Take(at))
		}
	}
	return errors.Join(errs...)
}

func (a *assigned) yield() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.yielded = true
}

// assign has f hold its address while its Program says so.
func (d *Dataplane) assign(f *frontend) {
	want := f.config.Load().Assign
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.assigned == want || f.retired {
		return
	}
	f.assigned = want
	if at := d.o.bindAddress(f.id.Address); want {
		d.assigned.hold(at)
	} else {
		d.assigned.release(at)
	}
}

// assignProblem says why a frontend's address can't be put on this host, and what to do.
func (o *Options) assignProblem(id lb.FrontendID, err error) lb.Problem {
	at := o.bindAddress(id.Address)
	if hostaddr.Forbidden(err) {
		return problem(id, "status.addresses", reasonAddressNotLocal,
			fmt.Sprintf("the proxy may not put address %s on its host; give it CAP_NET_ADMIN, or add the address there by other means", at))
	}
	return problem(id, "status.addresses", reasonAddressNotLocal,
		fmt.Sprintf("the proxy can't put address %s on its host: %v; it tries again", at, err))
}
