package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// asProgram has the test binary be the program, to see what it does under another name.
const asProgram = "FAIRLEAD_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// linked runs the program under a name, as a link on the PATH does.
func linked(t *testing.T, name string, args ...string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), name)
	if err := os.Symlink(self, link); err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), link, args...)
	c.Env = append(os.Environ(), asProgram+"=yes")
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// As kubectl-fairlead it calls itself what people type.
func TestAsAPluginOfKubectl(t *testing.T) {
	if out := linked(t, "kubectl-fairlead", "explain", "node", "--help"); !strings.Contains(out, "kubectl fairlead explain node NAME") {
		t.Error(out)
	}
	if out := linked(t, "fairlead", "explain", "node", "--help"); strings.Contains(out, "kubectl fairlead") {
		t.Error(out)
	}
}

// kubectl runs kubectl_complete-fairlead with the words after "kubectl fairlead", and reads what cobra's completion prints.
func TestCompletionForKubectl(t *testing.T) {
	out := linked(t, "kubectl_complete-fairlead", "explain", "")
	for _, kind := range []string{"service", "loadbalancer", "node", "address", "proxy"} {
		if !strings.Contains(out, "\n"+kind+"\t") && !strings.HasPrefix(out, kind+"\t") {
			t.Errorf("%s is not among\n%s", kind, out)
		}
	}
	if !strings.Contains(out, "\n:4\n") {
		t.Errorf("files are completed as well:\n%s", out)
	}
	if out := linked(t, "kubectl_complete-fairlead", "status", "-o", ""); !strings.HasPrefix(out, "json\nyaml\nwide\n:4\n") {
		t.Error(out)
	}
}

// Each shell gets its script.
func TestCompletionScripts(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		root := newRootCommand()
		var b bytes.Buffer
		root.SetOut(&b)
		root.SetArgs([]string{"completion", shell})
		if err := root.ExecuteContext(t.Context()); err != nil || !strings.Contains(b.String(), cobra.ShellCompRequestCmd) && shell != "bash" || b.Len() == 0 {
			t.Errorf("%s: %v, %d bytes", shell, err, b.Len())
		}
	}
}
