// Package demo turns one machine with only Go on it into a fleet: a hub, two
// tenant clusters of three hollow nodes each, manager, agents and two proxies, all
// real processes; and then shows it to a person, or checks its story without one.
//
//	Options ─▶ fleet (control planes, programs, example objects)
//	             ├─ Run:   a live view, until the person has seen enough
//	             └─ Check: steps, each an event and a claim that can fail
//
// The fleet's programs are this binary's own subcommands. Each runs under a
// ServiceAccount with the roles of config/rbac and no more. A program that dies
// without being told to is restarted, as systemd would do, and the demo says so;
// Check counts it as a failure.
package demo
