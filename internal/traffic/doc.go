// Package traffic turns a running load balancer into numbers that can prove it
// wrong: paced requests and held connections go in, a Report with a Verdict
// comes out.
//
//	Service ── Rate a second, its Ways in turn, one new TCP connection each ─▶ record
//	        └─ Held connections, a ping a second each                        ─▶ loss
//	records between two moments + who may answer ─▶ judge ─▶ Report ─▶ Verdict
//
// It is a strict client: no retry, no connection used twice, two seconds for all
// of it, and an answer from a Pod that may not answer is a failure. It is strict
// with itself too: a window in which less was sent than promised, or nothing for
// a while, has failed, since silence proves nothing.
//
// Answers are those of hollow nodes (hack/kube/hollow): JSON that names cluster,
// namespace, Pod and node.
package traffic
