// Command crdgen turns the types below api/ into deep copies beside them and
// into CRDs in config/crd, likewise those that providers have and the examples', and the comments of condition reasons into what explain
// prints and into the table in docs/api.md. It runs the controller-gen that hack/tools pins, and
// then patches what its markers can't say (patch.go). With -check it writes nothing, and
// exits with 1 if a committed file is not what it would write.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

const (
	controllerGen = "sigs.k8s.io/controller-tools/cmd/controller-gen"
	crdDir        = "config/crd"
)

func main() {
	check := flag.Bool("check", false, "write nothing; fail if a generated file is stale")
	flag.Parse()
	if err := run(*check); err != nil {
		fmt.Fprintln(os.Stderr, "crdgen:", err)
		os.Exit(1)
	}
}

func run(check bool) error {
	if _, err := os.Stat("hack/crdgen"); err != nil {
		return fmt.Errorf("run it at the root of the repository: %w", err)
	}
	tmp, err := os.MkdirTemp("", "crdgen")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	want, err := generate(tmp)
	if err != nil {
		return err
	}
	if !check {
		return write(want)
	}
	if stale := staleFiles(want); len(stale) > 0 {
		return fmt.Errorf("stale: %s; run: go run ./hack/crdgen", strings.Join(stale, ", "))
	}
	return nil
}

// generate returns the content of each generated file, by path.
func generate(tmp string) (map[string][]byte, error) {
	tool := filepath.Join(tmp, "controller-gen")
	if err := command("go", "build", "-C", "hack/tools", "-o", tool, controllerGen); err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	packages, err := filepath.Glob("api/*/*/doc.go")
	if err != nil {
		return nil, err
	}
	packages = append(packages, "provider/contract/doc.go", "examples/foo-provider/api/doc.go",
		"examples/fks-provider/api/infrastructure/doc.go", "examples/fks-provider/api/controlplane/doc.go")
	for _, doc := range packages {
		dir := filepath.Dir(doc)
		out := filepath.Join(tmp, dir)
		if err := command(tool, "object", "paths=./"+dir, "output:object:dir="+out); err != nil {
			return nil, err
		}
		if err := collect(files, out, dir); err != nil {
			return nil, err
		}
	}
	for i, from := range []struct{ paths, dir string }{
		{"./api/...", crdDir}, {"./examples/foo-provider/api", "examples/foo-provider/config"}, {"./examples/fks-provider/api/...", "examples/fks-provider/config"},
	} {
		raw := filepath.Join(tmp, fmt.Sprint("crd", i))
		if err := command(tool, "crd:crdVersions=v1", "paths="+from.paths, "output:crd:dir="+raw); err != nil {
			return nil, err
		}
		crds := map[string][]byte{}
		if err := collect(crds, raw, from.dir); err != nil {
			return nil, err
		}
		for path, b := range crds {
			if files[path], err = patch(b); err != nil {
				return nil, fmt.Errorf("patching %s: %w", path, err)
			}
		}
	}
	if err := generateReasons(files); err != nil {
		return nil, fmt.Errorf("collecting the reasons: %w", err)
	}
	return files, nil
}

func command(name string, args ...string) error {
	cmd := exec.Command(name, args...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("running %s %s: %w\n%s", name, strings.Join(args, " "), err, out)
	}
	return nil
}

// collect reads all files of from, as if they lay in dir.
func collect(into map[string][]byte, from, dir string) error {
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if into[filepath.Join(dir, e.Name())], err = os.ReadFile(filepath.Join(from, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

func write(files map[string][]byte) error {
	for _, path := range extraCRDs(files) {
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	for path, b := range files {
		if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, b) {
			continue
		}
		if err := os.WriteFile(path, b, 0o644); err != nil {
			return err
		}
		fmt.Println("wrote", path)
	}
	return nil
}

func staleFiles(files map[string][]byte) []string {
	stale := extraCRDs(files)
	for _, path := range slices.Sorted(maps.Keys(files)) {
		got, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) || !bytes.Equal(got, files[path]) {
			stale = append(stale, path)
		}
	}
	return stale
}

// extraCRDs are files of kinds that are no more.
func extraCRDs(files map[string][]byte) []string {
	present, _ := filepath.Glob(crdDir + "/*.yaml") // the pattern is good
	return slices.DeleteFunc(present, func(p string) bool { _, ok := files[p]; return ok })
}
