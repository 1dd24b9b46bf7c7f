package lb

import (
	"fmt"
	"strings"
)

// Changes is the difference of two Programs, sorted, so that a data plane does
// work in proportion to what changed. Old is nil for what is new, New for what is gone.
type Changes struct {
	Listeners []ListenerChange
	Frontends []FrontendChange
	Pools     []PoolChange
	Groups    []GroupChange
	Health    []HealthChange
}

// Empty says that the two Programs serve the same.
func (c *Changes) Empty() bool {
	return len(c.Listeners)+len(c.Frontends)+len(c.Pools)+len(c.Groups)+len(c.Health) == 0
}

// String counts what changed, kind by kind; it is empty where nothing did.
func (c *Changes) String() string {
	var words []string
	for _, part := range []struct {
		n    int
		what string
	}{
		{len(c.Listeners), "listeners"}, {len(c.Frontends), "frontends"}, {len(c.Pools), "pools"},
		{len(c.Groups), "groups"}, {len(c.Health), "verdicts"},
	} {
		if part.n > 0 {
			words = append(words, fmt.Sprintf("%d %s", part.n, part.what))
		}
	}
	return strings.Join(words, ", ")
}

// ListenerChange is a socket that is new, gone, or shared by others.
type ListenerChange struct {
	Socket   Socket
	Old, New *Listener
}

// FrontendChange is a frontend that is new, gone or different.
type FrontendChange struct {
	ID       FrontendID
	Old, New *Frontend
}

// PoolChange is a pool that is new, gone or different.
type PoolChange struct {
	Tenant   TenantID
	ID       PoolID
	Old, New *Pool
}

// GroupChange is a group that is new, gone or different, with the members that differ.
type GroupChange struct {
	Tenant   TenantID
	ID       GroupID
	Old, New *Group
	Members  []MemberChange
}

// MemberChange is a member that is new, gone or different.
type MemberChange struct {
	Key      MemberKey
	Old, New *Member
}

// HealthChange is another verdict on a member's address.
type HealthChange struct {
	Probe    Probe
	Old, New Verdict
}
