package builtin

import (
	"sync"

	"fairlead.dev/fairlead/internal/dataplane"
	"fairlead.dev/fairlead/internal/lb"
)

// leaving knows what gets no new connection and has open ones.
type leaving struct {
	changed chan struct{}

	mu        sync.Mutex
	members   map[*member]struct{}
	frontends map[*frontend]struct{}
	// served are the frontends of the Program: what of them has retired is not closing.
	served map[lb.FrontendID]struct{}
}

func newLeaving() *leaving {
	return &leaving{
		changed:   make(chan struct{}, 1),
		members:   map[*member]struct{}{},
		frontends: map[*frontend]struct{}{},
		served:    map[lb.FrontendID]struct{}{},
	}
}

func (l *leaving) notify() {
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

func (l *leaving) addMember(m *member) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.members[m] = struct{}{}
	l.notify()
}

func (l *leaving) dropMember(m *member) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.members, m)
	l.notify()
}

func (l *leaving) addFrontend(f *frontend) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.frontends[f] = struct{}{}
	l.notify()
}

func (l *leaving) dropFrontend(f *frontend) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.frontends, f)
	l.notify()
}

func (l *leaving) serve(id lb.FrontendID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.served[id] = struct{}{}
}

func (l *leaving) unserve(id lb.FrontendID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.served, id)
}

func (l *leaving) retired() []*frontend {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]*frontend, 0, len(l.frontends))
	for f := range l.frontends {
		out = append(out, f)
	}
	return out
}

func (l *leaving) observe() dataplane.Observation {
	l.mu.Lock()
	defer l.mu.Unlock()
	o := dataplane.Observation{
		Draining: map[lb.TenantID]map[lb.MemberKey]int64{},
		Closing:  map[lb.FrontendID]int64{},
	}
	for m := range l.members {
		open := m.open.Load()
		// Gone from one group and served in another is not draining: nobody asks for it in the former.
		if open == 0 || m.removed.Load() && m.target.serving.Load() > 0 {
			continue
		}
		of := o.Draining[m.target.tenant]
		if of == nil {
			of = map[lb.MemberKey]int64{}
			o.Draining[m.target.tenant] = of
		}
		of[m.target.member] += open
	}
	for f := range l.frontends {
		if _, ok := l.served[f.id]; ok {
			continue
		}
		if open := f.open.Load(); open > 0 {
			o.Closing[f.id] += open
		}
	}
	return o
}
