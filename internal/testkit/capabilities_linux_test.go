package testkit_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"fairlead.dev/fairlead/internal/testkit"
)

// effective reads which capabilities a child has that drops some.
func effective(t *testing.T, drop ...uintptr) uint64 {
	t.Helper()
	command := testkit.Command{Path: "/bin/cat", Args: []string{"/proc/self/status"}, Log: filepath.Join(t.TempDir(), "log"), DropCapabilities: drop}
	p, err := testkit.StartProcess(command)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	status, err := os.ReadFile(command.Log)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if value, found := strings.CutPrefix(line, "CapEff:"); found {
			set, err := strconv.ParseUint(strings.TrimSpace(value), 16, 64)
			if err != nil {
				t.Fatal(err)
			}
			return set
		}
	}
	t.Fatalf("no CapEff in %s", status)
	return 0
}

func TestDroppedCapabilityIsGoneInThatChildAlone(t *testing.T) {
	const bind = 1 << unix.CAP_NET_BIND_SERVICE
	ours := effective(t)
	if os.Geteuid() != 0 {
		if ours&bind != 0 {
			t.Error("a child of a plain user may bind port 80")
		}
		return
	}
	if got := effective(t, unix.CAP_NET_BIND_SERVICE); got != ours&^bind {
		t.Errorf("a child that drops it has %x, others have %x", got, ours)
	}
	if got := effective(t); got != ours {
		t.Errorf("the next child has %x, the one before had %x", got, ours)
	}
}
