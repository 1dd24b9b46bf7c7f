// Package fleet turns Proxies, their Leases and their ProxyReports into what is
// known of each proxy (proof.Proxy), pool by pool, and says what changed since.
//
//	Proxy, Lease (informers) ─┐
//	ProxyReport (reflector) ──┴▶ Fleet ─▶ Pool(name): views, shared and immutable
//	                               └────▶ Change: pools, LoadBalancers, TargetGroups concerned
//
// ProxyReports come through a reflector of our own, because a view needs to
// know up to which resource version its reports are complete.
//
// A Fleet runs in standby managers as well, so that a new leader has seen
// renewals already. It writes nothing.
package fleet
