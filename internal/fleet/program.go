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

	mu     sync.Mutex
	wanted bool
}

// startProgram starts a command and keeps it running.
func startProgram(c testkit.Command, died func(*Program, error)) (*Program, error) {
	process, err := testkit.StartProcess(c)
	if err != nil {
		return nil, err
	}
	p := &Program{Name: c.Name, Process: process, died: died, wanted: true}
	go p.watch(process.Done())
	return p, nil
}

// watch waits for the end of one run, and starts the next if nobody asked for that end.
func (p *Program) watch(done <-chan struct{}) {
	<-done
	if !p.isWanted() {
		return
	}
	p.died(p, p.Process.Wait(context.Background()))
	time.Sleep(restartAfter)
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.wanted {
		return
	}
	if err := p.Process.Start(); err != nil {
		p.wanted = false
		p.died(p, err)
		return
	}
	go p.watch(p.Process.Done())
}

func (p *Program) isWanted() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.wanted
}

// Stop asks it to end, as systemctl stop does, and waits until it has.
func (p *Program) Stop(ctx context.Context) error {
	p.mu.Lock()
	p.wanted = false
	p.mu.Unlock()
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
	p.wanted = true
	go p.watch(p.Process.Done())
	return nil
}

// kill ends it at once, for the end of the demo.
func (p *Program) kill() error {
	p.mu.Lock()
	p.wanted = false
	p.mu.Unlock()
	return p.Process.Kill()
}
