package demo

import (
	"context"
	"fmt"
	"sync"
	"time"

	"fairlead.dev/fairlead/internal/testkit"
)

// restartAfter is how long a program that died stays down, like RestartSec of systemd.
const restartAfter = time.Second

// stopTimeout is how long a program may take to end when it is asked to.
const stopTimeout = 5 * time.Second

// program is a process that is kept running until it is told to stop.
type program struct {
	name    string
	process *testkit.Process
	// died is told of each end that nobody asked for.
	died func(program string, err error)

	mu     sync.Mutex
	wanted bool
}

// startProgram starts a command and keeps it running.
func startProgram(c testkit.Command, died func(string, error)) (*program, error) {
	process, err := testkit.StartProcess(c)
	if err != nil {
		return nil, err
	}
	p := &program{name: c.Name, process: process, died: died, wanted: true}
	go p.watch(process.Done())
	return p, nil
}

// watch waits for the end of one run, and starts the next if nobody asked for that end.
func (p *program) watch(done <-chan struct{}) {
	<-done
	if !p.isWanted() {
		return
	}
	p.died(p.name, p.process.Wait(context.Background()))
	time.Sleep(restartAfter)
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.wanted {
		return
	}
	if err := p.process.Start(); err != nil {
		p.wanted = false
		p.died(p.name, err)
		return
	}
	go p.watch(p.process.Done())
}

func (p *program) isWanted() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.wanted
}

// stop asks it to end, as systemctl stop does, and waits until it has.
func (p *program) stop(ctx context.Context) error {
	p.mu.Lock()
	p.wanted = false
	p.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	if err := p.process.Stop(ctx); err != nil {
		return fmt.Errorf("stopping %s: %w", p.name, err)
	}
	return nil
}

// start starts it again after stop.
func (p *program) start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.process.Start(); err != nil {
		return err
	}
	p.wanted = true
	go p.watch(p.process.Done())
	return nil
}

// kill ends it at once, for the end of the demo.
func (p *program) kill() error {
	p.mu.Lock()
	p.wanted = false
	p.mu.Unlock()
	return p.process.Kill()
}
