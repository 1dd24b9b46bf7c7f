package cli

import "time"

// Facts are what a Report is judged from.
type Facts struct {
	*Objects
	Server Server
	// Installed says of each object that is brought along whether the hub has it.
	Installed []Installed
	Rights    []Rights
	// AgentLeases of all tenants' namespaces; nil: not visible.
	AgentLeases map[string]Renewal
	// Version of this program.
	Version string
	// Cluster is a tenant's; nil: nobody looked.
	Cluster *ClusterFacts
}

// ClusterFacts are what was found in a tenant's cluster.
type ClusterFacts struct {
	// Tenant whose cluster it should be.
	Tenant    string
	UID       string
	Server    Server
	Installed []Installed
	Rights    []Rights
	// Management is what was found of a management cluster; nil: it was not asked whether it is one.
	Management *ManagementFacts
}

// ManagementFacts are what an agent with --management needs beside what any has.
type ManagementFacts struct {
	Installed []Installed
	Rights    []Rights
	// HubUID of the hub, to tell the two clusters apart; "": not visible.
	HubUID string
	// Unserved are the kinds of Cluster API that this cluster doesn't serve.
	Unserved []string
	// Manager that leads in this cluster; "": none was seen. Hidden: it isn't visible whether one does.
	Manager string
	Hidden  bool
}

// Server is an API server's version.
type Server struct {
	Version      string
	Major, Minor int
}

// Renewal is what a Lease of an agent says.
type Renewal struct {
	At      time.Time
	Version string
	Refused string
}

// Installed is one object that is brought along.
type Installed struct {
	// Kind and Name of the object; Area is that of its Check.
	Area, Kind, Name string
	State            InstalledState
}

// InstalledState is how an object that is brought along stands in a cluster.
type InstalledState string

const (
	// InstalledSame as it is brought along.
	InstalledSame InstalledState = "Same"
	// InstalledThere: it is there; the reader may not compare it.
	InstalledThere InstalledState = "There"
	// InstalledDifferent from what is brought along.
	InstalledDifferent InstalledState = "Different"
	// InstalledMissing: it is not there.
	InstalledMissing InstalledState = "Missing"
	// InstalledUnserved: the API server serves no such kind.
	InstalledUnserved InstalledState = "Unserved"
	// InstalledHidden: the reader may not look.
	InstalledHidden InstalledState = "Hidden"
)

// Rights is what an identity may do, of what it needs.
type Rights struct {
	Area     string
	Identity string
	Needs    int
	// Lacks names each verb and resource that is refused.
	Lacks []string
	// Fix is what gives it its rights.
	Fix string
	// Hidden: the reader may not ask.
	Hidden bool
}
