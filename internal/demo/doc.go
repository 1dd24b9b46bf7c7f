// Package demo shows a fleet (internal/fleet) to a person, or checks its story
// without one.
//
//	Options ─▶ Fleet of a hub and two tenant clusters, with examples/*.yaml
//	             ├─ Run:   a live view, until the person has seen enough; keys break parts
//	             └─ Check: steps, each an event and a claim that can fail; some run beside another
//
// A program that dies unasked is restarted, and counts as a failure of the step.
package demo
