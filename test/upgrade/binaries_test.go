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
	if commit, err = choose(root, candidates(t)); err != nil {
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

// candidates are the commits that may be upgraded from, the newest first.
func candidates(t *testing.T) []string {
	t.Helper()
	if commit := os.Getenv(fromEnv); commit != "" {
		return []string{commit}
	}
	b, err := os.ReadFile("baseline")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(b))
}

// choose returns the whole name of the first commit that is another version than this tree.
func choose(root string, commits []string) (string, error) {
	for _, commit := range commits {
		out, err := run(root, "git", "rev-parse", "--verify", "--quiet", commit+"^{commit}")
		if err != nil {
			return "", fmt.Errorf("commit %s, from which the test upgrades, isn't in this clone: run `git fetch --unshallow`, or clone without --depth (%w)", commit, err)
		}
		commit = strings.TrimSpace(out)
		if _, err := run(root, "git", append([]string{"diff", "--quiet", commit, "--"}, code...)...); err != nil {
			return commit, nil
		}
	}
	return "", fmt.Errorf("commits %v have the same code as this tree, so that nothing would be upgraded: name an older one", commits)
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
	shallow := filepath.Join(dir, "shallow")
	if _, err := choose(shallow, candidates(t)); err == nil || !strings.Contains(err.Error(), "git fetch --unshallow") {
		t.Errorf("in a shallow clone: %v", err)
	}
	if _, err := choose(shallow, []string{"HEAD"}); err == nil || !strings.Contains(err.Error(), "same code") {
		t.Errorf("from the same version: %v", err)
	}
	mustRun(t, shallow, "git", "rm", "-q", "-r", "cmd")
	mustRun(t, shallow, "git", "-c", "user.name=test", "-c", "user.email=test@example.com", "commit", "-q", "-m", "next")
	head, err := run(shallow, "git", "rev-parse", "HEAD~1")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := choose(shallow, []string{"HEAD", "HEAD~1"}); err != nil || got != strings.TrimSpace(head) {
		t.Errorf("from the version before: %q, %v", got, err)
	}
}
