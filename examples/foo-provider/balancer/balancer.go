// Package balancer is the Foo cloud: load balancers for TCP that really carry connections, in this process. What they are
// told takes a while to apply, as in a real cloud, and each call can be made to fail.
package balancer

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"time"
)

// Options of a cloud.
type Options struct {
	// Addresses that load balancers get, where they ask for none; the first free one is taken.
	Addresses netip.Prefix
	// ApplyDelay is how long members take to be as they were told. It may be changed by SetApplyDelay.
	ApplyDelay time.Duration
	// CheckEvery is the time between two checks of a member. Default: 500 ms.
	CheckEvery time.Duration
}

// Spec is what a load balancer is made from.
type Spec struct {
	// Address to listen at; the zero one: one of the cloud's.
	Address netip.Addr
	Ports   []Port
	// MaxConnections that may be open at once; 0: any number.
	MaxConnections int64
}

// Port is one that a load balancer listens at, and the members'.
type Port struct{ Port, Target uint16 }

// Member is a host that connections go to.
type Member struct {
	Address string
	// Draining: it gets no new connection. One that isn't there any more loses those that it has.
	Draining bool
}

// Seen is a member as it is.
type Seen struct {
	Address string
	// Applied: it is in use as a member, serving or draining. Else that is to come.
	Applied, Draining, Healthy bool
	Connections                int64
}

// Info is a load balancer as it is.
type Info struct {
	ID, Owner string
	Spec      Spec
	Members   []Seen
}

// ErrNotFound says that there is no such load balancer.
var ErrNotFound = errors.New("no such load balancer")

// Cloud holds load balancers. It is safe for concurrent use.
type Cloud struct {
	options Options
	mu      sync.Mutex
	delay   time.Duration
	faults  map[string]Fault
	// changed is closed when the faults are set anew.
	changed chan struct{}
	all     map[string]*loadBalancer
	number  int
}

// New returns a cloud without load balancers. Close ends it.
func New(o Options) *Cloud {
	if o.CheckEvery == 0 {
		o.CheckEvery = 500 * time.Millisecond
	}
	return &Cloud{options: o, delay: o.ApplyDelay, all: map[string]*loadBalancer{}, changed: make(chan struct{})}
}

// SetApplyDelay says how long the next changes of members take.
func (c *Cloud) SetApplyDelay(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.delay = d
}

// find is the one of an ID, or of an owner if that is empty; c.mu is held.
func (c *Cloud) find(id, owner string) *loadBalancer {
	if id != "" {
		return c.all[id]
	}
	for _, l := range c.all {
		if owner != "" && l.owner == owner {
			return l
		}
	}
	return nil
}

// Get returns a load balancer by its ID, or that of an owner if the ID is empty.
func (c *Cloud) Get(id, owner string) (Info, error) {
	f, err := c.failing("Get")
	if err != nil {
		return Info{}, err
	}
	if f == Forgets {
		return Info{}, ErrNotFound
	}
	c.mu.Lock()
	l := c.find(id, owner)
	c.mu.Unlock()
	if l == nil {
		return Info{}, ErrNotFound
	}
	return l.info(), nil
}

// Ensure makes the load balancer of an ID or owner be as the spec says; without an ID it makes one where the owner has none.
func (c *Cloud) Ensure(id, owner string, s Spec) (Info, error) {
	f, err := c.failing("Ensure")
	if err != nil {
		return Info{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.find(id, owner)
	if f == Forgets && l != nil {
		return l.info(), nil
	}
	if l == nil && id != "" {
		return Info{}, ErrNotFound
	}
	if l == nil {
		made, err := c.make(owner, s)
		if err != nil {
			return Info{}, err
		}
		l = made
	}
	if !s.Address.IsValid() {
		s.Address = l.info().Spec.Address
	}
	if err := l.listen(s); err != nil {
		return Info{}, err
	}
	if f == Halves {
		return Info{}, errHalf
	}
	return l.info(), nil
}

// make adds a load balancer that listens; c.mu is held.
func (c *Cloud) make(owner string, s Spec) (*loadBalancer, error) {
	l := newLoadBalancer(fmt.Sprintf("foo-%d", c.number+1), owner, c.options.CheckEvery)
	if err := c.place(l, s); err != nil {
		l.close()
		return nil, err
	}
	c.number++
	c.all[l.id] = l
	return l, nil
}

// place has a new load balancer listen, at the address that it asks for or the first one that is free.
func (c *Cloud) place(l *loadBalancer, s Spec) error {
	if s.Address.IsValid() {
		return l.listen(s)
	}
	var last error
	for a := c.options.Addresses.Addr(); a.IsValid() && c.options.Addresses.Contains(a); a = a.Next() {
		s.Address = a
		if last = l.listen(s); last == nil {
			return nil
		}
	}
	return fmt.Errorf("no address of %s is free: %w", c.options.Addresses, last)
}

// SetMembers has the members be those, some time later.
func (c *Cloud) SetMembers(id string, members []Member) error {
	f, err := c.failing("SetMembers")
	if err != nil {
		return err
	}
	c.mu.Lock()
	l, delay := c.all[id], c.delay
	c.mu.Unlock()
	if l == nil {
		return ErrNotFound
	}
	switch f {
	case Forgets:
		return nil
	case Halves:
		l.setMembers(l.half(members), delay)
		return errHalf
	}
	l.setMembers(members, delay)
	return nil
}

// Delete ends a load balancer and its connections.
func (c *Cloud) Delete(id, owner string) error {
	f, err := c.failing("Delete")
	if err != nil || f == Forgets {
		return err
	}
	c.mu.Lock()
	l := c.find(id, owner)
	if l != nil {
		delete(c.all, l.id)
	}
	c.mu.Unlock()
	if l == nil {
		return ErrNotFound
	}
	l.close()
	if f == Halves {
		return errHalf
	}
	return nil
}

// Close ends all load balancers.
func (c *Cloud) Close() {
	c.mu.Lock()
	all := c.all
	c.all = map[string]*loadBalancer{}
	c.mu.Unlock()
	for _, l := range all {
		l.close()
	}
}

func hostPort(address string, port uint16) string {
	return net.JoinHostPort(address, strconv.Itoa(int(port)))
}
