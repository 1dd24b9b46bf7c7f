package main

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// host is a network namespace with a thread that lives in it. The namespace
// has no name: it is gone when its last process and this program are, however they end.
type host struct {
	name string
	ns   netns.NsHandle
	net  *netlink.Handle
	work chan func()
}

// newHost makes a namespace whose sysctls are set as given.
func newHost(name string, sysctls map[string]string) (*host, error) {
	h := &host{name: name, ns: netns.None(), work: make(chan func())}
	ready := make(chan error)
	go h.live(ready)
	if err := <-ready; err != nil {
		return nil, fmt.Errorf("making the network namespace of %s (are you root?): %w", name, err)
	}
	if err := errors.Join(h.set(sysctls), h.up("lo")); err != nil {
		h.close()
		return nil, fmt.Errorf("setting up %s: %w", name, err)
	}
	return h, nil
}

// live runs work on a thread of the namespace. The thread ends with it, so that
// no other goroutine ever runs there.
func (h *host) live(ready chan<- error) {
	runtime.LockOSThread()
	err := func() (err error) {
		if h.ns, err = netns.New(); err != nil {
			return err
		}
		h.net, err = netlink.NewHandleAt(h.ns, unix.NETLINK_ROUTE)
		return err
	}()
	ready <- err
	for do := range h.work {
		do()
	}
}

// do calls f on the host's thread. What f starts lives in the namespace.
func (h *host) do(f func() error) error {
	done := make(chan error)
	h.work <- func() { done <- f() }
	return <-done
}

// set sets sysctls, by their paths below /proc/sys.
func (h *host) set(sysctls map[string]string) error {
	return h.do(func() error {
		for key, value := range sysctls {
			if err := os.WriteFile(filepath.Join("/proc/sys", key), []byte(value), 0); err != nil {
				return err
			}
		}
		return nil
	})
}

func (h *host) close() {
	if h.net != nil {
		h.net.Close()
	}
	close(h.work)
	if h.ns.IsOpen() {
		h.ns.Close()
	}
}

// connect lays a wire between two hosts; each end has the name of the host it leads to.
func connect(a, b *host, name string, atA, atB netip.Prefix) error {
	err := a.net.LinkAdd(&netlink.Veth{
		LinkAttrs:     netlink.LinkAttrs{Name: name, Namespace: netlink.NsFd(int(a.ns)), TxQLen: 1000},
		PeerName:      name,
		PeerNamespace: netlink.NsFd(int(b.ns)),
	})
	if err != nil {
		return fmt.Errorf("connecting %s and %s: %w", a.name, b.name, err)
	}
	return errors.Join(a.address(name, atA), b.address(name, atB), a.up(name), b.up(name))
}

func (h *host) up(link string) error {
	l, err := h.net.LinkByName(link)
	if err != nil {
		return fmt.Errorf("%s of %s: %w", link, h.name, err)
	}
	return h.net.LinkSetUp(l)
}

func (h *host) address(link string, p netip.Prefix) error {
	l, err := h.net.LinkByName(link)
	if err != nil {
		return fmt.Errorf("%s of %s: %w", link, h.name, err)
	}
	if err := h.net.AddrAdd(l, &netlink.Addr{IPNet: ipNet(p)}); err != nil {
		return fmt.Errorf("giving %s to %s of %s: %w", p, link, h.name, err)
	}
	return nil
}

// route sends to one of its neighbours.
func (h *host) route(to netip.Prefix, via netip.Addr) error {
	if err := h.net.RouteAdd(&netlink.Route{Dst: ipNet(to), Gw: via.AsSlice()}); err != nil {
		return fmt.Errorf("routing %s via %s on %s: %w", to, via, h.name, err)
	}
	return nil
}

// own makes all of a prefix addresses of the host itself.
func (h *host) own(p netip.Prefix) error {
	lo, err := h.net.LinkByName("lo")
	if err != nil {
		return err
	}
	err = h.net.RouteAdd(&netlink.Route{
		Dst: ipNet(p), LinkIndex: lo.Attrs().Index, Type: unix.RTN_LOCAL, Scope: unix.RT_SCOPE_HOST, Table: unix.RT_TABLE_LOCAL,
	})
	if err != nil {
		return fmt.Errorf("giving all of %s to %s: %w", p, h.name, err)
	}
	return nil
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}
