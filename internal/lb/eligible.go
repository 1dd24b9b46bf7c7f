package lb

// Eligible returns the members of g that may get new connections of p now, in
// g's order. Draining members never do. Members of weight 0 don't, but while all
// that are not draining weigh 0. Of the rest, those that p's check finds
// Unhealthy don't, but while it finds all of them so and p fails open.
func Eligible(g *Group, p *Pool, h Health) []Member {
	weigh, candidates, healthy := false, 0, 0
	for i := range g.Members {
		if m := &g.Members[i]; !m.Draining && m.Weight > 0 {
			weigh = true
			break
		}
	}
	candidate := func(m *Member) bool { return !m.Draining && (m.Weight > 0 || !weigh) }
	up := func(m *Member) bool { return h.Of(p.Check, m.Address) != Unhealthy }
	for i := range g.Members {
		if m := &g.Members[i]; candidate(m) {
			candidates++
			if up(m) {
				healthy++
			}
		}
	}
	n, all := healthy, false
	if healthy == 0 && p.FailOpen {
		n, all = candidates, true
	}
	if n == 0 {
		return nil
	}
	out := make([]Member, 0, n)
	for i := range g.Members {
		if m := &g.Members[i]; candidate(m) && (all || up(m)) {
			out = append(out, *m)
		}
	}
	return out
}
