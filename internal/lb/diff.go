package lb

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// Diff says what is to be done to serve next where old is served. Either may
// be nil, which serves nothing. What both share by pointer is not looked into,
// so that the cost follows what changed. Problems are not served: they are not
// compared.
func Diff(old, next *Program) Changes {
	var c Changes
	if old == next {
		return c
	}
	if old == nil {
		old = &Program{}
	}
	if next == nil {
		next = &Program{}
	}
	c.Listeners = diffListeners(old.Listeners, next.Listeners)
	for id, n := range next.Tenants {
		if o := old.Tenants[id]; o != n {
			c.addSnapshot(id, o, n)
		}
	}
	for id, o := range old.Tenants {
		if _, ok := next.Tenants[id]; !ok {
			c.addSnapshot(id, o, nil)
		}
	}
	// Within a tenant, frontends are in order already.
	slices.SortStableFunc(c.Frontends, func(a, b FrontendChange) int { return a.ID.Compare(b.ID) })
	slices.SortFunc(c.Pools, func(a, b PoolChange) int {
		return cmp.Or(strings.Compare(string(a.Tenant), string(b.Tenant)), strings.Compare(string(a.ID), string(b.ID)))
	})
	slices.SortFunc(c.Groups, func(a, b GroupChange) int {
		return cmp.Or(strings.Compare(string(a.Tenant), string(b.Tenant)), strings.Compare(string(a.ID), string(b.ID)))
	})
	c.Health = diffHealth(old.Health, next.Health)
	return c
}

func (c *Changes) addSnapshot(id TenantID, old, next *Snapshot) {
	if old == nil {
		old = &Snapshot{}
	}
	if next == nil {
		next = &Snapshot{}
	}
	c.Frontends = appendFrontends(c.Frontends, old.Frontends, next.Frontends)
	diffMaps(old.Pools, next.Pools, func(pid PoolID, o, n *Pool) {
		if !o.Equal(n) {
			c.Pools = append(c.Pools, PoolChange{Tenant: id, ID: pid, Old: o, New: n})
		}
	})
	diffMaps(old.Groups, next.Groups, func(gid GroupID, o, n *Group) {
		if !o.Equal(n) {
			c.Groups = append(c.Groups, GroupChange{Tenant: id, ID: gid, Old: o, New: n, Members: diffMembers(o, n)})
		}
	})
}

func appendFrontends(to []FrontendChange, old, next []*Frontend) []FrontendChange {
	if sameSlice(old, next) {
		return to
	}
	merge(old, next,
		func(a, b *Frontend) int {
			if a == b {
				return 0
			}
			return a.ID.Compare(b.ID)
		},
		func(o, n *Frontend) {
			if !o.Equal(n) {
				to = append(to, FrontendChange{ID: cmp.Or(n, o).ID, Old: o, New: n})
			}
		})
	return to
}

func diffListeners(old, next []Listener) []ListenerChange {
	if sameSlice(old, next) {
		return nil
	}
	// What both share at either end, which most often is nearly all, is compared by pointer.
	for len(old) > 0 && len(next) > 0 && old[0].shared(&next[0]) {
		old, next = old[1:], next[1:]
	}
	for len(old) > 0 && len(next) > 0 && old[len(old)-1].shared(&next[len(next)-1]) {
		old, next = old[:len(old)-1], next[:len(next)-1]
	}
	var out []ListenerChange
	mergeValues(old, next,
		func(a, b *Listener) int { return a.Socket.Compare(b.Socket) },
		func(o, n *Listener) {
			if !o.Equal(n) {
				out = append(out, ListenerChange{Socket: cmp.Or(n, o).Socket, Old: o, New: n})
			}
		})
	return out
}

// shared says that both are copies of one. It may miss equal ones.
func (l *Listener) shared(o *Listener) bool {
	return l.Socket == o.Socket && sameSlice(l.Frontends, o.Frontends)
}

func diffMembers(old, next *Group) []MemberChange {
	var o, n []Member
	if old != nil {
		o = old.Members
	}
	if next != nil {
		n = next.Members
	}
	var out []MemberChange
	mergeValues(o, n,
		func(a, b *Member) int { return a.Key().Compare(b.Key()) },
		func(o, n *Member) {
			if o == nil || n == nil || *o != *n {
				k := cmp.Or(n, o).Key()
				out = append(out, MemberChange{Key: k, Old: o, New: n})
			}
		})
	return out
}

func diffHealth(old, next Health) []HealthChange {
	if sameMap(old, next) {
		return nil
	}
	var out []HealthChange
	visit := func(check Check, o, n Verdicts) {
		if sameMap(o, n) {
			return
		}
		for a, v := range n {
			if o[a] != v {
				out = append(out, HealthChange{Probe{check, a}, o[a], v})
			}
		}
		for a, v := range o {
			if _, ok := n[a]; !ok && v != Unchecked {
				out = append(out, HealthChange{Probe{check, a}, v, Unchecked})
			}
		}
	}
	for check, n := range next {
		visit(check, old[check], n)
	}
	for check, o := range old {
		if _, ok := next[check]; !ok {
			visit(check, o, nil)
		}
	}
	slices.SortFunc(out, func(a, b HealthChange) int { return a.Probe.Compare(b.Probe) })
	return out
}

// diffMaps visits what differs by pointer.
func diffMaps[K comparable, V any](old, next map[K]*V, visit func(k K, o, n *V)) {
	if sameMap(old, next) {
		return
	}
	kept := 0
	for k, n := range next {
		o, ok := old[k]
		if ok {
			kept++
		}
		if o != n {
			visit(k, o, n)
		}
	}
	if kept == len(old) {
		return
	}
	for k, o := range old {
		if _, ok := next[k]; !ok {
			visit(k, o, nil)
		}
	}
}

// sameMap says that both are the very same map. It may miss equal ones.
func sameMap[M ~map[K]V, K comparable, V any](a, b M) bool {
	if len(a) != len(b) {
		return false
	}
	return len(a) == 0 || reflect.ValueOf(a).UnsafePointer() == reflect.ValueOf(b).UnsafePointer()
}

// merge visits each element of two sorted slices, those that compare as equal together.
func merge[T any](old, next []*T, compare func(a, b *T) int, visit func(o, n *T)) {
	for len(old) > 0 || len(next) > 0 {
		switch c := order(len(old), len(next), func() int { return compare(old[0], next[0]) }); {
		case c < 0:
			visit(old[0], nil)
			old = old[1:]
		case c > 0:
			visit(nil, next[0])
			next = next[1:]
		default:
			visit(old[0], next[0])
			old, next = old[1:], next[1:]
		}
	}
}

// mergeValues is merge for slices of values; visit gets pointers into them.
func mergeValues[T any](old, next []T, compare func(a, b *T) int, visit func(o, n *T)) {
	for len(old) > 0 || len(next) > 0 {
		switch c := order(len(old), len(next), func() int { return compare(&old[0], &next[0]) }); {
		case c < 0:
			visit(&old[0], nil)
			old = old[1:]
		case c > 0:
			visit(nil, &next[0])
			next = next[1:]
		default:
			visit(&old[0], &next[0])
			old, next = old[1:], next[1:]
		}
	}
}

func order(old, next int, compare func() int) int {
	switch {
	case next == 0:
		return -1
	case old == 0:
		return 1
	}
	return compare()
}

// ApplyTo is old with the Changes made: what Diff compared, without Problems.
// It changes nothing in old.
func (c *Changes) ApplyTo(old *Program) *Program {
	next := &Program{Tenants: map[TenantID]*Snapshot{}}
	if old != nil {
		maps.Copy(next.Tenants, old.Tenants)
		next.Listeners = slices.Clone(old.Listeners)
		next.Health = cloneHealth(old.Health)
	}
	changed := map[TenantID]*Snapshot{}
	snapshot := func(id TenantID) *Snapshot {
		s := changed[id]
		if s == nil {
			s = &Snapshot{Pools: map[PoolID]*Pool{}, Groups: map[GroupID]*Group{}}
			if o := next.Tenants[id]; o != nil {
				s.Frontends = slices.Clone(o.Frontends)
				maps.Copy(s.Pools, o.Pools)
				maps.Copy(s.Groups, o.Groups)
			}
			changed[id], next.Tenants[id] = s, s
		}
		return s
	}
	for _, ch := range c.Listeners {
		next.Listeners = put(next.Listeners, ch.New, func(l Listener) int { return l.Socket.Compare(ch.Socket) })
	}
	for _, ch := range c.Frontends {
		s := snapshot(ch.ID.Tenant)
		var n **Frontend
		if ch.New != nil {
			n = &ch.New
		}
		s.Frontends = put(s.Frontends, n, func(f *Frontend) int { return f.ID.Compare(ch.ID) })
	}
	for _, ch := range c.Pools {
		set(snapshot(ch.Tenant).Pools, ch.ID, ch.New)
	}
	for _, ch := range c.Groups {
		set(snapshot(ch.Tenant).Groups, ch.ID, ch.New)
	}
	for id, s := range next.Tenants {
		if len(s.Frontends)+len(s.Pools)+len(s.Groups) == 0 {
			delete(next.Tenants, id)
		}
	}
	for _, ch := range c.Health {
		v := next.Health[ch.Probe.Check]
		if ch.New == Unchecked {
			delete(v, ch.Probe.Address)
			if len(v) == 0 {
				delete(next.Health, ch.Probe.Check)
			}
			continue
		}
		if v == nil {
			v = Verdicts{}
			if next.Health == nil {
				next.Health = Health{}
			}
			next.Health[ch.Probe.Check] = v
		}
		v[ch.Probe.Address] = ch.New
	}
	return next
}

// put replaces, inserts or, with nil, removes the element that compares as 0.
func put[T any](s []T, v *T, compare func(T) int) []T {
	i, found := slices.BinarySearchFunc(s, struct{}{}, func(e T, _ struct{}) int { return compare(e) })
	switch {
	case found && v != nil:
		s[i] = *v
	case found:
		s = slices.Delete(s, i, i+1)
	case v != nil:
		s = slices.Insert(s, i, *v)
	}
	return s
}

func set[K comparable, V any](m map[K]*V, k K, v *V) {
	if v == nil {
		delete(m, k)
	} else {
		m[k] = v
	}
}

func cloneHealth(h Health) Health {
	if h == nil {
		return nil
	}
	out := make(Health, len(h))
	for check, v := range h {
		out[check] = maps.Clone(v)
	}
	return out
}
