package dataplane

import (
	"context"

	"fairlead.dev/fairlead/internal/lb"
)

// Dataplane turns a Program into running configuration on this host. One
// goroutine calls Check, Recover and Apply, and coalesces what is pending;
// Observe and Changed may be called from another.
type Dataplane interface {
	// Name is the word for this data plane in flags, reports and metrics.
	Name() string

	// Check says what this data plane cannot express. It is pure: it looks at nothing but its argument.
	// What it names is left out of Apply by the caller, port by port.
	Check(*lb.Snapshot) []lb.Problem

	// Recover is called once, before Apply: it compares lastGood with what runs and changes nothing.
	Recover(ctx context.Context, lastGood *lb.Program) (Drift, error)

	// Apply returns when new connections follow next. changes is lb.Diff(previous, next), where previous
	// is the Program of the last Apply that returned no error. Objects that can't be applied are in
	// Outcome.Refused and cost nobody else anything; they are tried again at the next Apply. An error
	// means that the former Program still runs as a whole.
	Apply(ctx context.Context, next *lb.Program, changes lb.Changes) (Outcome, error)

	// Changed receives a value when Observe has something new to say. It has a buffer of one: values
	// coalesce, none is lost.
	Changed() <-chan struct{}

	// Observe says what goes on now, whole; it is cheap. What Program and Observation together say is a level, not an
	// event, so that nothing is missed by a reader who comes late.
	Observe() Observation

	// Close lets go of everything: listeners first, then open connections until ctx ends. A data plane that
	// outlives its process lets go of nothing but what it holds: what was applied goes on being served.
	Close(ctx context.Context) error
}

// Drift says how what runs differs from the last Program known.
type Drift struct {
	// Missing and Foreign count frontends that should run and don't, and that run and should not.
	Missing, Foreign int
}

// Result is how an Apply took effect.
type Result string

const (
	// None: nothing had to be done.
	None Result = "None"
	// Hot: in place, open connections untouched.
	Hot Result = "Hot"
	// Reload: a new process or worker took over.
	Reload Result = "Reload"
)

// Outcome is what an Apply did.
type Outcome struct {
	How Result
	// Because names the change that forced How, in a few words.
	Because string
	// Refused objects, each naming LoadBalancer and port.
	Refused []lb.Problem
}

// Observation is what goes on in a data plane besides plainly serving its Program.
type Observation struct {
	// Draining holds the members, of the Program or gone from it, that get no new connection and have
	// open ones. A member that is Draining in the applied Program and is missing here is gone.
	Draining map[lb.TenantID]map[lb.MemberKey]int64
	// Closing holds frontends that are no longer in the Program and still have open connections.
	// A frontend that is in neither is gone: its listener is closed.
	Closing map[lb.FrontendID]int64
}
