package proxy

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"time"

	"fairlead.dev/fairlead/internal/dataplane"
	"fairlead.dev/fairlead/internal/lb"
	"fairlead.dev/fairlead/internal/proxy/wire"
	"golang.org/x/sys/unix"
)

// A planned restart: the successor is started beside the running process, with
// the same name and state directory, and takes over through a unix socket there.
//
//	successor                          running process
//	hello ────────────────────────────▶ holds its loop, stops its writers, files what it serves
//	listeners, handed ◀──────────────── (it goes on to accept clients)
//	reads the file, Apply, ready ─────▶ suspends datagrams
//	flows, flowed ◀────────────────────
//	adopts, serving ──────────────────▶ yields: closes its listeners
//	yours, the lock ◀────────────────── follows the hub, says nothing to it
//	writes, listens here                until the last of its connections has ended,
//	merges ◀──── open, again and again  and says here what is open
//
// If it breaks before `yours`, or isn't serving in handWithin, the running process goes on as if nothing had been.

// handoverVersion changes when the two sides' words do.
const handoverVersion = 2

const (
	// stepWithin bounds a step that nobody stands still for.
	stepWithin = 10 * time.Second
	// handWithin bounds how long the running process stands still, the successor's first Apply included. With the age
	// that its Lease has by then it stays well below the time after which a proxy counts as silent.
	handWithin = 15 * time.Second
	// restFor is how long a process goes on after a successor failed before it stands still for another.
	restFor = time.Second
	// openEvery is how often what is open is counted.
	openEvery = 200 * time.Millisecond
	// lockWithin is how long the lock may take that another process is about to let go of.
	lockWithin = 5 * time.Second
)

// step names a message.
type step string

const (
	stepHello     step = "hello"
	stepRefused   step = "refused"
	stepListeners step = "listeners"
	stepHanded    step = "handed"
	stepReady     step = "ready"
	stepFlows     step = "flows"
	stepFlowed    step = "flowed"
	stepServing   step = "serving"
	stepYours     step = "yours"
	stepOpen      step = "open"
	stepLeave     step = "leave"
	stepLeft      step = "left"
)

// message is all that is said; which fields count depends on the step.
type message struct {
	Step step `json:"step"`
	// hello
	Version   int    `json:"version,omitempty"`
	Proxy     string `json:"proxy,omitempty"`
	Pool      string `json:"pool,omitempty"`
	Dataplane string `json:"dataplane,omitempty"`
	Boot      string `json:"boot,omitempty"`
	// refused; left: why it is not known to have left
	Because string `json:"because,omitempty"`
	// listeners, flows: what the files are that come along; yours: the lock, if there is one
	Parts []string `json:"parts,omitempty"`
	// handed: Serves: there is a file to serve; Unhealthy: what must not be tried on clients
	Serves    bool       `json:"serves,omitempty"`
	Unhealthy []lb.Probe `json:"unhealthy,omitempty"`
	// yours, open
	Open *dataplane.Open `json:"open,omitempty"`
	// leave: how long what is open may run on, and whether the hub need not be told; open: how much it is
	Timeout time.Duration `json:"timeout,omitempty"`
	Force   bool          `json:"force,omitempty"`
	Count   int64         `json:"count,omitempty"`
}

func lockFile(dir, proxy string) string { return filepath.Join(dir, proxy+".lock") }
func socketName(proxy string) string    { return proxy + ".handover" }
func receive(c *wire.Conn) (message, []int, error) {
	var m message
	files, err := c.Receive(&m, func() int { return len(m.Parts) })
	return m, files, err
}

// expect receives one message of that step.
func expect(c *wire.Conn, want step) (message, error) {
	m, files, err := expectFiles(c, want)
	closeAll(files)
	return m, err
}

// expectFiles is expect for a message with files, which the caller gets.
func expectFiles(c *wire.Conn, want step) (message, []int, error) {
	m, files, err := receive(c)
	if err == nil && m.Step != want {
		closeAll(files)
		return m, nil, fmt.Errorf("got %q (%s), wanted %q", m.Step, m.Because, want)
	}
	return m, files, err
}

func closeAll(fds []int) {
	for _, fd := range fds {
		unix.Close(fd)
	}
}

func sendParts(c *wire.Conn, as step, parts []dataplane.Part) error {
	for len(parts) > 0 {
		n := min(len(parts), wire.MaxFiles)
		m := message{Step: as}
		fds := make([]int, n)
		for i, p := range parts[:n] {
			m.Parts = append(m.Parts, p.What)
			fds[i] = p.FD
		}
		if err := c.Send(m, fds...); err != nil {
			return err
		}
		parts = parts[n:]
	}
	return nil
}

// receiveParts takes messages of one step until one of another, which it returns.
func receiveParts(c *wire.Conn, of step) (parts []dataplane.Part, last message, err error) {
	for {
		m, files, err := receive(c)
		if err != nil {
			closeParts(parts)
			return nil, m, err
		}
		if m.Step != of {
			closeAll(files)
			return parts, m, nil
		}
		for i, what := range m.Parts {
			parts = append(parts, dataplane.Part{What: what, FD: files[i]})
		}
	}
}

func closeParts(parts []dataplane.Part) {
	for _, p := range parts {
		unix.Close(p.FD)
	}
}

// unhealthy lists what h finds so.
func unhealthy(h lb.Health) []lb.Probe {
	var out []lb.Probe
	for check, of := range h {
		for a, v := range of {
			if v == lb.Unhealthy {
				out = append(out, lb.Probe{Check: check, Address: a})
			}
		}
	}
	return out
}

func findings(unhealthy []lb.Probe) lb.Health {
	h := lb.Health{}
	for _, p := range unhealthy {
		setUnhealthy(h, p)
	}
	return h
}

// overlay is own, and of before what own doesn't know yet, which is missing.
func overlay(own, before lb.Health) (h, missing lb.Health) {
	for check, of := range before {
		for a, v := range of {
			if _, known := own[check][a]; !known {
				if missing == nil {
					missing = lb.Health{}
				}
				if missing[check] == nil {
					missing[check] = lb.Verdicts{}
				}
				missing[check][a] = v
			}
		}
	}
	if missing == nil {
		return own, nil
	}
	h = make(lb.Health, len(own)+len(missing))
	maps.Copy(h, own)
	for check, of := range missing {
		all := make(lb.Verdicts, len(own[check])+len(of))
		maps.Copy(all, own[check])
		maps.Copy(all, of)
		h[check] = all
	}
	return h, missing
}

// errTaken: another process has the state directory's file.
var errTaken = errors.New("another process runs under this name and state directory")

// lock makes this process the only one that writes the last-good file, and reports. It lasts
// until the file that it returns is closed, at the latest with the process.
func lock(ctx context.Context, dir, proxy string, within time.Duration) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the state directory: %w", err)
	}
	f, err := os.OpenFile(lockFile(dir, proxy), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("locking the state directory: %w", err)
	}
	raw, err := f.SyscallConn()
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("locking the state directory: %w", err)
	}
	for until := time.Now().Add(within); ; {
		var failed error
		err := raw.Control(func(fd uintptr) { failed = unix.Flock(int(fd), unix.LOCK_EX|unix.LOCK_NB) })
		switch {
		case err == nil && failed == nil:
			return f, nil
		case errors.Is(failed, unix.EWOULDBLOCK):
			err = fmt.Errorf("%s: %w", f.Name(), errTaken)
		default:
			err = fmt.Errorf("locking %s: %w", f.Name(), errors.Join(err, failed))
		}
		if !errors.Is(err, errTaken) || time.Now().After(until) {
			f.Close()
			return nil, err
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, context.Cause(ctx)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
