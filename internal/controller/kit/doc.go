// Package kit holds what the controllers share: writing a status when it
// differs, whose Tenant a namespace is, at which version content was first
// seen, a queue that others may put keys into, and turns that changes take.
package kit
