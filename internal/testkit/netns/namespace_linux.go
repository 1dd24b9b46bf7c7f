package netns

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/vishvananda/netlink"
	vishnetns "github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// ErrNotRoot says that this process may not make namespaces.
var ErrNotRoot = errors.New("network namespaces need root; run this as root (sudo)")

// Network is a set of namespaces that are built and let go of together. It is not safe for concurrent use; its Namespaces'
// Do, Dial, Listen, ListenPacket and Start are.
type Network struct {
	err error
	all []*Namespace
}

// New returns a Network without namespaces.
func New() *Network {
	n := &Network{}
	if os.Geteuid() != 0 {
		n.err = ErrNotRoot
	}
	return n
}

// Err is the first failure of building, nil if there was none.
func (n *Network) Err() error { return n.err }

// Close lets go of all namespaces. Those in which sockets are open or processes run live on until these end.
func (n *Network) Close() {
	for _, ns := range n.all {
		if ns.handle != nil {
			ns.handle.Close()
		}
		if ns.file != nil {
			ns.file.Close()
		}
	}
	n.all = nil
}

// Namespace makes a namespace, with its loopback up; name is for messages only.
func (n *Network) Namespace(name string) *Namespace {
	ns := &Namespace{network: n, name: name}
	n.all = append(n.all, ns)
	n.try("making network namespace "+name, func() (err error) {
		if ns.file, err = create(); err != nil {
			return err
		}
		if ns.handle, err = netlink.NewHandleAt(vishnetns.NsHandle(ns.file.Fd())); err != nil {
			return err
		}
		return ns.up("lo")
	})
	for _, of := range []string{"all", "default"} { // Addresses of links, too, are there at once.
		ns.Set("ipv6/conf/"+of+"/accept_dad", "0")
		ns.Set("ipv6/conf/"+of+"/dad_transmits", "0")
	}
	return ns
}

// try does something unless something has failed before.
func (n *Network) try(what string, do func() error) {
	if n.err != nil {
		return
	}
	if err := do(); err != nil {
		n.err = fmt.Errorf("%s: %w", what, err)
	}
}

// Namespace is a network namespace.
type Namespace struct {
	network *Network
	name    string
	file    *os.File
	handle  *netlink.Handle
}

// Name is what it is called in messages.
func (ns *Namespace) Name() string { return ns.name }

// create makes a namespace on a thread of its own turn, which returns to where it was.
func create() (*os.File, error) {
	var made *os.File
	err := elsewhere(func() error { return unix.Unshare(unix.CLONE_NEWNET) }, func() (err error) {
		made, err = current()
		return err
	})
	return made, err
}

func current() (*os.File, error) { return os.Open("/proc/thread-self/ns/net") }

// Do calls do on a thread that is in the namespace: sockets that it opens and processes that it starts are there. Only do itself
// is, not the goroutines that it starts.
func (ns *Namespace) Do(do func() error) error {
	if ns.network.err != nil {
		return ns.network.err
	}
	return elsewhere(func() error { return unix.Setns(int(ns.file.Fd()), unix.CLONE_NEWNET) }, do)
}

// Enter takes the calling thread to the namespace, for good: it must be locked (runtime.LockOSThread) and never be unlocked, so
// that it ends with its goroutine.
func (ns *Namespace) Enter() error {
	if ns.network.err != nil {
		return ns.network.err
	}
	if err := unix.Setns(int(ns.file.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("entering network namespace %s: %w", ns.name, err)
	}
	return nil
}

// Path opens the namespace, for as long as this process holds it.
func (ns *Namespace) Path() string { return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), ns.file.Fd()) }

// elsewhere calls do on a thread that enter has taken to another namespace, and takes it back. A thread that can't go back is
// never used again: its goroutine stays locked to it and ends.
func elsewhere(enter, do func() error) error {
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		home, err := current()
		if err != nil {
			result <- err
			return
		}
		defer home.Close()
		if err = enter(); err == nil {
			err = do()
		}
		if unix.Setns(int(home.Fd()), unix.CLONE_NEWNET) == nil {
			runtime.UnlockOSThread()
		}
		result <- err
	}()
	return <-result
}

// Set writes a kernel setting of this namespace, named by its path below /proc/sys/net.
func (ns *Namespace) Set(path, value string) {
	ns.network.try(fmt.Sprintf("setting net/%s to %s in %s", path, value, ns.name), func() error {
		return ns.Do(func() error { return os.WriteFile(filepath.Join("/proc/sys/net", path), []byte(value), 0) })
	})
}
