// Package cli turns the hub's objects into what a person wants to know:
//
//	fetch (the hub, a tenant) ─▶ Objects ─┬─ Explain ─▶ Explanation: one Rung a line, from the Service to its members
//	                                      └─ Summarize ─▶ Overview: problems first, then the fleet
//
// Explain and Summarize are pure, and judge with the same code as the manager
// and the proxies (internal/build, internal/proof): what they show is what those
// decide by. One thing is weaker here: a proxy's silence is judged by the clocks of
// its host and the hub's, since nobody waits 30 s for an answer.
package cli
