package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestModulesThatBothRequireAgree(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	ours, err := requiredBy(write("go.mod", `module example.com/ours
require k8s.io/api v0.37.2
require (
	example.com/alone v1.0.0
	golang.org/x/net v0.50.0 // indirect
	golang.org/x/sys v0.41.0
)
`))
	if err != nil {
		t.Fatal(err)
	}
	kubes, err := requiredBy(write("kube.mod", `module example.com/kube
require (
	example.com/other v1.0.0
	golang.org/x/net v0.51.0 // indirect
	golang.org/x/sys v0.41.0
	k8s.io/api v0.37.1
)
`))
	if err != nil {
		t.Fatal(err)
	}
	got := disagreements(ours, kubes, "hack/kube/go.mod")
	if len(got) != 2 ||
		!strings.HasPrefix(got[0], "golang.org/x/net is v0.50.0 in go.mod and v0.51.0 in hack/kube/go.mod: ") ||
		!strings.HasPrefix(got[1], "k8s.io/api is v0.37.2 in go.mod and v0.37.1 in hack/kube/go.mod: ") {
		t.Errorf("got %q", got)
	}
}

func TestAFileThatIsNoModuleIsAnError(t *testing.T) {
	if got, err := requiredBy(filepath.Join(t.TempDir(), "go.mod")); err == nil {
		t.Errorf("got %v of no file", got)
	}
}
