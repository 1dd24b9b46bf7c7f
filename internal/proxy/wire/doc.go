// Package wire carries messages with open files between two processes of one
// host: JSON, a length before it, and the files beside it (SCM_RIGHTS), over a
// unix socket that only the same user may reach.
package wire
