// Package cli turns the hub's objects into what a person wants to know:
//
//	fetch (the hub, a tenant) ─▶ Objects ─┬─ Explain… ─▶ Explanation: one Rung a line, from what was asked about to what it needs
//	                                      ├─ Summarize ─▶ Overview: problems first, then the fleet
//	                                      ├─ PlanDrain ─▶ Drain: what would move; Judge: how far it is
//	check_ask (rights, roles) ─▶ Facts ───┴─ Diagnose ─▶ Report: one Check a line
//
// What stands to the right of Objects and Facts is pure, and judges with the same code as the manager
// and the proxies (internal/build, internal/proof): what it shows is what those
// decide by. One thing is weaker here: a proxy's silence is judged by the clocks of
// its host and the hub's, since nobody waits 30 s for an answer. drain_write.go and manager_leave.go are all that writes.
package cli
