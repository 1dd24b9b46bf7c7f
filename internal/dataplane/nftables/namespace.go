package nftables

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// namespace is the network namespace that is served.
type namespace struct{ file *os.File }

// openNamespace opens the one of this name; without a name, that of the calling thread.
func openNamespace(name string) (*namespace, error) {
	path := name
	switch {
	case name == "":
		path = "/proc/thread-self/ns/net"
	case !strings.ContainsRune(name, '/'):
		path = filepath.Join("/run/netns", name)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("opening network namespace %s: %w", path, err)
	}
	return &namespace{f}, nil
}

// do calls f on a thread that is in the namespace.
func (n *namespace) do(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		if err := unix.Setns(int(n.file.Fd()), unix.CLONE_NEWNET); err != nil {
			done <- fmt.Errorf("entering network namespace %s: %w", n.file.Name(), err)
			return
		}
		done <- f()
	}()
	return <-done
}

func (n *namespace) close() { n.file.Close() }

// sysctls reads switches of the namespace; what does not exist there is "".
func (n *namespace) sysctls(names ...string) (map[string]string, error) {
	out := map[string]string{}
	err := n.do(func() error {
		for _, name := range names {
			b, err := os.ReadFile(filepath.Join("/proc/sys", strings.ReplaceAll(name, ".", "/")))
			if err != nil && !errors.Is(err, os.ErrNotExist) {
				return fmt.Errorf("reading sysctl %s: %w", name, err)
			}
			out[name] = strings.TrimSpace(string(b))
		}
		return nil
	})
	return out, err
}
