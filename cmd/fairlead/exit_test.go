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
		"status --bogus":                                "unknown flag",
		"status extra":                                  "extra",
		"explain service":                               "accepts 1 arg",
		"explain nonsense":                              "nonsense",
		"explain service web":                           "--tenant",
		"explain service web -o xml --tenant a":         "--output \"xml\": must be one of json, yaml",
		"explain node node-1":                           "--tenant",
		"explain node":                                  "accepts 1 arg",
		"explain address 192.0.2":                       "\"192.0.2\" is neither an IP address nor the name of an Address",
		"explain address 192.0.2.1%eth0":                "is neither an IP address",
		"explain address 192.0.2.1":                     "connection refused",
		"explain proxy":                                 "accepts 1 arg",
		"explain proxy edge-1":                          "connection refused",
		"explain proxy edge-1 --timeout -1s":            "--timeout -1s: must be more than 0s",
		"check extra":                                   "extra",
		"check --tenant prod-eu":                        "--tenant and --tenant-kubeconfig go together",
		"check":                                         "connection refused",
		"drain node node-1 --hub-namespace a":           "give --tenant-kubeconfig, or --dry-run",
		"drain node node-1 --tenant a --undo --dry-run": "--undo goes with neither --dry-run nor --force",
		"drain node node-1 --dry-run":                   "--tenant",
		"drain node node-1 --hub-namespace a --dry-run": "connection refused",
		"drain target":                                  "accepts between 1 and 2 arg",
		"drain target db db-1 more":                     "accepts between 1 and 2 arg",
		"drain target db db-1":                          "connection refused",
		"manager leave extra":                           "unknown command",
		"manager leave --bogus":                         "unknown flag",
		"manager leave -o wide":                         "--output \"wide\": must be one of json, yaml",
		"manager leave":                                 "connection refused",
		"drain nonsense":                                "nonsense",
		"status":                                        "connection refused",
		"explain lb web -n prod-eu":                     "connection refused",
	} {
		root := newRootCommand()
		root.SetOut(io.Discard)
		root.SetErr(io.Discard)
		words := strings.Fields(args)
		if !strings.HasSuffix(args, "nonsense") {
			words = append(words, "--kubeconfig", unreachable)
		}
		root.SetArgs(words)
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
	for _, c := range []string{"status", "check", "drain", "drain node", "drain target", "explain", "explain service", "explain loadbalancer", "explain node", "explain address", "explain proxy", "manager leave"} {
		found, _, err := newRootCommand().Find(strings.Fields(c))
		if err != nil || !strings.Contains(found.Long, "Exit codes:") {
			t.Errorf("%s doesn't document its exit codes: %v", c, err)
		}
	}
}
