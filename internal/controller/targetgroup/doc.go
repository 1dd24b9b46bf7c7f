// Package targetgroup turns what proxies report about members into the status
// of their TargetGroup, once for all LoadBalancers: who is not plainly active,
// and why. It is written at most once a second.
//
//	a target            is       when
//	without an address  waiting
//	Serving             adding   a live proxy has not checked it yet
//	Serving             unhealthy  a live proxy finds it so; the message says which
//	Draining            draining a proxy that serves it has not reported it gone
//	Draining            drained  all of them have (proof.JudgeRemoved)
//
// Of groups that were made from Machines it says the same as their LoadBalancer does: a target is active once a live proxy has
// applied it as it stands and finds it healthy, whatever another one says, and no other target's change voids what was said of it.
// Where a class has no proxies, the LoadBalancer alone says when a Machine is removed.
package targetgroup
