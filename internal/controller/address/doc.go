// Package address turns an Address that is being released into a free one,
// once every proxy has let go of it and it has rested, and an Address whose
// LoadBalancer is missing into one that is kept for a day, for that LoadBalancer to come back.
//
//	Releasing ─▶ proof.JudgeReleased ─▶ rest (quarantine) ─▶ deleted ─▶ ledger: oldest waiter
//	Granted, holder not in the cache ─▶ asked of the API server itself ─▶ held, with an event ─▶ a day later: Releasing
package address
