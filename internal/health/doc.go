// Package health turns lb.Probes into lb.Verdicts: it connects to each address,
// or asks it a question over HTTP or HTTPS, again and again, and remembers the
// answers.
//
//	SetProbes ─▶ heap of due times ─▶ one goroutine a check ─▶ streaks ─▶ Verdicts
//	                  ▲            (as far as there are places)
//	Suspect ──────────┘
//
// How a verdict comes about:
//
//   - Until its first success, or Fall failures in a row, a probe is Unchecked. The
//     first success makes it Healthy. It is checked at once, and while it fails in
//     quick succession.
//   - Fall failures in a row make it Unhealthy, Rise successes in a row Healthy.
//   - Suspect (a user's connection was refused or timed out) checks all probes of
//     the address at once and in quick succession until Fall failures are together or
//     one check succeeds: a dead host is out in about a tenth of a second, whatever the
//     interval. A probe that succeeds under suspicion is left alone for longer
//     and longer, up to its interval, so that no client can provoke a storm.
//
// What one tenant's checks cost, others don't pay: the checks in flight are bounded in all, by tenant and by address, so
// that whoever has few finds a place, however many targets of others are silent. Whose checks wait, and for how long, is in the
// metrics. At rest nothing waits.
//
// A check of a port that gets PROXY headers begins with one that names nobody: UNKNOWN
// in version 1, LOCAL in version 2.
//
// Checks that are due within a moment begin together, by goroutines that wait for them: at rest, waking up would cost as
// much as checking.
//
// Each check has a connection of its own, closed with a reset so that neither
// side keeps anything of it.
package health
