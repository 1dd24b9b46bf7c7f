package proof

import (
	"slices"
	"time"
)

// MissingHold is how long an Address is kept for a LoadBalancer that is missing. A LoadBalancer that goes takes its
// grant along, so one that is missing most often means a hub that was restored.
const MissingHold = 24 * time.Hour

// Missing is what is noted of an Address's holders that the hub doesn't have.
type Missing struct {
	// Holders, each as namespace/name.
	Holders []string
	// Until when the Address is kept for them, by the wall clock: people read and write it.
	Until time.Time
}

// JudgeMissing says what is to be noted where those holders are missing now, and whether their time is over. Who is
// missing anew gets the whole time; what a person wrote stays otherwise.
func JudgeMissing(noted Missing, holders []string, now time.Time) (next Missing, over bool) {
	if len(holders) == 0 {
		return Missing{}, false
	}
	next = Missing{slices.Sorted(slices.Values(holders)), noted.Until}
	anew := func(h string) bool { return !slices.Contains(noted.Holders, h) }
	if noted.Until.IsZero() || slices.ContainsFunc(holders, anew) {
		next.Until = now.Add(MissingHold)
	}
	return next, !now.Before(next.Until)
}
