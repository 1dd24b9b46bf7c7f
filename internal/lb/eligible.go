package lb

// Eligible returns the members of g that may get new connections of p now, in
// g's order. Draining members never do. Members of weight 0 don't, but while all
// that are not draining weigh 0. Of the rest, those that p's check finds
// Unhealthy don't, but while it finds all of them so and p fails open. Those that
// are left outside of p's zone don't while one is left inside; a pool that fails
// open looks at no zone.
func Eligible(g *Group, p *Pool, h Health) []Member {
	weigh := false
	for i := range g.Members {
		if m := &g.Members[i]; !m.Draining && m.Weight > 0 {
			weigh = true
			break
		}
	}
	candidate := func(m *Member) bool { return !m.Draining && (m.Weight > 0 || !weigh) }
	up := func(m *Member) bool { return h.Of(p.Check, m.Address) != Unhealthy }
	near := func(m *Member) bool { return p.Zone != "" && m.Zone == p.Zone }
	candidates, healthy, inside := 0, 0, 0
	for i := range g.Members {
		if m := &g.Members[i]; candidate(m) {
			candidates++
			if up(m) {
				healthy++
				if near(m) {
					inside++
				}
			}
		}
	}
	n, takes := healthy, func(m *Member) bool { return candidate(m) && up(m) }
	switch {
	case healthy == 0 && p.FailOpen:
		n, takes = candidates, candidate
	case inside > 0:
		n, takes = inside, func(m *Member) bool { return candidate(m) && up(m) && near(m) }
	}
	if n == 0 {
		return nil
	}
	out := make([]Member, 0, n)
	for i := range g.Members {
		if m := &g.Members[i]; takes(m) {
			out = append(out, *m)
		}
	}
	return out
}
