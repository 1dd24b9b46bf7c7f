package service

import "time"

// HeldFor is how long a LoadBalancer is held whose Service is missing, though nobody was seen to delete it.
const HeldFor = 24 * time.Hour

// Evidence is what is known of a LoadBalancer whose Service isn't in the cache.
type Evidence struct {
	// Made: the LoadBalancer says that an agent made it from that Service.
	Made bool
	// Listed: the cache of Services has listed all of them since the agent's start.
	Listed bool
	// Absent: the API server itself, asked just now, knows no such Service.
	Absent bool
	// Deleted: a watch saw the Service being deleted.
	Deleted bool
	// HeldUntil is what the LoadBalancer says about that, in RFC 3339; empty, or no time: nothing.
	HeldUntil string
	Now       time.Time
}

// Orphan says why a LoadBalancer is to be kept, "" if it is to be deleted; and until when it is held, if it is.
//
// A Service that is missing is not a deleted one: its cluster may have been restored from an older copy, or half.
func Orphan(e Evidence) (keep string, until time.Time) {
	switch {
	case !e.Made:
		return "no agent made it", until
	case !e.Listed:
		return "not all Services are listed yet", until
	case !e.Absent:
		return "its Service exists", until
	case e.Deleted:
		return "", until
	}
	until, err := time.Parse(time.RFC3339, e.HeldUntil)
	if err != nil {
		until = e.Now.Add(HeldFor)
	}
	if !e.Now.Before(until) {
		return "", time.Time{}
	}
	return "nobody was seen to delete its Service", until
}
