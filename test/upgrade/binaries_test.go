package upgrade

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"fairlead.dev/fairlead/internal/testkit"
)

// fromEnv names a commit to upgrade from instead of the baseline.
const fromEnv = "FAIRLEAD_UPGRADE_FROM"

// code is what must differ between two versions for their difference to be worth a test.
var code = []string{"api", "cmd", "internal", "config"}

// binaries builds the version before, which is that of a commit, and this one.
func binaries(t *testing.T) (commit, before, now string) {
	t.Helper()
	root, err := testkit.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	commit = os.Getenv(fromEnv)
	if commit == "" {
		b, err := os.ReadFile("baseline")
		if err != nil {
			t.Fatal(err)
		}
		commit = strings.TrimSpace(string(b))
	}
	if commit, err = resolve(root, commit); err != nil {
		t.Fatal(err)
	}
	before = filepath.Join(root, "bin", "fairlead-"+commit[:12])
	if _, err := os.Stat(before); err != nil {
		source := t.TempDir()
		archive := filepath.Join(source, "source.tar")
		mustRun(t, root, "git", "archive", "--format=tar", "--output="+archive, commit)
		mustRun(t, source, "tar", "-xf", archive)
		// Beside it first: what is there is whole.
		mustRun(t, source, "go", "build", "-o", before+".new", "./cmd/fairlead")
		if err := os.Rename(before+".new", before); err != nil {
			t.Fatal(err)
		}
	}
	now = filepath.Join(t.TempDir(), "fairlead")
	mustRun(t, root, "go", "build", "-o", now, "./cmd/fairlead")
	return commit, before, now
}

// resolve returns the whole name of a commit that this clone has and that is another version than this tree.
func resolve(root, commit string) (string, error) {
	out, err := run(root, "git", "rev-parse", "--verify", "--quiet", commit+"^{commit}")
	if err != nil {
		return "", fmt.Errorf("commit %s, from which the test upgrades, isn't in this clone: run `git fetch --unshallow`, or clone without --depth (%w)", commit, err)
	}
	commit = strings.TrimSpace(out)
	if _, err := run(root, "git", append([]string{"diff", "--quiet", commit, "--"}, code...)...); err == nil {
		return "", fmt.Errorf("commit %s has the same code as this tree, so that nothing would be upgraded: name an older one", commit)
	}
	return commit, nil
}

func mustRun(t *testing.T, dir, name string, args ...string) {
	t.Helper()
	if _, err := run(dir, name, args...); err != nil {
		t.Fatal(err)
	}
}

func run(dir, name string, args ...string) (string, error) {
	c := exec.Command(name, args...)
	c.Dir, c.Env = dir, append(os.Environ(), "CGO_ENABLED=0")
	out, err := c.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out), nil
}

// A clone that lacks the commit says what to do, and a version is not upgraded to itself.
func TestWhatIsUpgradedFrom(t *testing.T) {
	root, err := testkit.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	mustRun(t, dir, "git", "clone", "--quiet", "--depth=1", "file://"+root, "shallow")
	b, err := os.ReadFile("baseline")
	if err != nil {
		t.Fatal(err)
	}
	shallow := filepath.Join(dir, "shallow")
	if _, err := resolve(shallow, strings.TrimSpace(string(b))); err == nil || !strings.Contains(err.Error(), "git fetch --unshallow") {
		t.Errorf("in a shallow clone: %v", err)
	}
	if _, err := resolve(shallow, "HEAD"); err == nil || !strings.Contains(err.Error(), "same code") {
		t.Errorf("from the same version: %v", err)
	}
	mustRun(t, shallow, "git", "rm", "-q", "-r", "cmd")
	if _, err := resolve(shallow, "HEAD"); err != nil {
		t.Errorf("from the version before: %v", err)
	}
}
