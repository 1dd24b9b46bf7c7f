package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
)

// helper is this program again, in a host of its own, doing one thing. It is asked over a pipe,
// one JSON value a question and an answer, and ends with the pipe.
type helper struct {
	name    string
	cmd     *exec.Cmd
	in      io.WriteCloser
	mu      sync.Mutex // held from question to answer
	ask     *json.Encoder
	answers *json.Decoder
}

// start begins a helper's role on a host.
func (h *host) start(role string) (*helper, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &helper{name: role + " on " + h.Name()}
	p.cmd = exec.Command(self, roleArg, role)
	p.cmd.Stderr = os.Stderr
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := h.spawn(p.cmd); err != nil {
		return nil, err
	}
	p.ask, p.answers = json.NewEncoder(p.in), json.NewDecoder(bufio.NewReader(out))
	return p, nil
}

// spawn starts a program on the host. It dies with this program at the latest, and gets
// no signal from the terminal: this program ends it.
func (h *host) spawn(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := h.Start(cmd); err != nil {
		return fmt.Errorf("starting %s on %s: %w", cmd.Path, h.Name(), err)
	}
	return nil
}

// call asks and waits for the answer. When ctx ends the helper is killed.
func (p *helper) call(ctx context.Context, op string, params, result any) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { p.cmd.Process.Kill() })()
	raw, err := json.Marshal(params)
	if err != nil {
		return err
	}
	if err := p.ask.Encode(question{op, raw}); err != nil {
		return fmt.Errorf("asking %s: %w", p.name, cmp.Or(context.Cause(ctx), err))
	}
	var a answer
	if err := p.answers.Decode(&a); err != nil {
		return fmt.Errorf("%s of %s: no answer: %w", op, p.name, cmp.Or(context.Cause(ctx), err))
	}
	if a.Error != "" {
		return fmt.Errorf("%s of %s: %s", op, p.name, a.Error)
	}
	if result == nil {
		return nil
	}
	return json.Unmarshal(a.Result, result)
}

// stop ends the helper. What it did is undone with its host.
func (p *helper) stop() {
	p.in.Close()
	p.cmd.Process.Kill()
	p.cmd.Wait()
}

const roleArg = "as"

type question struct {
	Op     string          `json:"op"`
	Params json.RawMessage `json:"params"`
}

type answer struct {
	Error  string          `json:"error,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
}

// ops are what a role can be asked, by name.
type ops map[string]func(json.RawMessage) (any, error)

// op makes a function of its parameters one of a role's.
func op[P, R any](f func(P) (R, error)) func(json.RawMessage) (any, error) {
	return func(raw json.RawMessage) (any, error) {
		var p P
		if err := json.Unmarshal(raw, &p); err != nil {
			return nil, err
		}
		return f(p)
	}
}

// nothing is no parameter, or no result.
type nothing struct{}

// play answers for a role until the pipe ends.
func play(role string) error {
	known := map[string]func() ops{"server": serverOps, "generator": generatorOps, "probe": probeOps, "plane": planeOps, "holder": holderOps, "sender": senderOps}
	make, ok := known[role]
	if !ok {
		return fmt.Errorf("no such role: %s", role)
	}
	answers := make()
	in, out := json.NewDecoder(bufio.NewReader(os.Stdin)), json.NewEncoder(os.Stdout)
	for {
		var q question
		if err := in.Decode(&q); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		var a answer
		f, ok := answers[q.Op]
		if !ok {
			return fmt.Errorf("%s can't %s", role, q.Op)
		}
		if r, err := f(q.Params); err != nil {
			a.Error = err.Error()
		} else if a.Result, err = json.Marshal(r); err != nil {
			a.Error = err.Error()
		}
		if err := out.Encode(a); err != nil {
			return err
		}
	}
}
