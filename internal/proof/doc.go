// Package proof turns what proxies have said into what the manager may believe:
// whether a LoadBalancer is Programmed, whether a member is removed, whether an
// address is released. "Who may believe what" in docs/architecture.md has the rules. Absence of a word proves nothing.
//
// It is pure, but for Liveness, which remembers when renewals were seen; the
// caller brings the time, of one monotonic clock.
package proof
