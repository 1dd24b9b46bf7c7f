// Package service turns a LoadBalancer whose class has spec.service into a Service of the hub and EndpointSlices, and that
// Service's status into what the LoadBalancer says:
//
//	LoadBalancer, class ─▶ Service without selector ──▶ the hub's own implementation ──▶ its status ─▶ State
//	TargetGroups, Tenant ─▶ build.EndpointsOf ─▶ one EndpointSlice a TargetGroup and family
//
// What a LoadBalancer has in the hub is its Service's to hold, not the ledger's. So a LoadBalancer that is refused keeps its
// Service, and with it its address, and loses its endpoints alone.
//
// The Service comes before its EndpointSlices, and the slices go with it: they are found by the Service's name, so that
// next to a Service of somebody else they would take its traffic. A Service of that name that was not made
// for the LoadBalancer is left as it is.
//
// The order of writes, then: Service, slices, the LoadBalancer's status. And at the end: the Service, and once it is
// gone whatever its implementation keeps it for, the slices, then the LoadBalancer's finalizer.
package service
