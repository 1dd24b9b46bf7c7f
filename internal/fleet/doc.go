// Package fleet starts a whole fleet on this machine, of real processes: a hub and
// tenant clusters with hollow nodes, the manager, an agent a tenant, and two proxies.
// The demo tells its story on one, and the benchmark measures one.
//
//	Options ─▶ control planes ─▶ kinds, roles ─▶ manager ─▶ examples/hub.yaml ─▶ agents, proxies ─▶ Fleet
//
// The programs are subcommands of the fairlead binary. Each runs under a
// ServiceAccount with the roles of config/rbac and no more. Each proxy reaches the
// hub by a Relay, which can be cut. A program that dies
// without being told to is restarted, as systemd would do, and Options.Say says so.
package fleet
