// Package limits holds the tests of what happens at the edges: one tenant that asks for all that it can get, a hub that answers badly, a full disk,
// a clock that is wrong. They run the real program against a real API server, and watch what others notice.
package limits
