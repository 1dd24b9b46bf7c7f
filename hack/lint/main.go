// Command lint holds the tree to its import rules: what each folder may know
// of; go.mod to those of the modules beside it: what both require has one version; and what
// decides to clocks that don't jump. It prints each breach, and exits with 1. It runs in the root of the repository.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

const module = "fairlead.dev/fairlead"

// rule says what the packages below Folder may import. A path in Only or
// Never covers all below it; the standard library is always allowed but where
// Never names it.
type rule struct {
	Folder string
	// Only these, besides the standard library.
	Only []string
	// Never these.
	Never []string
	Why   string
}

var rules = []rule{
	{Folder: "api", Only: []string{"k8s.io/apimachinery", module + "/api"},
		Why: "kinds are imported by everybody's clients"},
	{Folder: "internal/lb", Only: []string{module + "/internal/lb"},
		Why: "the model knows nothing of Kubernetes, clouds and proxies (design: the model)"},
	{Folder: "internal/dataplane", Never: []string{"k8s.io", "sigs.k8s.io", module + "/api", module + "/internal/build"},
		Why: "a data plane sees the model only"},
	{Folder: "internal/dataplane/builtin", Never: []string{module + "/internal/dataplane/nftables"},
		Why: "a data plane is a folder, which another one does not need"},
	{Folder: "internal/dataplane/nftables", Never: []string{module + "/internal/dataplane/builtin"},
		Why: "a data plane is a folder, which another one does not need"},
	{Folder: "internal/dataplane/hostaddr", Never: []string{module + "/internal/dataplane/builtin", module + "/internal/dataplane/nftables"},
		Why: "what data planes share knows none of them"},
	{Folder: "internal/dataplane/nl", Only: []string{"golang.org/x/sys"},
		Why: "what data planes share knows none of them"},
	{Folder: "internal/health", Never: []string{"k8s.io", "sigs.k8s.io", module + "/api", module + "/internal/build"},
		Why: "health checks see the model only"},
	{Folder: "internal/resolve", Never: []string{"k8s.io", "sigs.k8s.io", module + "/api", module + "/internal/build"},
		Why: "names are followed for whoever asks"},
	{Folder: "internal/traffic", Never: []string{"k8s.io", "sigs.k8s.io", module + "/internal/proxy", module + "/internal/controller", module + "/internal/agent"},
		Why: "the judge of traffic is a client like any other"},
	{Folder: "internal/build", Never: []string{"k8s.io/client-go", "sigs.k8s.io/controller-runtime", module + "/internal/dataplane"},
		Why: "objects to model is a pure function"},
	{Folder: "internal/ipam", Never: []string{"k8s.io/client-go", "sigs.k8s.io/controller-runtime"},
		Why: "the ledger's decisions are pure"},
	{Folder: "internal/proof", Never: []string{"k8s.io/client-go", "sigs.k8s.io/controller-runtime"},
		Why: "what may be believed is a pure function"},
	{Folder: "internal/member", Never: []string{"k8s.io/client-go", "sigs.k8s.io/controller-runtime"},
		Why: "what is wanted of a member is a pure function"},
	{Folder: "internal/endpoint", Only: []string{},
		Why: "who is told which endpoint is a pure function"},
	{Folder: "internal/proxy", Never: []string{module + "/internal/dataplane/builtin", module + "/internal/dataplane/nftables", module + "/internal/controller", module + "/internal/agent", "sigs.k8s.io/controller-runtime"},
		Why: "implementations are named in internal/app/registry.go alone"},
	{Folder: "internal/controller", Never: []string{module + "/internal/dataplane", module + "/internal/proxy", module + "/internal/agent"},
		Why: "the manager sees the hub's objects only"},
	{Folder: "provider", Never: []string{module + "/internal/app", module + "/internal/controller", module + "/internal/dataplane", module + "/internal/proxy", module + "/internal/agent", module + "/internal/testkit"},
		Why: "the SDK is imported by everybody's providers"},
	{Folder: "provider/contract", Only: []string{"k8s.io/apimachinery", module + "/api", module + "/provider/contract"},
		Why: "kinds are imported by everybody's clients"},
	{Folder: "examples/foo-provider", Never: []string{module + "/internal"},
		Why: "it shows that the public SDK is enough for a provider"},
	{Folder: "examples/fks-provider", Never: []string{module + "/internal"},
		Why: "it shows that the public SDK is enough for a provider of clusters"},
	{Folder: "internal/yield", Never: []string{module},
		Why: "what puts writes off knows nothing of what is written"},
	{Folder: "internal/agent", Never: []string{module + "/internal/dataplane", module + "/internal/proxy", module + "/internal/controller"},
		Why: "the agent sees two API servers only"},
}

type pkg struct {
	ImportPath string
	Imports    []string
}

func main() {
	if err := run(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "lint:", err)
		os.Exit(1)
	}
}

func run(out io.Writer) error {
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports", "./...")
	cmd.Stderr = os.Stderr
	b, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("listing packages: %w", err)
	}
	broken := 0
	for dec := json.NewDecoder(strings.NewReader(string(b))); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return fmt.Errorf("reading the list of packages: %w", err)
		}
		for _, msg := range breaches(p) {
			fmt.Fprintln(out, msg)
			broken++
		}
	}
	var errs []error
	if broken > 0 {
		errs = append(errs, fmt.Errorf("%d imports break a rule; the rules are in hack/lint/main.go", broken))
	}
	return errors.Join(append(errs, checkVersions(out), checkClock(out, "."))...)
}

// breaches names each import of p that breaks a rule.
func breaches(p pkg) []string {
	var out []string
	for _, r := range rules {
		if !below(p.ImportPath, module+"/"+r.Folder) {
			continue
		}
		for _, i := range p.Imports {
			if forbidden(r, i) {
				out = append(out, fmt.Sprintf("%s imports %s: %s", p.ImportPath, i, r.Why))
			}
		}
	}
	return out
}

func forbidden(r rule, path string) bool {
	for _, n := range r.Never {
		if below(path, n) {
			return true
		}
	}
	if r.Only == nil || isStandard(path) {
		return false
	}
	for _, o := range r.Only {
		if below(path, o) {
			return false
		}
	}
	return true
}

// isStandard: only the standard library has no dot in its first path element.
func isStandard(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return !strings.Contains(first, ".")
}

func below(path, parent string) bool {
	return path == parent || strings.HasPrefix(path, parent+"/")
}
