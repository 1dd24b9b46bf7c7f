package install_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/testkit"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
)

// Built once by TestMain, before any test.
var root, fairlead, kustomize string

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	if root, err = testkit.ModuleRoot(); err != nil {
		return 0, err
	}
	dir, err := os.MkdirTemp("", "fairlead-install-")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	fairlead, kustomize = filepath.Join(dir, "fairlead"), filepath.Join(dir, "kustomize")
	if err := build(ctx, root, fairlead, "./cmd/fairlead"); err != nil {
		return 0, err
	}
	if err := build(ctx, filepath.Join(root, "hack", "tools"), kustomize, "sigs.k8s.io/kustomize/kustomize/v5"); err != nil {
		return 0, err
	}
	return m.Run(), nil
}

func build(ctx context.Context, dir, out, pkg string) error {
	c := exec.CommandContext(ctx, "go", "build", "-o", out, pkg)
	c.Dir, c.Env = dir, append(os.Environ(), "CGO_ENABLED=0")
	if said, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("building %s: %w: %s", pkg, err, said)
	}
	return nil
}

// render is what kustomize makes of a folder of config/, in the order in which it is applied.
func render(t *testing.T, folder string) []*unstructured.Unstructured {
	t.Helper()
	c := exec.CommandContext(t.Context(), kustomize, "build", filepath.Join(root, "config", folder))
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.Stderr = os.Stderr
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	var objects []*unstructured.Unstructured
	for d := utilyaml.NewYAMLOrJSONDecoder(out, 4096); ; {
		u := &unstructured.Unstructured{}
		if err := d.Decode(&u.Object); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("config/%s: %v", folder, err)
		}
		if len(u.Object) > 0 {
			objects = append(objects, u)
		}
	}
	if err := c.Wait(); err != nil {
		t.Fatalf("rendering config/%s: %v", folder, err)
	}
	return objects
}
