// Package ask turns proxies that a manager has not heard of since it started into one question to each, which it answers by
// renewing its Lease at once:
//
//	leads, memory is complete ─▶ Fleet: live, not seen renewed ─▶ annotation on its Proxy ─▶ the proxy renews ─▶ Fleet: seen
//
// What a manager listed may be of a hub that is not the one that the proxy serves, so it believes a proxy from its first renewal
// on that it sees itself. Without the question that would take until the next one is due.
package ask
