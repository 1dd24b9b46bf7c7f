package testkit

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
)

// parentEnv makes the test binary play a parent that starts a child and is then killed.
const parentEnv = "TESTKIT_PLAY_PARENT"

func TestMain(m *testing.M) {
	if log := os.Getenv(parentEnv); log != "" {
		playParent(log)
	}
	ctrllog.SetLogger(logr.Discard()) // else controller-runtime complains that nobody did
	os.Exit(m.Run())
}

func playParent(log string) {
	p, err := StartProcess(Command{Path: "sleep", Args: []string{"600"}, Log: log})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	if err := p.Pause(); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(p.PID())
	select {}
}

func eventually(t *testing.T, d time.Duration, what string, f func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	if err := Poll(ctx, 10*time.Millisecond, what, f); err != nil {
		t.Fatal(err)
	}
}

func startShell(t *testing.T, script string) *Process {
	t.Helper()
	p, err := StartProcess(Command{Name: "shell", Path: "/bin/sh", Args: []string{"-c", script}, Log: filepath.Join(t.TempDir(), "log")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Kill(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func TestWaitReturnsTheEndOfTheLog(t *testing.T) {
	p := startShell(t, "echo no such luck; exit 3")
	err := p.Wait(t.Context())
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 3 || !strings.Contains(err.Error(), "no such luck") {
		t.Fatalf("got %v", err)
	}
	if p.Running() {
		t.Error("it still runs")
	}
	if err := p.Signal(syscall.SIGTERM); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("signal after the end: %v", err)
	}
}

func TestStopKillsWhatIgnoresSIGTERM(t *testing.T) {
	p := startShell(t, "trap '' TERM; echo up; while :; do sleep 0.01; done")
	eventually(t, 10*time.Second, "the trap", func(context.Context) error {
		if !strings.Contains(p.LogTail(), "up") {
			return errors.New("not set")
		}
		return nil
	})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := p.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	if p.Running() {
		t.Error("it still runs")
	}
}

func TestStopReachesAPausedProcess(t *testing.T) {
	p := startShell(t, "exec sleep 600")
	if err := p.Pause(); err != nil {
		t.Fatal(err)
	}
	eventually(t, 10*time.Second, "the pause", func(context.Context) error {
		if s := state(p.PID()); s != "T" {
			return fmt.Errorf("state %s", s)
		}
		return nil
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := p.Stop(ctx); err != nil || ctx.Err() != nil {
		t.Fatal(err, ctx.Err())
	}
}

func TestRestartIsANewRunWithTheSameLog(t *testing.T) {
	p := startShell(t, "echo run; exec sleep 600")
	first := p.PID()
	if err := p.Start(); err == nil {
		t.Error("started twice")
	}
	eventually(t, 10*time.Second, "the first line", func(context.Context) error { return logLines(p, 1) })
	if err := p.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if p.PID() == first || !p.Running() {
		t.Error("no new run")
	}
	eventually(t, 10*time.Second, "the second line", func(context.Context) error { return logLines(p, 2) })
}

func logLines(p *Process, want int) error {
	if n := strings.Count(p.LogTail(), "run\n"); n != want {
		return fmt.Errorf("%d lines", n)
	}
	return nil
}

// The child is paused, so nothing but the kernel can end it.
func TestChildDiesWithAKilledParent(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	parent := exec.Command(self)
	parent.Env = append(os.Environ(), parentEnv+"="+filepath.Join(t.TempDir(), "log"))
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	var child int
	if _, err := fmt.Fscan(bufio.NewReader(out), &child); err != nil {
		t.Fatal(err)
	}
	if s := state(child); s == "" || s == "Z" {
		t.Fatalf("child %d does not run", child)
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait() // "signal: killed", as wanted
	eventually(t, 10*time.Second, "the child's end", func(context.Context) error {
		if s := state(child); s != "" && s != "Z" {
			return fmt.Errorf("state %s", s)
		}
		return nil
	})
}

// state is the process's letter in /proc, "" if it is gone.
func state(pid int) string {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return rest[:1]
}
