package provider

import (
	"context"
	"errors"
	"fmt"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/provider/contract"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Object is a provider's kind: a type generated as usual, which embeds contract.Spec and contract.Status.
type Object interface {
	client.Object
	// Contract returns both of the object itself, not copies.
	Contract() (*contract.Spec, *contract.Status)
}

// Provider manages the load balancers of one technology. Its methods are called concurrently for different objects, and one
// at a time for the same object; each call is bounded by ctx, which ends after Options.Timeout. Each is asked again and
// again, also for what is done already, and by a process that remembers nothing.
//
// An error that isn't made by Terminal is tried again, ever more slowly.
type Provider interface {
	// Describe reads a load balancer, and changes nothing. ErrNotFound says that it was seen to be absent, never that it
	// couldn't be read. Where ref has no ID, the one that was made for ref.Owner is meant.
	Describe(ctx context.Context, ref Ref) (State, error)
	// Ensure makes the load balancer be there and be as wanted, its members left alone, and returns it as it is then. It need not
	// wait: State.Pending says what is under way. Where there is no ID, and none for the Owner, one is made that carries
	// the Owner from the very request that makes it, so that a process that dies in between leaves none that nobody finds.
	Ensure(ctx context.Context, wanted Wanted) (State, error)
	// SetMembers makes the members be those of the list and no others. It need not wait until that holds everywhere.
	SetMembers(ctx context.Context, ref Ref, members []Member) error
	// Delete starts the deletion, or looks how it goes; it is called until it returns ErrNotFound.
	Delete(ctx context.Context, ref Ref) error
}

// Ref names one load balancer outside.
type Ref struct {
	// ID is its name in its technology; "": not known yet.
	ID string `json:"id,omitempty"`
	// Owner is the UID of the object that it is made for. It is another one after the object has moved to another hub, where only the ID counts.
	Owner string `json:"owner"`
	// Object is that object, for the fields that only this provider knows. It is a copy.
	Object Object `json:"-"`
	// Credentials to use; zero: the provider's own.
	Credentials Credentials `json:"-"`
}

// Wanted is a load balancer as it should be. Fields that Options.Supports doesn't name are never set.
type Wanted struct {
	Ref
	// Name is for people: namespace/name of the object.
	Name string `json:"name"`
	// Endpoint that clients use. Its host is an address to listen at, or a name that somebody points at what the provider
	// chooses; empty: the provider chooses. Its port is one of Ports.
	Endpoint clusterv1.Endpoint `json:"endpoint,omitzero"`
	Ports    []clusterv1.Port   `json:"ports"`
	// HealthCheck of members: the LoadBalancer's, else its class's, else HTTPS /readyz of a control plane's Machines, whose certificate nobody
	// knows. Nil: a connection to the port that traffic goes to.
	HealthCheck    *clusterv1.HealthCheck `json:"healthCheck,omitempty"`
	SourceRanges   []string               `json:"sourceRanges,omitempty"`
	ClientAffinity bool                   `json:"clientAffinity,omitempty"`
	ProxyProtocol  string                 `json:"proxyProtocol,omitempty"`
}

// Member is a host that traffic goes to, at each port's targetPort.
type Member struct {
	// Name is for people.
	Name string `json:"name"`
	// Address is an IP address, or a DNS name where Options.Supports has Names. No two members share one.
	Address string `json:"address"`
	Zone    string `json:"zone,omitempty"`
	Weight  int32  `json:"weight"`
	// Draining: no new connection; open ones run on.
	Draining bool `json:"draining,omitempty"`
}

// State is a load balancer as it was found.
type State struct {
	// ID names it from now on, for good; never empty.
	ID string `json:"id"`
	// Endpoint where it listens; empty: not known yet.
	Endpoint clusterv1.Endpoint `json:"endpoint,omitzero"`
	// Pending says what it waits for outside until it can take traffic; "": nothing.
	Pending string        `json:"pending,omitempty"`
	Members []MemberState `json:"members,omitempty"`
	// Drift is what isn't as it was last ensured, a sentence each; members don't count.
	Drift []string `json:"drift,omitempty"`
}

// MemberState is a member as it was found, whoever added it.
type MemberState struct {
	Address string      `json:"address"`
	Health  MemberPhase `json:"health"`
	// Connections that are open; nil: the technology doesn't tell.
	Connections *int64 `json:"connections,omitempty"`
}

// MemberPhase is what becomes of connections to a member.
type MemberPhase string

// Phases of a member.
const (
	MemberAdding    MemberPhase = "Adding"    // it will get some
	MemberActive    MemberPhase = "Active"    // it gets new ones
	MemberUnhealthy MemberPhase = "Unhealthy" // it gets none while it fails its check
	MemberDraining  MemberPhase = "Draining"  // it gets no new one; Options.Settle says how surely
)

// ErrNotFound says that a load balancer is truly absent.
var ErrNotFound = errors.New("the load balancer is not there")

// refusal is an error that repeating won't mend.
type refusal struct{ error }

func (r refusal) Unwrap() error { return r.error }

// Terminal is an error that repeating won't mend: a field that can't be honoured, a quota, missing rights. It is tried again
// when an object changes, and at each Options.Resync. The message should name cause and fix.
func Terminal(format string, args ...any) error { return refusal{fmt.Errorf(format, args...)} }

// IsTerminal says whether err was made by Terminal, or wraps one that was.
func IsTerminal(err error) bool {
	var r refusal
	return errors.As(err, &r)
}

// Supports says which fields a technology honours. What a LoadBalancer asks beyond them is refused before anything is made
// or changed outside: nothing is ignored silently.
type Supports struct {
	UDP, SCTP, HealthCheck, SourceRanges, ClientAffinity, ProxyProtocol bool
	// Names: members may be known by a DNS name alone.
	Names bool
}

// Defaults of Options.
const (
	DefaultTimeout = 30 * time.Second
	DefaultPoll    = time.Second
	DefaultResync  = time.Minute
	// slowest is how rarely what is under way, or fails, is looked at.
	slowest = 2 * time.Minute
)
