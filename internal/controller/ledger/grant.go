package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/ipam"
	"fairlead.dev/fairlead/internal/proof"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Grant is what a LoadBalancer has of the ledger.
type Grant struct {
	// Held are the entries that are granted and written, the primary family's first.
	Held []ipam.Entry
	// Version of the newest of them.
	Version proof.Version
	// Short says that a family is missing that it can't do without.
	Short bool
	// Fresh says that this call wrote one.
	Fresh bool
	// Reason and Message say what it waits for or, with Held, which wish is not fulfilled.
	Reason, Message string
}

// Addresses are those of the entries, each once: the unspecified one of a family is that of hosts.
func (g *Grant) Addresses() []string {
	out := make([]string, 0, len(g.Held))
	for _, e := range g.Held {
		if a := e.Address.String(); !slices.Contains(out, a) {
			out = append(out, a)
		}
	}
	return out
}

// attempts bounds how often one call decides anew because somebody else was first.
const attempts = 64

// errBusy asks for another try.
var errBusy = errors.New("the ledger changed under every attempt")

// Grant gives a LoadBalancer what it needs, or notes it as a waiter. What is
// returned as Held is written. With an error, nothing is known: try again.
func (k *Keeper) Grant(ctx context.Context, n ipam.Needs) (Grant, error) {
	fresh := false
	for range attempts {
		k.mu.Lock()
		k.serve() // who waits comes first
		k.freeze()
		d := k.decide(n)
		delete(k.lacking, n.Ref)
		if d.Waits() {
			k.waiters[n.Ref] = waiter{n, d.Reason, d.Message}
			k.unlock()
			return Grant{Reason: d.Reason, Message: d.Message}, nil
		}
		delete(k.waiters, n.Ref)
		k.reserve(d, n.Ref)
		if d.Reason != "" {
			k.lacking[n.Ref] = waiter{n, d.Reason, d.Message}
		}
		open := k.owed(n.Ref)
		g, written := Grant{Short: d.Short, Reason: d.Reason, Message: d.Message}, true
		for _, s := range d.Steps {
			g.Held = append(g.Held, s.Entry)
			if r := k.objects[s.Entry.Name]; r != nil {
				g.Version = max(g.Version, r.version)
			} else {
				written = false
			}
			if _, ok := k.unwritten[s.Entry.Name]; ok && !slices.Contains(open, s.Entry.Name) {
				open = append(open, s.Entry.Name) // another LoadBalancer on the same address is about to write it
			}
		}
		k.unlock()

		for _, name := range open {
			wrote, err := k.write(ctx, name)
			if err != nil {
				return Grant{}, err
			}
			fresh = fresh || wrote && slices.ContainsFunc(d.Steps, func(s ipam.Step) bool { return s.Entry.Name == name })
		}
		if len(open) > 0 {
			continue // look again: somebody else may have been first
		}
		for _, e := range d.Surplus {
			if err := k.GiveUp(ctx, e.Name, n.Ref); err != nil {
				return Grant{}, err
			}
		}
		if written {
			g.Fresh = fresh
			return g, nil
		}
	}
	return Grant{}, fmt.Errorf("granting an address to %s: %w", n.Ref, errBusy)
}

// decide is ipam's decision. On an address that may be shared across namespaces whoever wants
// more ports waits until every proxy has applied what others gave up there.
func (k *Keeper) decide(n ipam.Needs) ipam.Decision {
	return k.ledger.Decide(n, func(e ipam.Entry) bool {
		_, open := k.unwritten[e.Name] // what is given up in memory only nobody can have applied
		if r := k.objects[e.Name]; r != nil && !open && k.Settled(e.ProxyPool, r.version) {
			return true
		}
		k.unsettled = true
		return false
	})
}

// Release gives up what a LoadBalancer holds. When it returns nil, that is written.
func (k *Keeper) Release(ctx context.Context, ref ipam.Ref) error {
	k.mu.Lock()
	delete(k.waiters, ref)
	delete(k.lacking, ref)
	names := k.owed(ref)
	for _, e := range k.ledger.HeldBy(ref) {
		if !slices.Contains(names, e.Name) {
			names = append(names, e.Name)
		}
	}
	k.unlock()
	for _, name := range names {
		if err := k.GiveUp(ctx, name, ref); err != nil {
			return err
		}
	}
	return nil
}

// Move makes the Addresses that a LoadBalancer holds alone Moved: it takes them along to another hub, and nobody gets them
// here before a person deletes them. It names them. When it returns nil, that is written.
func (k *Keeper) Move(ctx context.Context, ref ipam.Ref) (moved []string, err error) {
	for range attempts {
		k.mu.Lock()
		open := k.owed(ref)
		moved = nil
		for _, e := range k.ledger.HeldBy(ref) {
			switch {
			case e.Phase == ipam.Granted && len(e.Holders) == 1:
				e.Phase = ipam.Moved
				k.put(e)
				k.owe(e.Name, ref)
				open = append(open, e.Name)
			case e.Phase == ipam.Moved:
				moved = append(moved, e.Name)
			}
		}
		k.unlock()
		if len(open) == 0 {
			return moved, nil
		}
		for _, name := range open {
			if _, err := k.write(ctx, name); err != nil {
				return nil, err
			}
		}
	}
	return nil, fmt.Errorf("moving the addresses of %s: %w", ref, errBusy)
}

// GiveUp takes a LoadBalancer off an Address: Releasing if nobody else holds it.
func (k *Keeper) GiveUp(ctx context.Context, name string, ref ipam.Ref) error {
	for range attempts {
		k.mu.Lock()
		e, ok := k.ledger.Get(name)
		_, holds := e.Holder(ref)
		if !ok || !holds || e.Phase != ipam.Granted {
			_, open := k.unwritten[name]
			k.unlock()
			if !open {
				return nil
			}
		} else {
			if len(e.Holders) > 1 {
				e = e.Without(ref)
			} else {
				e.Phase = ipam.Releasing
			}
			k.put(e)
			k.owe(name, ref)
			k.unlock()
		}
		if _, err := k.write(ctx, name); err != nil {
			return err
		}
	}
	return fmt.Errorf("releasing %s of %s: %w", name, ref, errBusy)
}

// write brings an Address to what the ledger says. Where the API server knows
// better, the ledger takes that instead. It returns whether it wrote.
func (k *Keeper) write(ctx context.Context, name string) (bool, error) {
	lock := k.stripe(name)
	lock.Lock()
	defer lock.Unlock()

	k.mu.Lock()
	e, known := k.ledger.Get(name)
	_, open := k.unwritten[name]
	r, claims := k.objects[name], k.adopted[name]
	k.mu.Unlock()
	if !known || !open {
		return false, nil
	}
	var written *v1alpha1.Address
	var err error
	switch {
	case r != nil:
		written = r.object.DeepCopy()
		written.Spec = toSpec(e, written.Spec.ReleasingSince)
		if e.Phase == ipam.Releasing {
			unnote(written)
		}
		if len(claims) > 0 {
			noteAdopted(written, claims)
		}
		err = k.Client.Update(ctx, written)
	case e.Phase == ipam.Granted:
		written = &v1alpha1.Address{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: toSpec(e, nil)}
		if len(claims) > 0 {
			noteAdopted(written, claims)
		}
		err = k.Client.Create(ctx, written)
	default:
		// It was never seen to be written: ask.
		return false, k.refresh(ctx, name)
	}
	switch {
	case err == nil:
		written.ManagedFields = nil
		k.mu.Lock()
		k.observe(written)
		if r := k.objects[name]; r != nil && r.object.ResourceVersion == written.ResourceVersion {
			k.adopt(r.object) // a write that changed nothing has no version of its own
		}
		k.unlock()
		return true, nil
	case apierrors.IsAlreadyExists(err), apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return false, k.refresh(ctx, name)
	case apierrors.IsInvalid(err):
		// It can't be written as it is, now or later.
		if refreshed := k.refresh(ctx, name); refreshed != nil {
			return false, refreshed
		}
		return false, fmt.Errorf("writing address %s: %w", name, err)
	}
	return false, fmt.Errorf("writing address %s: %w", name, err)
}

// Confirmed names the Addresses of a LoadBalancer that is gone without having been released: whoever looks after them decides. What
// may not be written, of a grant or of what proxies were seen to serve, counts as the API server says.
func (k *Keeper) Confirmed(ctx context.Context, ref ipam.Ref) ([]string, error) {
	for _, e := range k.HeldBy(ref) {
		if err := k.confirm(ctx, e.Name, ref); err != nil {
			return nil, err
		}
	}
	var out []string
	for _, e := range k.HeldBy(ref) {
		out = append(out, e.Name)
	}
	return out, nil
}

// confirm asks the API server about an entry of a LoadBalancer that may not be written, unless somebody writes it meanwhile. It may have
// been freed since, and be promised to another, who is about to write it.
func (k *Keeper) confirm(ctx context.Context, name string, ref ipam.Ref) error {
	lock := k.stripe(name)
	lock.Lock()
	defer lock.Unlock()
	k.mu.Lock()
	_, open := k.unwritten[name]
	e, _ := k.ledger.Get(name)
	k.mu.Unlock()
	if _, holds := e.Holder(ref); !open || !holds {
		return nil
	}
	return k.refresh(ctx, name)
}

// refresh takes the API server's word on an Address.
func (k *Keeper) refresh(ctx context.Context, name string) error {
	a, err := k.get(ctx, name)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading address %s: %w", name, err)
	}
	k.mu.Lock()
	if err != nil {
		k.lose(name)
	} else {
		delete(k.buried, a.UID) // it lives
		k.observe(a)
		if r := k.objects[name]; r != nil {
			k.adopt(r.object) // what was reserved beside it is void
		}
	}
	k.unlock()
	return nil
}

// Free deletes an Address that everybody has let go of.
func (k *Keeper) Free(ctx context.Context, a *v1alpha1.Address) error {
	lock := k.stripe(a.Name)
	lock.Lock()
	defer lock.Unlock()
	err := k.Client.Delete(ctx, a, client.Preconditions{UID: &a.UID, ResourceVersion: &a.ResourceVersion})
	switch {
	case err == nil, apierrors.IsNotFound(err):
		k.mu.Lock()
		if r := k.objects[a.Name]; r != nil && r.object.UID == a.UID {
			k.buried[a.UID] = struct{}{}
			k.lose(a.Name)
		}
		k.unlock()
		return nil
	case apierrors.IsConflict(err):
		return k.refresh(ctx, a.Name)
	}
	return fmt.Errorf("freeing address %s: %w", a.Name, err)
}
