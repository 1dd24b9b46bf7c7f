package fleet

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/testkit"
)

func TestProgramThatDiesIsRestarted(t *testing.T) {
	t.Parallel()
	died := make(chan string, 10)
	p, err := startProgram(testkit.Command{Name: "sleeper", Path: "/bin/sleep", Args: []string{"60"}}, func(p *Program, err error) {
		died <- p.Name + ": " + err.Error()
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := p.kill(); err != nil {
			t.Error(err)
		}
	}()
	first := p.Process.PID()
	if err := p.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if got := <-died; !strings.HasPrefix(got, "sleeper: ") {
		t.Errorf("told of %q", got)
	}
	err = testkit.Poll(t.Context(), 10*time.Millisecond, "the restart", func(ctx context.Context) error {
		if !p.Process.Running() || p.Process.PID() == first {
			return errors.New("it does not run")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	// What is asked for is no death.
	if err := p.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	select {
	case what := <-died:
		t.Errorf("a stop that was asked for counts as a death: %s", what)
	default:
	}
}

// Stopped and started while a restart is due: the run that was asked for is kept like the first.
func TestProgramStoppedAndStartedRightAfterADeathIsKept(t *testing.T) {
	t.Parallel()
	died := make(chan string, 10)
	p, err := startProgram(testkit.Command{Name: "sleeper", Path: "/bin/sleep", Args: []string{"60"}}, func(p *Program, err error) {
		died <- err.Error()
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := p.kill(); err != nil {
			t.Error(err)
		}
	}()
	if err := p.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-died
	if err := p.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	started := p.Process.PID()
	// The restart that was due is over by then.
	select {
	case what := <-died:
		t.Errorf("the run that was asked for counts as dead: %s", what)
	case <-time.After(restartAfter + 300*time.Millisecond):
	}
	if !p.Process.Running() || p.Process.PID() != started {
		t.Errorf("running %v as %d, started as %d", p.Process.Running(), p.Process.PID(), started)
	}
	if err := p.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-died
	err = testkit.Poll(t.Context(), 10*time.Millisecond, "the restart", func(context.Context) error {
		if !p.Process.Running() || p.Process.PID() == started {
			return errors.New("it does not run")
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
