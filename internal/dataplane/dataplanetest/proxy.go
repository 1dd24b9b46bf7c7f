package dataplanetest

import (
	"net"
	"net/rpc"
	"os"
	"os/exec"
	"syscall"
	"time"

	"fairlead.dev/fairlead/internal/dataplane"
	"fairlead.dev/fairlead/internal/lb"
)

// proxy is the process of a data plane, seen from the test.
type proxy struct {
	w    *world
	on   *host
	cmd  *exec.Cmd
	call *rpc.Client
	dead chan struct{}
}

// start starts a process of the data plane on a host. It serves nothing yet.
func (w *world) start(h *host) *proxy {
	w.Helper()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	w.must(err)
	ours, theirs := os.NewFile(uintptr(fds[0]), "ours"), os.NewFile(uintptr(fds[1]), "theirs")
	defer theirs.Close()
	conn, err := net.FileConn(ours)
	ours.Close()
	w.must(err)

	self, err := os.Executable()
	w.must(err)
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), hostEnv+"="+w.factory.Name)
	cmd.Stderr = os.Stderr
	cmd.ExtraFiles = []*os.File{theirs}
	w.must(h.ns.Start(cmd))
	p := &proxy{w: w, on: h, cmd: cmd, call: rpc.NewClient(conn), dead: make(chan struct{})}
	go func() {
		_ = cmd.Wait()
		close(p.dead)
	}()
	w.Cleanup(p.kill)
	return p
}

// kill ends the process as a crash does, and returns when it is gone.
func (p *proxy) kill() {
	p.call.Close()
	_ = p.cmd.Process.Kill()
	<-p.dead
}

func (p *proxy) ask(method string, args, out any) {
	p.w.Helper()
	if err := p.call.Call("Host."+method, args, out); err != nil {
		p.w.Fatalf("%s: %v", method, err)
	}
}

// recover begins a process's life, with what the one before applied last; nil: it is the first.
func (p *proxy) recover(lastGood *lb.Program) dataplane.Drift {
	p.w.Helper()
	var d dataplane.Drift
	p.ask("Recover", Programs{lastGood}, &d)
	return d
}

// apply serves what the services say and nothing else. Whatever is refused fails the test.
func (p *proxy) apply(services ...service) {
	p.w.Helper()
	if out := p.applyProgram(program(services...)); len(out.Outcome.Refused) > 0 {
		p.w.Fatalf("refused: %v", out.Outcome.Refused)
	}
}

func (p *proxy) applyProgram(next *lb.Program) Applied {
	p.w.Helper()
	var out Applied
	p.ask("Apply", Programs{next}, &out)
	return out
}

func (p *proxy) check(next *lb.Program) []lb.Problem {
	p.w.Helper()
	var out Problems
	p.ask("Check", Programs{next}, &out)
	return out.Problems
}

func (p *proxy) observe() dataplane.Observation {
	p.w.Helper()
	return p.observed().Observation
}

func (p *proxy) observed() Observed {
	p.w.Helper()
	var out Observed
	p.ask("Observe", Nothing{}, &out)
	return out
}

// draining counts the open connections of a draining member over all pools of the tenant.
func (p *proxy) draining(tenant lb.TenantID, m lb.Member) int64 {
	p.w.Helper()
	return p.observe().Draining[tenant][m.Key()]
}

// verdict is what the member's check found.
func (p *proxy) verdict(c lb.Check, m lb.Member) lb.Verdict {
	p.w.Helper()
	var out lb.Health
	p.ask("Verdicts", Nothing{}, &out)
	return out.Of(c, m.Address)
}

// close ends the data plane in order.
func (p *proxy) close(patience time.Duration) {
	p.w.Helper()
	p.ask("Close", Farewell{patience}, &Nothing{})
}
