package e2e

import (
	"context"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/demo"
	"fairlead.dev/fairlead/internal/testkit"
)

// away is how long the hub is, for both stories take their time: a minute else. A node that dies in a quarter of it is found down within
// the rest.
const away = 20 * time.Second

// TestStory is `fairlead demo --check`: the same steps on the same code, with the hub away for a shorter time.
func TestStory(t *testing.T) { tell(t, "builtin") }

// TestStoryInKernel is the same with --dataplane nftables, in network namespaces.
func TestStoryInKernel(t *testing.T) { tell(t, "nftables") }

func tell(t *testing.T, dataplane string) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	if err := demo.Check(ctx, demo.Options{Self: build(ctx, t), Dataplane: dataplane, Away: away, Out: t.Output()}); err != nil {
		t.Fatal(err)
	}
}

// build builds what is tested: bin/fairlead may be older.
func build(ctx context.Context, t *testing.T) string {
	t.Helper()
	root, err := testkit.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	self := filepath.Join(t.TempDir(), "fairlead")
	build := exec.CommandContext(ctx, "go", "build", "-o", self, "./cmd/fairlead")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building fairlead: %s\n%s", err, out)
	}
	return self
}
