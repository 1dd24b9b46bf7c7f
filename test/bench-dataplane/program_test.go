package main

import (
	"slices"
	"testing"

	"fairlead.dev/fairlead/internal/lb"
)

// What the benchmark changes is what it says, and nothing else; else it would measure something else.
func TestChangesAreOfOneObject(t *testing.T) {
	s := shape{Frontends: 1000, Members: members(50), Service: members(1)[0], MemberPort: whoPort}
	p := s.program()
	if !slices.IsSortedFunc(p.Listeners, func(a, b lb.Listener) int { return a.Socket.Compare(b.Socket) }) {
		t.Error("listeners are not sorted")
	}
	if !slices.IsSortedFunc(p.Tenants[tenant].Frontends, func(a, b *lb.Frontend) int { return a.ID.Compare(b.ID) }) {
		t.Error("frontends are not sorted")
	}
	out := lb.Diff(p, withDraining(p, s.Members[7], true))
	if len(out.Groups) != 1 || len(out.Groups[0].Members) != 1 || len(out.Frontends)+len(out.Pools)+len(out.Listeners) != 0 {
		t.Errorf("one member's change is %+v", out)
	}
	added := lb.Diff(p, s.withFrontend(p, s.extra(), whoPort))
	if len(added.Frontends) != 1 || len(added.Pools) != 1 || len(added.Listeners) != 1 || len(added.Groups) != 0 {
		t.Errorf("one frontend's change is %+v", added)
	}
}
