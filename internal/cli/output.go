package cli

import (
	"time"

	rules "fairlead.dev/fairlead/internal/member"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The types in this file are what commands print with -o json and -o yaml, one a command. Scripts read them:
// fields may be added, and none is renamed, removed or given another meaning. docs/cli.md describes them.

// State of a rung.
type State string

const (
	// OK: nothing to do.
	OK State = "ok"
	// Warning: it serves, and something deserves a look.
	Warning State = "warning"
	// Waiting: it is on its way; somebody else's move.
	Waiting State = "waiting"
	// Broken: it doesn't serve until somebody mends it.
	Broken State = "broken"
	// Skipped: not looked at, or not reached.
	Skipped State = "skipped"
)

// Rung is one step between what was asked about and what it needs.
type Rung struct {
	Name   string `json:"name"`
	State  State  `json:"state"`
	Reason string `json:"reason,omitempty"`
	// Message says what is so; of a broken rung, why.
	Message string `json:"message,omitempty"`
	// Evidence is what it was told by: which proxy, which check, which error.
	Evidence []Evidence `json:"evidence,omitempty"`
	// Since the state is so, where that is known.
	Since *metav1.Time `json:"since,omitempty"`
	// Fix is what to do; only on the first rung that doesn't hold.
	Fix string `json:"fix,omitempty"`
}

// Evidence is one finding below a rung.
type Evidence struct {
	State State        `json:"state"`
	Text  string       `json:"text"`
	Since *metav1.Time `json:"since,omitempty"`
}

// Explanation is why something is served, or isn't: what each `explain` prints.
type Explanation struct {
	// Kind of what was asked about: Service, LoadBalancer, Node, Address or Proxy.
	Kind    string `json:"kind"`
	Subject string `json:"subject"`
	// Served: every rung that was looked at holds.
	Served bool   `json:"served"`
	Rungs  []Rung `json:"rungs"`
	// Events are the last ones of the Service and the LoadBalancer, the oldest first, as far as they may be read.
	Events []EventLine `json:"events,omitempty"`
	// EventsHidden are those whose events may not be read, as kind namespace/name.
	EventsHidden []string `json:"eventsHidden,omitempty"`
	// Now is the hub's time when it was asked.
	Now time.Time `json:"now"`
}

// EventLine is one Kubernetes event of what was asked about.
type EventLine struct {
	// Kind and Name, as namespace/name, of what it is about: a Service of the tenant's cluster, or a LoadBalancer of the hub.
	Kind string `json:"kind"`
	Name string `json:"name"`
	// State is ok or warning.
	State   State  `json:"state"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
	// Count of times that it happened, and when it last did.
	Count int32       `json:"count"`
	Last  metav1.Time `json:"last"`
}

// Overview is the hub at a glance: what `status` prints.
type Overview struct {
	// Healthy: nothing among Problems is Broken or Waiting.
	Healthy bool `json:"healthy"`
	// Problems, the worst first.
	Problems []Problem    `json:"problems"`
	Tenants  []TenantLine `json:"tenants"`
	Totals   Totals       `json:"loadBalancers"`
	// Lines of the LoadBalancers, for the wide form.
	Lines   []LoadBalancerLine `json:"-"`
	Pools   []PoolLine         `json:"pools"`
	Proxies []ProxyLine        `json:"proxies"`
	// Hidden are the resources that the reader may not read.
	Hidden []string `json:"hidden,omitempty"`
}

// Problem is what somebody should see to.
type Problem struct {
	State   State        `json:"state"`
	Object  string       `json:"object"`
	Reason  string       `json:"reason,omitempty"`
	Message string       `json:"message"`
	Since   *metav1.Time `json:"since,omitempty"`
}

// Totals counts LoadBalancers by state.
type Totals struct {
	Total    int `json:"total"`
	Ready    int `json:"ready"`
	Degraded int `json:"degraded"` // among Ready
	Waiting  int `json:"waiting"`
	NotReady int `json:"notReady"`
	Deleting int `json:"deleting"`
}

// TenantLine is one Tenant.
type TenantLine struct {
	Name          string `json:"name"`
	Namespace     string `json:"namespace"`
	Ready         string `json:"ready"`
	Agent         string `json:"agent"`
	LoadBalancers int    `json:"loadBalancers"`
	Addresses     int    `json:"addresses"`
	Members       string `json:"members"`
}

// LoadBalancerLine is one LoadBalancer, for -o wide.
type LoadBalancerLine struct {
	Namespace, Name, Origin string
	State                   State
	Address, Class, Reason  string
}

// PoolLine is one AddressPool.
type PoolLine struct {
	Name      string `json:"name"`
	Free      int64  `json:"free"`
	Granted   int64  `json:"granted"`
	Releasing int64  `json:"releasing"`
}

// ProxyLine is one Proxy.
type ProxyLine struct {
	Name      string `json:"name"`
	Pool      string `json:"pool"`
	State     State  `json:"state"`
	Text      string `json:"text"`
	Dataplane string `json:"dataplane"`
	Frontends int32  `json:"frontends"`
	Through   string `json:"through"`
}

// Report is what `check` found.
type Report struct {
	// OK: nothing among Checks is Broken or Waiting.
	OK     bool    `json:"ok"`
	Checks []Check `json:"checks"`
	// Now is the hub's time when it was asked.
	Now time.Time `json:"now"`
}

// Check is one thing that was looked at.
type Check struct {
	// Area is hub, kinds, roles, versions, manager, proxies, agents, nodes or tenant.
	Area string `json:"area"`
	// Object that it is about, such as Proxy edge-1.
	Object  string `json:"object"`
	State   State  `json:"state"`
	Message string `json:"message"`
	// Fix is what to do; empty where nothing is amiss.
	Fix   string       `json:"fix,omitempty"`
	Since *metav1.Time `json:"since,omitempty"`
}

// Leave is what `manager leave` took off Machines, or would.
type Leave struct {
	// State is Planned (a dry run), Refused, Done, or Left: a Machine or Node carries something still.
	State LeaveState `json:"state"`
	// Machines that carried something, and Nodes, which have no namespace.
	Machines []LeaveLine `json:"machines"`
	// Message says why it was refused, or what is left.
	Message string `json:"message,omitempty"`
	Fix     string `json:"fix,omitempty"`
}

// LeaveState is how far a leave has come, with all Machines or with one.
type LeaveState string

const (
	// LeavePlanned: a dry run; nothing was changed.
	LeavePlanned LeaveState = "Planned"
	// LeaveRefused: a manager leads; nothing was changed.
	LeaveRefused LeaveState = "Refused"
	// LeaveLeft: something is carried still, because of what the message says.
	LeaveLeft LeaveState = "Left"
	// LeaveDone: nothing is.
	LeaveDone LeaveState = "Done"
)

// LeaveLine is a Machine that carries something of a manager's, or did.
type LeaveLine struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Deleting: its deletion may have waited for a hook.
	Deleting bool       `json:"deleting"`
	State    LeaveState `json:"state"`
	// Takes are the keys of annotations, and of the label after the word label.
	Takes   []string `json:"takes"`
	Message string   `json:"message,omitempty"`
}

// Drain is what `drain` did, or would do.
type Drain struct {
	Subject string `json:"subject"`
	// State is Planned (a dry run), Refused, Draining, Drained, Unknown or Undone.
	State DrainState `json:"state"`
	// Groups that the targets stand in, as namespace/name.
	Groups []string `json:"groups"`
	// Targets are those that get no new connection.
	Targets []DrainTarget `json:"targets"`
	// LoadBalancers that send to them.
	LoadBalancers []DrainLine `json:"loadBalancers"`
	// Message says why it was refused, or what is waited for.
	Message string `json:"message,omitempty"`
	Fix     string `json:"fix,omitempty"`
	// marks are the targets as they were when this was planned.
	marks []mark
	// madeFrom is the kind of the objects that they stand for; "": none. standing are those that nobody may write now, with why.
	madeFrom rules.Kind
	standing []string
}

// DrainState is how far a drain has come.
type DrainState string

const (
	// DrainPlanned: a dry run; nothing was changed.
	DrainPlanned DrainState = "Planned"
	// DrainRefused: nothing was changed, because of what the message says.
	DrainRefused DrainState = "Refused"
	// DrainDraining: no new connection is meant for them; some proxy has not let go yet.
	DrainDraining DrainState = "Draining"
	// DrainDrained: every proxy has let go; no connection is open.
	DrainDrained DrainState = "Drained"
	// DrainUnknown: the hub has some of them no more, and nobody says whether connections to those are open.
	DrainUnknown DrainState = "Unknown"
	// DrainUndone: they get connections again.
	DrainUndone DrainState = "Undone"
)

// DrainTarget is one target that drains.
type DrainTarget struct {
	Name    string `json:"name"`
	Address string `json:"address,omitempty"`
	// State by its TargetGroup: active, waiting, adding, unhealthy, draining or drained.
	State           string `json:"state"`
	OpenConnections int64  `json:"openConnections"`
	// Message is what the manager says of it, such as which proxies are waited for.
	Message string       `json:"message,omitempty"`
	Since   *metav1.Time `json:"since,omitempty"`
}

// DrainLine is a LoadBalancer of which new connections move to other members.
type DrainLine struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Origin is the Service that it was made from, as namespace/name; empty: none.
	Origin string `json:"origin,omitempty"`
	// Before and After count the members that get new connections.
	Before int `json:"before"`
	After  int `json:"after"`
	// MovesPercent is the share of new connections that go elsewhere then.
	MovesPercent int `json:"movesPercent"`
	// OpenFor is how long open connections may run on; empty: not visible to the reader. "0s": until they end.
	OpenFor string `json:"openFor,omitempty"`
	// doubt is why After can't be told; empty: it can.
	doubt string
}
