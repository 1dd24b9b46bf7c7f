package testkit

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// dropCapabilities takes capabilities out of the calling thread's bounding set. What
// the thread executes then can't have them, even as root: execve gives root no more
// than the bounding set. Other threads keep theirs, so the caller must keep its thread
// locked until it has forked, and let its goroutine end without unlocking: Go uses
// such a thread for nothing else.
func dropCapabilities(capabilities []uintptr) error {
	for _, c := range capabilities {
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err != nil {
			return fmt.Errorf("dropping capability %d: %w", c, err)
		}
	}
	return nil
}
