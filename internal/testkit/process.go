package testkit

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// tailBytes of a log go into errors.
const tailBytes = 4 << 10

// Command says what to run.
type Command struct {
	// Name in errors. Default: Path.
	Name string
	Path string
	Args []string
	// Env is added to this process's own environment.
	Env []string
	// Dir to run in. Default: this process's own.
	Dir string
	// DropCapabilities are numbers of Linux capabilities that the command, and what it
	// starts, can't have even as root. Only root may drop any.
	DropCapabilities []uintptr
	// Attributes changes how the kernel starts it: under another user, with capabilities. Default: as this process is.
	Attributes func(*syscall.SysProcAttr)
	// Host to run on. Default: this one.
	Host Host
	// Log is the file that stdout and stderr are appended to. Default: none.
	Log string
}

// Host is a place other than this process's own where processes run: a network namespace.
type Host interface {
	// Enter takes the calling thread, which must be locked, to the host.
	Enter() error
	// Dial connects from there, as the dialer says. The address must be numeric.
	Dial(ctx context.Context, d net.Dialer, network, address string) (net.Conn, error)
}

// Process is a command that runs, ran, and may run again. It is safe for concurrent use.
type Process struct {
	command Command

	mu      sync.Mutex
	current *run // the latest; never nil after StartProcess
}

// run is one life of a Process.
type run struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error // valid once done is closed; nil after exit status 0
}

// StartProcess starts a command. It runs in a process group of its own, so that a
// Ctrl-C in the terminal does not reach it, and is killed when this process ends.
func StartProcess(c Command) (*Process, error) {
	if c.Name == "" {
		c.Name = c.Path
	}
	p := &Process{command: c}
	if err := p.Start(); err != nil {
		return nil, err
	}
	return p, nil
}

// Start starts the command again after it ended. It is an error while it runs.
func (p *Process) Start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.current != nil && p.current.alive() {
		return fmt.Errorf("starting %s: it runs already", p.command.Name)
	}
	r, err := start(p.command)
	if err != nil {
		return fmt.Errorf("starting %s: %w", p.command.Name, err)
	}
	p.current = r
	return nil
}

func start(c Command) (*run, error) {
	cmd := exec.Command(c.Path, c.Args...)
	cmd.Dir = c.Dir
	cmd.Env = append(os.Environ(), c.Env...)
	cmd.SysProcAttr = procAttr()
	if c.Attributes != nil {
		c.Attributes(cmd.SysProcAttr)
	}
	if c.Log != "" {
		f, err := os.OpenFile(c.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err != nil {
			return nil, err
		}
		defer f.Close() // the child has its own
		cmd.Stdout, cmd.Stderr = f, f
	}
	r := &run{cmd: cmd, done: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		// The kernel sends the parent death signal when the thread that forked ends,
		// and Go ends and moves threads at will. So this goroutine keeps its thread
		// until the child is gone; then the thread ends with it.
		runtime.LockOSThread()
		err := dropCapabilities(c.DropCapabilities)
		if err == nil && c.Host != nil {
			err = c.Host.Enter()
		}
		if err == nil {
			err = cmd.Start()
		}
		started <- err
		if err != nil {
			return
		}
		r.err = cmd.Wait()
		close(r.done)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return r, nil
}

func (r *run) alive() bool {
	select {
	case <-r.done:
		return false
	default:
		return true
	}
}

func (p *Process) latest() *run {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.current
}

// Command is what it runs.
func (p *Process) Command() Command { return p.command }

// Name is what errors call it.
func (p *Process) Name() string { return p.command.Name }

// PID of the present run, or of the last one.
func (p *Process) PID() int { return p.latest().cmd.Process.Pid }

// Running tells whether it runs; a paused process runs.
func (p *Process) Running() bool { return p.latest().alive() }

// Done is closed when the present run ends. After Start it is another channel.
func (p *Process) Done() <-chan struct{} { return p.latest().done }

// Signal sends a signal to the present run; os.ErrProcessDone if it has ended.
func (p *Process) Signal(s os.Signal) error {
	r := p.latest()
	if !r.alive() {
		return fmt.Errorf("signalling %s: %w", p.command.Name, os.ErrProcessDone)
	}
	if err := r.cmd.Process.Signal(s); err != nil {
		return fmt.Errorf("signalling %s: %w", p.command.Name, err)
	}
	return nil
}

// pauseTimeout is how long a process may take to stop; a busy machine needs a moment.
const pauseTimeout = 10 * time.Second

// Pause stops it with SIGSTOP and returns when it has stopped: its sockets stay open
// and nobody answers.
func (p *Process) Pause() error {
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), pauseTimeout)
	defer cancel()
	return Poll(ctx, time.Millisecond, p.command.Name+" to stop", func(context.Context) error { return stopped(p.PID()) })
}

// Resume ends a Pause.
func (p *Process) Resume() error { return p.Signal(syscall.SIGCONT) }

// Wait waits until it ends and returns how: nil for exit status 0, else an error with
// the end of its log. If ctx ends first, that is the error.
func (p *Process) Wait(ctx context.Context) error {
	r := p.latest()
	select {
	case <-r.done:
		return p.describe(r.err)
	case <-ctx.Done():
		return fmt.Errorf("waiting for %s to end: %w", p.command.Name, ctx.Err())
	}
}

// Stop asks it to end (SIGTERM, and SIGCONT in case it is paused) and kills it if it
// still runs when ctx ends. It returns nil once it has ended, in whatever way.
func (p *Process) Stop(ctx context.Context) error {
	r := p.latest()
	if err := p.end(syscall.SIGTERM); err != nil {
		return err
	}
	_ = r.cmd.Process.Signal(syscall.SIGCONT) // it may be gone by now
	select {
	case <-r.done:
		return nil
	case <-ctx.Done():
		return p.Kill()
	}
}

// Kill ends it with SIGKILL and waits until it is gone.
func (p *Process) Kill() error {
	r := p.latest()
	if err := p.end(syscall.SIGKILL); err != nil {
		return err
	}
	<-r.done
	return nil
}

func (p *Process) end(s os.Signal) error {
	if err := p.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

// Restart is Stop and Start.
func (p *Process) Restart(ctx context.Context) error {
	if err := p.Stop(ctx); err != nil {
		return err
	}
	return p.Start()
}

// LogTail returns the end of its log file, for error messages.
func (p *Process) LogTail() string {
	if p.command.Log == "" {
		return ""
	}
	f, err := os.Open(p.command.Log)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	size := int64(0)
	if info, err := f.Stat(); err == nil {
		size = info.Size()
	}
	from := max(0, size-tailBytes)
	buf := make([]byte, size-from)
	n, _ := f.ReadAt(buf, from) // what could be read is what can be shown
	text := string(buf[:n])
	if _, rest, cut := strings.Cut(text, "\n"); cut && from > 0 {
		text = rest
	}
	return text
}

// describe adds the process's name and the end of its log to how it ended.
func (p *Process) describe(err error) error {
	if err == nil {
		return nil
	}
	if tail := p.LogTail(); tail != "" {
		return fmt.Errorf("%s: %w; end of %s:\n%s", p.command.Name, err, p.command.Log, tail)
	}
	return fmt.Errorf("%s: %w", p.command.Name, err)
}
