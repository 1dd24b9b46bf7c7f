package dataplane

import "fairlead.dev/fairlead/internal/lb"

// Heritable is a data plane whose sockets live in this process, so that a
// planned restart hands them to the next one. Others outlive `fairlead proxy`
// and need nothing of this.
//
//	running one                       its successor
//	Listeners ── sockets ──────────▶ Inherit, Apply: both take new connections
//	Suspend ──── running flows ────▶ Adopt: all is served
//	Yield ────── Open, again and again ─▶ Remain, until the last connection ends
//
// All methods but Open, Remain and Observe are called by the goroutine that calls Apply, or while it waits.
type Heritable interface {
	Dataplane

	// Listeners are the open sockets that clients reach. They stay open, and go on to serve, until Yield or Close.
	Listeners() []Part
	// Suspend stops what one process only can do at a time, reading datagrams, and returns what it is
	// in the middle of. Clients wait meanwhile in the kernel. Resume undoes it.
	Suspend() []Part
	Resume()
	// Yield leaves all that is new to the successor: listeners are closed and what Suspend returned is let
	// go. What is open runs on; Apply still follows the Program, for the sake of what is open, and opens no socket.
	Yield()
	// Open counts, by member and frontend, all that is open here, or in a predecessor of this process.
	Open() Open

	// Inherit takes sockets, before the first Apply, which uses them instead of opening its own.
	Inherit([]Part)
	// Adopt takes what Suspend returned, after the first Apply, and starts what that held back. Parts that nobody wants are closed.
	Adopt([]Part)
	// Remain says what the predecessor has open; the zero value: nothing any more. Observe counts it too.
	Remain(Open)
}

// Part is a file that one process hands to the next, and what it is in the data plane's own words.
type Part struct {
	What string
	// FD belongs to the data plane in Listeners and Suspend; Inherit and Adopt own it.
	FD int
}

// Open counts open connections and flows.
type Open struct {
	Members   []OpenMember   `json:"members,omitempty"`
	Frontends []OpenFrontend `json:"frontends,omitempty"`
}

// OpenMember counts what a member has open.
type OpenMember struct {
	Tenant lb.TenantID  `json:"tenant"`
	Key    lb.MemberKey `json:"key"`
	Count  int64        `json:"count"`
}

// OpenFrontend counts what came by a frontend and is open.
type OpenFrontend struct {
	ID    lb.FrontendID `json:"id"`
	Count int64         `json:"count"`
}

// Empty says that nothing is open.
func (o *Open) Empty() bool { return len(o.Members)+len(o.Frontends) == 0 }
