package cloud

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"sync"
)

// Options of a cloud.
type Options struct {
	// Addresses of this host that control planes and pieces get; the first free one is taken.
	Addresses netip.Prefix
	// Port of control planes that ask for none. Default: 6443.
	Port uint16
	// File that holds what there is; "": nothing outlasts the process.
	File string
}

// ErrNotFound says that there is no such thing.
var ErrNotFound = errors.New("it is not there")

// Spec is what a control plane is made from.
type Spec struct {
	// Version of Kubernetes.
	Version string
	// Endpoint to listen at; the zero one: one of the cloud's addresses, and Options.Port.
	Endpoint netip.AddrPort
	// Names are further names and addresses that its certificate is for.
	Names []string
}

// ControlPlane is one as it is.
type ControlPlane struct {
	ID, Owner, Version string
	Endpoint           netip.AddrPort
	// CA is its authority's certificate, in PEM; Token is that of its administrator.
	CA    []byte
	Token string
	// Running: it answers.
	Running bool
}

// Piece of infrastructure.
type Piece struct {
	ID, Owner string
	Endpoint  netip.AddrPort
}

// Cloud is safe for concurrent use. Each call is repeated by whoever calls it: a thing is found by its ID, or by its owner where
// the ID isn't known.
type Cloud struct {
	options Options
	mu      sync.Mutex
	fault   func(call string) error
	state   state
	servers map[string]*server
}

// state is what the file holds.
type state struct {
	Number        int
	ControlPlanes map[string]*record
	Pieces        map[string]*Piece
}

// record is a control plane that is to run.
type record struct {
	ID, Owner, Version string
	Endpoint           netip.AddrPort
	Identity           identity
}

// New returns a cloud, which runs what its file says. Close ends it.
func New(o Options) (*Cloud, error) {
	o.Port = cmp.Or(o.Port, 6443)
	c := &Cloud{options: o, servers: map[string]*server{}, state: state{ControlPlanes: map[string]*record{}, Pieces: map[string]*Piece{}}}
	if o.File == "" {
		return c, nil
	}
	b, err := os.ReadFile(o.File)
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading what there is: %w", err)
	}
	if err := json.Unmarshal(b, &c.state); err != nil {
		return nil, fmt.Errorf("reading %s: %w; mend it, or take it away to begin with nothing", o.File, err)
	}
	for _, r := range c.state.ControlPlanes {
		if err := c.run(r); err != nil {
			c.Close()
			return nil, err
		}
	}
	return c, nil
}

// SetFault has each call ask f, by its name (ControlPlane, EnsureControlPlane, DeleteControlPlane, EnsurePiece, DeletePiece), whether it
// fails; nil: none does.
func (c *Cloud) SetFault(f func(call string) error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fault = f
}

// begin locks the cloud, unless the call fails.
func (c *Cloud) begin(ctx context.Context, call string) error {
	c.mu.Lock()
	f := c.fault
	c.mu.Unlock()
	if f != nil {
		if err := f(call); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	c.mu.Lock()
	return nil
}

func (c *Cloud) find(id, owner string) *record {
	if id != "" {
		return c.state.ControlPlanes[id]
	}
	for _, r := range c.state.ControlPlanes {
		if r.Owner == owner {
			return r
		}
	}
	return nil
}

// ControlPlane returns the one of an ID, or of an owner.
func (c *Cloud) ControlPlane(ctx context.Context, id, owner string) (ControlPlane, error) {
	if err := c.begin(ctx, "ControlPlane"); err != nil {
		return ControlPlane{}, err
	}
	defer c.mu.Unlock()
	r := c.find(id, owner)
	if r == nil {
		return ControlPlane{}, ErrNotFound
	}
	return c.seen(r), nil
}

func (c *Cloud) seen(r *record) ControlPlane {
	return ControlPlane{ID: r.ID, Owner: r.Owner, Version: r.Version, Endpoint: r.Endpoint, CA: r.Identity.CA, Token: r.Identity.Token, Running: c.servers[r.ID] != nil}
}

var versions = regexp.MustCompile(`^v[0-9]+\.[0-9]+\.[0-9]+$`)

// EnsureControlPlane makes one where the owner has none, and gives it the version. Where it listens is for good.
func (c *Cloud) EnsureControlPlane(ctx context.Context, id, owner string, s Spec) (ControlPlane, error) {
	if err := c.begin(ctx, "EnsureControlPlane"); err != nil {
		return ControlPlane{}, err
	}
	defer c.mu.Unlock()
	if !versions.MatchString(s.Version) {
		return ControlPlane{}, fmt.Errorf("version %q is none: write it as v1.37.0", s.Version)
	}
	r := c.find(id, owner)
	switch {
	case r == nil && id != "":
		return ControlPlane{}, ErrNotFound
	case r == nil:
		made, err := c.make(owner, s)
		if err != nil {
			return ControlPlane{}, err
		}
		r = made
	case r.Version == s.Version && c.servers[r.ID] != nil:
		return c.seen(r), nil
	}
	r.Version = s.Version
	if err := c.save(); err != nil {
		return ControlPlane{}, err
	}
	if server := c.servers[r.ID]; server != nil {
		server.setVersion(r.Version)
		return c.seen(r), nil
	}
	if err := c.run(r); err != nil {
		return ControlPlane{}, err
	}
	return c.seen(r), nil
}

// make notes a control plane, which doesn't run yet; c.mu is held.
func (c *Cloud) make(owner string, s Spec) (*record, error) {
	at := s.Endpoint
	if !at.Addr().IsValid() {
		a, err := c.free()
		if err != nil {
			return nil, err
		}
		at = netip.AddrPortFrom(a, c.options.Port)
	}
	c.state.Number++
	id := fmt.Sprintf("fks-%d", c.state.Number)
	who, err := newIdentity(id, append([]string{at.Addr().String()}, s.Names...))
	if err != nil {
		return nil, err
	}
	r := &record{ID: id, Owner: owner, Version: s.Version, Endpoint: at, Identity: who}
	c.state.ControlPlanes[id] = r
	return r, nil
}

// run has a control plane answer; c.mu is held, or nobody else has the cloud yet.
func (c *Cloud) run(r *record) error {
	s, err := serve(r)
	if err != nil {
		return fmt.Errorf("control plane %s: %w", r.ID, err)
	}
	c.servers[r.ID] = s
	return nil
}

// free is the first address that nothing has; c.mu is held.
func (c *Cloud) free() (netip.Addr, error) {
	used := map[netip.Addr]bool{}
	for _, r := range c.state.ControlPlanes {
		used[r.Endpoint.Addr()] = true
	}
	for _, p := range c.state.Pieces {
		used[p.Endpoint.Addr()] = true
	}
	for a := c.options.Addresses.Addr(); a.IsValid() && c.options.Addresses.Contains(a); a = a.Next() {
		if !used[a] {
			return a, nil
		}
	}
	return netip.Addr{}, fmt.Errorf("no address of %s is free: give the cloud more", c.options.Addresses)
}

// DeleteControlPlane ends one; ErrNotFound: there is none.
func (c *Cloud) DeleteControlPlane(ctx context.Context, id, owner string) error {
	if err := c.begin(ctx, "DeleteControlPlane"); err != nil {
		return err
	}
	defer c.mu.Unlock()
	r := c.find(id, owner)
	if r == nil {
		return ErrNotFound
	}
	if s := c.servers[r.ID]; s != nil {
		s.close()
		delete(c.servers, r.ID)
	}
	delete(c.state.ControlPlanes, r.ID)
	return c.save()
}

// EnsurePiece makes a piece, such as a bastion, where the owner has none.
func (c *Cloud) EnsurePiece(ctx context.Context, id, owner string) (Piece, error) {
	if err := c.begin(ctx, "EnsurePiece"); err != nil {
		return Piece{}, err
	}
	defer c.mu.Unlock()
	if p := c.piece(id, owner); p != nil {
		return *p, nil
	}
	if id != "" {
		return Piece{}, fmt.Errorf("piece %s: %w", id, ErrNotFound)
	}
	a, err := c.free()
	if err != nil {
		return Piece{}, err
	}
	c.state.Number++
	p := &Piece{ID: fmt.Sprintf("piece-%d", c.state.Number), Owner: owner, Endpoint: netip.AddrPortFrom(a, c.options.Port)}
	c.state.Pieces[p.ID] = p
	return *p, c.save()
}

func (c *Cloud) piece(id, owner string) *Piece {
	if id != "" {
		return c.state.Pieces[id]
	}
	for _, p := range c.state.Pieces {
		if p.Owner == owner {
			return p
		}
	}
	return nil
}

// DeletePiece deletes one; ErrNotFound: there is none.
func (c *Cloud) DeletePiece(ctx context.Context, id, owner string) error {
	if err := c.begin(ctx, "DeletePiece"); err != nil {
		return err
	}
	defer c.mu.Unlock()
	p := c.piece(id, owner)
	if p == nil {
		return ErrNotFound
	}
	delete(c.state.Pieces, p.ID)
	return c.save()
}

// Everything names what there is, in order, for who looks whether anything was left behind.
func (c *Cloud) Everything() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(func(yield func(string) bool) {
		for _, m := range []func(func(string) bool){maps.Keys(c.state.ControlPlanes), maps.Keys(c.state.Pieces)} {
			for id := range m {
				if !yield(id) {
					return
				}
			}
		}
	})
}

// save writes what there is; c.mu is held.
func (c *Cloud) save() error {
	if c.options.File == "" {
		return nil
	}
	b, err := json.Marshal(c.state)
	if err != nil {
		return fmt.Errorf("encoding what there is: %w", err)
	}
	next := c.options.File + ".next"
	if err := os.WriteFile(next, b, 0o600); err != nil {
		return fmt.Errorf("writing what there is: %w", err)
	}
	if err := os.Rename(next, c.options.File); err != nil {
		return fmt.Errorf("writing what there is: %w", err)
	}
	return nil
}

// Close ends all control planes; they are there again with the next cloud of the same file.
func (c *Cloud) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, s := range c.servers {
		s.close()
		delete(c.servers, id)
	}
}
