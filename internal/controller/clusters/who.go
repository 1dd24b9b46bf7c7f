package clusters

// Who follows Clusters, as messages name it.
type Who struct {
	// Name of the program.
	Name string
	// Rights is the folder that it has them from.
	Rights string
}

// Manager is a hub's, whose Clusters are there.
func Manager() Who { return Who{"the manager", "config/rbac/cluster-api"} }

// Agent is that of a management cluster whose hub is another one.
func Agent() Who { return Who{"the agent", "config/rbac/management"} }
