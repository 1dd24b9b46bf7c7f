// Package service turns a tenant's Service into the LoadBalancer that it wants
// of the hub, and what the hub says of that back into the Service's status:
//
//	Service, LoadBalancer ── Decide ──▶ Ignore | Serve | Release
//	Service ── Want ──▶ LoadBalancerSpec + Problems, to the Nodes
//	Service of another load balancer ── Front, Backend ──▶ the same, to that one's addresses
//	Service, LoadBalancer, Problems ── Judge, Ingress ──▶ condition, event, status.loadBalancer or annotation
//
// Pure: values in, values out. The predicates are those of k8s.io/cloud-provider
// where it has any. What a LoadBalancer takes from a Service:
//
//	loadBalancerClass fairlead.dev/X, else annotation fairlead.dev/class   className
//	ports[].{name,protocol,port}, nodePort                               ports, targetPort
//	loadBalancerSourceRanges, or their annotation                        sourceRanges
//	sessionAffinity, its timeout                                         the same
//	ipFamilies; ipFamilyPolicy, where there are two                      the same
//	trafficDistribution, of whatever nearness                            PreferSameZone
//	externalTrafficPolicy Local                                          healthCheck on healthCheckNodePort (type NodePort: on a
//	                                                                     nodePort), failOpen false
//	annotation fairlead.dev/addresses, else MetalLB's, kube-vip's or
//	Cilium's, else loadBalancerIP, else
//	the address in its status when the hub has no LoadBalancer for it    addresses
//	annotations fairlead.dev/{address-pool,proxy-protocol,drain-timeout} the same
//
// What the Service says and nobody could understand is a Problem. A Problem whose
// neglect would be unsafe (source ranges, PROXY protocol) takes all ports out; a port
// without a nodePort takes itself out; anything else is served without.
package service
