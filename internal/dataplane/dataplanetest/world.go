package dataplanetest

import (
	"fmt"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/testkit/netns"
)

// patience bounds every wait for something that must come.
const patience = 20 * time.Second

// world is the network of one flow:
//
//	client ──┐                 ┌── member 1
//	         ├── front   back ─┼── member 2
//	         │     │       │   └── …
//	         │     └─ lb1 ─┤
//	         │     └─ lb2 ─┘
//
// front and back are switches. The addresses that are served are routed to a
// load balancer's front; members have lb1 as their way to everywhere.
type world struct {
	*testing.T
	factory Factory
	net     *netns.Network
	client  *netns.Namespace
	fabric  *netns.Namespace
	hosts   []*host
	members map[int]*member
}

// host is a load balancer's namespace. Processes on it come and go.
type host struct {
	ns     *netns.Namespace
	number int
}

const (
	clientAddress  = "10.1.0.2"
	clientAddress6 = "fd01::2"
	// manyClients are the client's too, each of them.
	manyClients, manyClients6 = "10.2.0.0/16", "fd02::/64"
	vips, vips6               = "10.80.0.0/24", "fd80::/64"
	// assignedVIP is the number of the addresses that no host has; all below are on a Local host.
	assignedVIP = 9
)

// backAddress is what members see of a load balancer that doesn't show them the client.
func (h *host) backAddress() string  { return fmt.Sprintf("10.3.0.%d", h.number) }
func (h *host) frontAddress() string { return fmt.Sprintf("10.1.0.1%d", h.number) }

func memberAddress(n int) string  { return fmt.Sprintf("10.3.0.%d", 100+n) }
func memberAddress6(n int) string { return fmt.Sprintf("fd03::1:%d", n) }

func newWorld(t *testing.T, f Factory) *world {
	t.Helper()
	w := &world{T: t, factory: f, net: netns.New(), members: map[int]*member{}}
	t.Cleanup(w.net.Close)
	w.fabric, w.client = w.net.Namespace("fabric"), w.net.Namespace("client")
	w.fabric.Bridge("front")
	w.fabric.Bridge("back")
	w.fabric.Link("client", w.client, "eth0")
	w.fabric.Plug("front", "client")
	w.client.Address("eth0", clientAddress+"/24", clientAddress6+"/64")
	w.client.Set("ipv6/ip_nonlocal_bind", "1")
	w.client.Local(manyClients)
	w.client.Local(manyClients6)
	w.must(w.net.Err())
	w.host()
	w.via(w.hosts[0])
	return w
}

// host adds a load balancer's host.
func (w *world) host() *host {
	w.Helper()
	n := len(w.hosts) + 1
	name := fmt.Sprintf("lb%d", n)
	h := &host{ns: w.net.Namespace(name), number: n}
	for _, side := range []string{"front", "back"} {
		w.fabric.Link(name+side, h.ns, side)
		w.fabric.Plug(side, name+side)
	}
	h.ns.Set("ipv4/ip_forward", "1")
	h.ns.Set("ipv6/conf/all/forwarding", "1")
	h.ns.Address("front", h.frontAddress()+"/24", fmt.Sprintf("fd01::1%d/64", n))
	h.ns.Address("back", h.backAddress()+"/24", fmt.Sprintf("fd03::%d/64", n))
	h.ns.Route(manyClients, clientAddress)
	h.ns.Route(manyClients6, clientAddress6)
	if w.factory.Addresses == Local {
		for n := 1; n < assignedVIP; n++ {
			h.ns.Address("lo", vip(n, 0).Addr().String()+"/32", vip6(n, 0).Addr().String()+"/128")
		}
	}
	w.must(w.net.Err())
	w.hosts = append(w.hosts, h)
	return h
}

// via sends the client's traffic by another host, as a router does when one is lost.
func (w *world) via(h *host) {
	w.Helper()
	w.client.Route(vips, h.frontAddress())
	w.client.Route(vips6, fmt.Sprintf("fd01::1%d", h.number))
	w.must(w.net.Err())
}

// serve starts members 1 to n and a first process on the first host, which serves the services.
func (w *world) serve(n int, services ...service) *proxy {
	w.Helper()
	for i := 1; i <= n; i++ {
		w.member(i)
	}
	p := w.start(w.hosts[0])
	p.recover(nil)
	p.apply(services...)
	return p
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// until waits until ok says so.
func (w *world) until(what string, ok func() bool) {
	w.Helper()
	if !wait(patience, ok) {
		w.Fatalf("waited in vain: %s", what)
	}
}

// wait asks ok again and again, for as long as that; it says whether ok said so.
func wait(most time.Duration, ok func() bool) bool {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(most); ; <-tick.C {
		if ok() {
			return true
		}
		if time.Now().After(deadline) {
			return false
		}
	}
}
