package service

// Evidence is what is known of a LoadBalancer whose Service isn't in the cache.
type Evidence struct {
	// Made: the LoadBalancer says that an agent made it from that Service.
	Made bool
	// Listed: the cache of Services has listed all of them since the agent's start.
	Listed bool
	// Absent: the API server itself, asked just now, knows no such Service.
	Absent bool
}

// Orphan says why a LoadBalancer is to be kept; "" if it is to be deleted.
func Orphan(e Evidence) (keep string) {
	switch {
	case !e.Made:
		return "no agent made it"
	case !e.Listed:
		return "not all Services are listed yet"
	case !e.Absent:
		return "its Service exists"
	}
	return ""
}
