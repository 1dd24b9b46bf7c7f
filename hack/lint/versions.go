package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
)

// beside are the modules beside ours that are built on the same machines, and which of what they share with us must have one version: these
// paths and all below them; nil is all. MetalLB and Cluster API don't compile with newer Kubernetes libraries than their own, nor these with much of what we have.
var beside = map[string][]string{
	"hack/kube/go.mod":       nil,
	"hack/metallb/go.mod":    commonly,
	"hack/capi/go.mod":       commonly,
	"hack/clusterctl/go.mod": commonly,
	"test/capi/go.mod":       append([]string{"k8s.io", "sigs.k8s.io/controller-runtime"}, commonly...),
}

// commonly are those that hang on nothing of Kubernetes.
var commonly = []string{"golang.org/x/crypto", "golang.org/x/net", "golang.org/x/sync", "golang.org/x/sys", "golang.org/x/text", "google.golang.org/protobuf", "github.com/prometheus"}

func checkVersions(out io.Writer) error {
	ours, err := requiredBy("go.mod")
	if err != nil {
		return err
	}
	found := 0
	for _, file := range slices.Sorted(maps.Keys(beside)) {
		theirs, err := requiredBy(file)
		if err != nil {
			return err
		}
		if held := beside[file]; held != nil {
			maps.DeleteFunc(theirs, func(path, _ string) bool {
				return !slices.ContainsFunc(held, func(h string) bool { return below(path, h) })
			})
		}
		for _, msg := range disagreements(ours, theirs, file) {
			fmt.Fprintln(out, msg)
			found++
		}
	}
	if found > 0 {
		return fmt.Errorf("%d modules have two versions", found)
	}
	return nil
}

// versions are what a go.mod requires, by module.
type versions map[string]string

func requiredBy(file string) (versions, error) {
	cmd := exec.Command("go", "mod", "edit", "-json", file)
	cmd.Stderr = os.Stderr
	b, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", file, err)
	}
	var mod struct {
		Require []struct{ Path, Version string }
	}
	if err := json.Unmarshal(b, &mod); err != nil {
		return nil, fmt.Errorf("reading %s: %w", file, err)
	}
	out := versions{}
	for _, r := range mod.Require {
		out[r.Path] = r.Version
	}
	return out, nil
}

// disagreements names each module that both require, in different versions; file is theirs.
func disagreements(ours, theirs versions, file string) []string {
	var out []string
	for _, path := range slices.Sorted(maps.Keys(ours)) {
		if v, both := theirs[path]; both && v != ours[path] {
			out = append(out, fmt.Sprintf("%s is %s in go.mod and %s in %s: require the same version, so that both share one compile cache; "+
				"else it, and all that imports it, is compiled twice, which is minutes for Kubernetes", path, ours[path], v, file))
		}
	}
	return out
}
