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

// kubeModule is the module beside ours that is built on the same machines.
const kubeModule = "hack/kube/go.mod"

func checkVersions(out io.Writer) error {
	ours, err := requiredBy("go.mod")
	if err != nil {
		return err
	}
	kubes, err := requiredBy(kubeModule)
	if err != nil {
		return err
	}
	found := disagreements(ours, kubes)
	for _, msg := range found {
		fmt.Fprintln(out, msg)
	}
	if len(found) > 0 {
		return fmt.Errorf("%d modules have two versions", len(found))
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

// disagreements names each module that both require, in different versions.
func disagreements(ours, kubes versions) []string {
	var out []string
	for _, path := range slices.Sorted(maps.Keys(ours)) {
		if v, both := kubes[path]; both && v != ours[path] {
			out = append(out, fmt.Sprintf("%s is %s in go.mod and %s in %s: require the same version, so that both share one compile cache; "+
				"else it, and all that imports it, is compiled twice, which is minutes for Kubernetes", path, ours[path], v, kubeModule))
		}
	}
	return out
}
