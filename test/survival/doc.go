// Package survival breaks a fleet of real processes on purpose, while its traffic is judged.
//
//	TestInKernel   a fleet in network namespaces, data plane nftables
//	TestInProcess  a fleet on loopback, data plane builtin, with proxies of the test's own that it can cut off from the hub
//
// Each subtest is one failure: what is done, what may fail meanwhile (nothing, where it doesn't say), and what must have
// come of it. They share a fleet and leave it as they found it; the last of each fleet need not. docs/reliability.md says
// which promise each of them holds.
//
// A window in which too little was sent proves nothing, neither that requests failed nor that none did: the failure is tried
// again, at most twice.
//
// What lasts long in life is short here. FAIRLEAD_SURVIVAL=full makes it as long as it is there: ten minutes without the
// hub, five minutes of killing.
package survival
