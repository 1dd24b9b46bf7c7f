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
package targetgroup
