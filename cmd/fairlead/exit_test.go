package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A script tells "not served" (1) from "could not be asked" (2).
func TestExitCodes(t *testing.T) {
	unreachable := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(unreachable, []byte(`
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}]
contexts: [{name: c, context: {cluster: c}}]
current-context: c
`), 0o600); err != nil {
		t.Fatal(err)
	}
	for args, says := range map[string]string{
		"status --bogus":            "unknown flag",
		"status extra":              "extra",
		"explain service":           "accepts 1 arg",
		"explain nonsense":          "nonsense",
		"explain service web":       "--tenant",
		"status":                    "connection refused",
		"explain lb web -n prod-eu": "connection refused",
	} {
		if !strings.Contains(args, "--bogus") && !strings.HasSuffix(args, "nonsense") && !strings.HasSuffix(args, "explain service") {
			args += " --kubeconfig " + unreachable
		}
		root := newRootCommand()
		root.SetOut(io.Discard)
		root.SetErr(io.Discard)
		root.SetArgs(strings.Fields(args))
		err := root.ExecuteContext(t.Context())
		var code exit
		if !errors.As(err, &code) || code.code != 2 || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", args, err)
		}
	}
}

func TestEveryCommandHasHelp(t *testing.T) {
	for _, c := range newRootCommand().Commands() {
		if c.Short == "" || c.Name() == "explain" && !c.HasSubCommands() {
			t.Errorf("%s has no help", c.Name())
		}
	}
	for _, c := range []string{"status", "explain"} {
		found, _, err := newRootCommand().Find([]string{c})
		if err != nil || !strings.Contains(found.Long, "Exit codes:") {
			t.Errorf("%s doesn't document its exit codes: %v", c, err)
		}
	}
}
