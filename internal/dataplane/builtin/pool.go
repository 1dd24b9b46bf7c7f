package builtin

import (
	"sync"
	"sync/atomic"

	"fairlead.dev/fairlead/internal/lb"
)

type poolKey struct {
	tenant lb.TenantID
	id     lb.PoolID
}

// pool is one lb.Pool. Its group and port never change: another one takes its place.
type pool struct {
	poolKey
	config atomic.Pointer[poolConfig]
	// frontends that send to it; under Dataplane.mu.
	frontends map[*frontend]struct{}
}

type poolConfig struct {
	*lb.Pool
	table *table
}

// table is an lb.Table that follows its group and health.
type table struct {
	key   lb.TableKey
	group *group
	state atomic.Pointer[tableState]
	// refs counts the pools; under Dataplane.mu.
	refs int
}

// tableState is a table as it stands; it is built by the first who looks.
type tableState struct {
	view   *groupView
	pool   *lb.Pool
	health lb.Health
	size   int

	once    sync.Once
	table   *lb.Table
	members []*member
}

func (s *tableState) built() *tableState {
	s.once.Do(func() {
		eligible := lb.Eligible(s.view.Group, s.pool, s.health)
		s.table = s.pool.Hash.NewTable(eligible, s.size)
		s.members = make([]*member, len(eligible))
		at := 0
		for i := range eligible { // in the group's order
			for s.view.Members[at].Key() != eligible[i].Key() {
				at++
			}
			s.members[i] = s.view.members[at]
		}
	})
	return s
}

// refresh publishes t anew, from its group's view and the present health.
func (d *Dataplane) refresh(t *table) {
	t.state.Store(&tableState{
		view:   t.group.view,
		pool:   &lb.Pool{Group: t.key.Group, Check: t.key.Check, FailOpen: t.key.FailOpen, Hash: t.key.Hash, Zone: t.key.Zone},
		health: d.health,
		size:   d.o.TableSize,
	})
}

// table is the one of p, with one reference more.
func (d *Dataplane) table(tenant lb.TenantID, p *lb.Pool) *table {
	key := p.Key(tenant)
	t := d.tables[key]
	if t == nil {
		g := d.group(groupKey{tenant, p.Group})
		t = &table{key: key, group: g}
		d.tables[key] = t
		g.tables[t] = struct{}{}
		if d.byCheck[key.Check] == nil {
			d.byCheck[key.Check] = map[*table]struct{}{}
		}
		d.byCheck[key.Check][t] = struct{}{}
		d.refresh(t)
	}
	t.refs++
	return t
}

func (d *Dataplane) dropTable(t *table) {
	if t.refs--; t.refs > 0 {
		return
	}
	delete(d.tables, t.key)
	delete(t.group.tables, t)
	of := d.byCheck[t.key.Check]
	if delete(of, t); len(of) == 0 {
		delete(d.byCheck, t.key.Check)
	}
}
