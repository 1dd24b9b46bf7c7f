package lb

import "slices"

// Equal says that two Frontends are served the same.
func (f *Frontend) Equal(o *Frontend) bool {
	if f == o || f == nil || o == nil {
		return f == o
	}
	return f.ID == o.ID && f.Name == o.Name && f.Pool == o.Pool &&
		f.AffinityTimeout == o.AffinityTimeout && f.IdleTimeout == o.IdleTimeout &&
		f.ProxyProtocol == o.ProxyProtocol && f.Assign == o.Assign && slices.Equal(f.Sources, o.Sources)
}

// Equal says that two Pools are served the same.
func (p *Pool) Equal(o *Pool) bool {
	if p == o || p == nil || o == nil {
		return p == o
	}
	return *p == *o
}

// Equal says that two Groups have the same members.
func (g *Group) Equal(o *Group) bool {
	if g == o || g == nil || o == nil {
		return g == o
	}
	return g.ID == o.ID && slices.Equal(g.Members, o.Members)
}

// Equal says that two Listeners serve the same frontends.
func (l *Listener) Equal(o *Listener) bool {
	if l == o || l == nil || o == nil {
		return l == o
	}
	return l.Socket == o.Socket && (sameSlice(l.Frontends, o.Frontends) || slices.Equal(l.Frontends, o.Frontends))
}

// sameSlice says that both are the very same memory. It may miss equal ones.
func sameSlice[T any](a, b []T) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}
