package fleet

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"fairlead.dev/fairlead/internal/testkit"
)

// restartAfter is how long a program that died stays down, like RestartSec of systemd.
const restartAfter = time.Second

// stopTimeout is how long a program may take to end when it is asked to.
const stopTimeout = 5 * time.Second

// Program is a process that is kept running until it is told to stop.
type Program struct {
	// Name of the program, also of its log: NAME.log.
	Name    string
	Process *testkit.Process
	// Debug is where it serves its profiles, if it does.
	Debug netip.AddrPort
	// died is told of each end that nobody asked for.
	died func(p *Program, err error)

	mu sync.Mutex
	// watcher keeps the present run; nil: nobody asked for one.
	watcher *watcher
}

// watcher keeps one start of a program running until it is told to let go.
type watcher struct{ released chan struct{} }

// startProgram starts a command and keeps it running.
func startProgram(c testkit.Command, died func(*Program, error)) (*Program, error) {
	process, err := testkit.StartProcess(c)
	if err != nil {
		return nil, err
	}
	return keepProcess(process, died), nil
}

// keepProcess keeps a command running that runs already.
func keepProcess(process *testkit.Process, died func(*Program, error)) *Program {
	p := &Program{Name: process.Name(), Process: process, died: died}
	p.keep()
	return p
}

// letGo lets it end for good, from now on.
func (p *Program) letGo() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.release()
}

// LetGo lets it end for good, from now on, without being told to; Start starts it again.
func (p *Program) LetGo() { p.letGo() }

// hold keeps the present run after letGo.
func (p *Program) hold() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.release()
	p.keep()
}

// keep watches over the present run; p.mu is held, but by who made p.
func (p *Program) keep() {
	p.watcher = &watcher{released: make(chan struct{})}
	go p.watch(p.watcher, p.Process.Done())
}

// release ends that; p.mu is held.
func (p *Program) release() {
	if p.watcher != nil {
		close(p.watcher.released)
		p.watcher = nil
	}
}

// watch waits for the end of each run, and starts the next, until w is released.
func (p *Program) watch(w *watcher, done <-chan struct{}) {
	for {
		select {
		case <-w.released:
			return
		case <-done:
		}
		if !p.watched(w) {
			return
		}
		p.died(p, p.Process.Wait(context.Background()))
		select {
		case <-w.released:
			return
		case <-time.After(restartAfter):
		}
		if done = p.restart(w); done == nil {
			return
		}
	}
}

// watched says that w is not released.
func (p *Program) watched(w *watcher) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.watcher == w
}

// restart starts the next run, unless w is released. It returns the run's end.
func (p *Program) restart(w *watcher) <-chan struct{} {
	p.mu.Lock()
	if p.watcher != w {
		p.mu.Unlock()
		return nil
	}
	err := p.Process.Start()
	if err != nil {
		p.release()
	}
	p.mu.Unlock()
	if err != nil {
		p.died(p, err)
		return nil
	}
	return p.Process.Done()
}

// Stop asks it to end, as systemctl stop does, and waits until it has.
func (p *Program) Stop(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.release()
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	if err := p.Process.Stop(ctx); err != nil {
		return fmt.Errorf("stopping %s: %w", p.Name, err)
	}
	return nil
}

// Start starts it again after Stop.
func (p *Program) Start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.Process.Start(); err != nil {
		return err
	}
	p.keep()
	return nil
}

// Restart ends it, as systemctl restart does, and starts it again.
func (p *Program) Restart(ctx context.Context) error {
	if err := p.Stop(ctx); err != nil {
		return err
	}
	return p.Start()
}

// Replace has it run another binary: the present run ends, and the next one begins.
func (p *Program) Replace(ctx context.Context, binary string) error {
	if err := p.Stop(ctx); err != nil {
		return err
	}
	c := p.Process.Command()
	c.Path = binary
	next, err := testkit.StartProcess(c)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.Process = next
	p.keep()
	return nil
}

// beside starts the next run, of a binary, while the present one goes on, which is returned. Nobody keeps that any more.
func (p *Program) beside(binary string) (before *testkit.Process, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before = p.Process
	c := before.Command()
	c.Path = binary
	next, err := testkit.StartProcess(c)
	if err != nil {
		return nil, err
	}
	p.release()
	p.Process = next
	p.keep()
	return before, nil
}

// kill ends it at once, for the end of the demo.
func (p *Program) kill() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.release()
	return p.Process.Kill()
}
