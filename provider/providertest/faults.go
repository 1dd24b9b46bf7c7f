package providertest

import (
	"context"
	"sync"

	"fairlead.dev/fairlead/provider"
)

// fault is asked before a call of a provider, by the method's name; an error is the call's.
type fault func(ctx context.Context, method string) error

// faulty is a provider between the controller and the real one, which counts and fails as a story says, for each owner by itself.
type faulty struct {
	provider.Provider
	mu     sync.Mutex
	owners map[string]*owner
}

type owner struct {
	calls map[string]int
	fault fault
	// lose has the next result of Ensure be lost, and lost is its ID.
	lose bool
	lost string
	// open has each member that drains be told to have an open connection.
	open bool
	// wanted is what Ensure got last.
	wanted provider.Wanted
	// first is what Ensure got first.
	first *provider.Wanted
	// last is what Delete got last.
	last provider.Credentials
}

func (f *faulty) of(name string) *owner {
	if f.owners[name] == nil {
		f.owners[name] = &owner{calls: map[string]int{}}
	}
	return f.owners[name]
}

// set has calls for an owner ask a fault; nil: none any more.
func (f *faulty) set(name string, how fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.of(name).fault = how
}

// read calls look with what is known of an owner.
func (f *faulty) read(name string, look func(*owner)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	look(f.of(name))
}

func (f *faulty) count(name, method string) int {
	n := 0
	f.read(name, func(o *owner) { n = o.calls[method] })
	return n
}

func (f *faulty) before(ctx context.Context, name, method string) error {
	var how fault
	f.read(name, func(o *owner) {
		o.calls[method]++
		how = o.fault
	})
	if how == nil {
		return nil
	}
	return how(ctx, method)
}

func (f *faulty) Describe(ctx context.Context, ref provider.Ref) (provider.State, error) {
	if err := f.before(ctx, ref.Owner, "Describe"); err != nil {
		return provider.State{}, err
	}
	s, err := f.Provider.Describe(ctx, ref)
	f.read(ref.Owner, func(o *owner) {
		for i := range s.Members {
			if one := int64(1); o.open && s.Members[i].Health == provider.MemberDraining {
				s.Members[i].Connections = &one
			}
		}
	})
	return s, err
}

func (f *faulty) Ensure(ctx context.Context, w provider.Wanted) (provider.State, error) {
	f.read(w.Owner, func(o *owner) {
		o.wanted = w
		if o.first == nil {
			o.first = &w
		}
	})
	if err := f.before(ctx, w.Owner, "Ensure"); err != nil {
		return provider.State{}, err
	}
	s, err := f.Provider.Ensure(ctx, w)
	f.read(w.Owner, func(o *owner) {
		if err == nil && o.lose {
			o.lose, o.lost = false, s.ID
			s, err = provider.State{}, context.Canceled
		}
	})
	return s, err
}

func (f *faulty) SetMembers(ctx context.Context, ref provider.Ref, members []provider.Member) error {
	if err := f.before(ctx, ref.Owner, "SetMembers"); err != nil {
		return err
	}
	return f.Provider.SetMembers(ctx, ref, members)
}

func (f *faulty) Delete(ctx context.Context, ref provider.Ref) error {
	f.read(ref.Owner, func(o *owner) { o.last = ref.Credentials })
	if err := f.before(ctx, ref.Owner, "Delete"); err != nil {
		return err
	}
	return f.Provider.Delete(ctx, ref)
}
