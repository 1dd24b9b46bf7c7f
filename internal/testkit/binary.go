package testkit

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// KubeBinaryEnv names the environment variable with the path of the kube binary.
const KubeBinaryEnv = "FAIRLEAD_KUBE"

// ErrNoKubeBinary says that the kube binary is not built.
var ErrNoKubeBinary = errors.New("no kube binary; run `make kube`")

// KubeBinary finds the kube binary: the given path, else $FAIRLEAD_KUBE, else bin/kube
// under the root of the module that the working directory is in.
func KubeBinary(path string) (string, error) {
	if path == "" {
		path = os.Getenv(KubeBinaryEnv)
	}
	if path == "" {
		root, err := ModuleRoot()
		if err != nil {
			return "", fmt.Errorf("%w (%w)", ErrNoKubeBinary, err)
		}
		path = filepath.Join(root, "bin", "kube")
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("%w (%w)", ErrNoKubeBinary, err)
	}
	return path, nil
}

// ModuleRoot is the folder of fairlead.dev/fairlead's go.mod at or above the working directory.
func ModuleRoot() (string, error) {
	start, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && bytes.HasPrefix(mod, []byte("module fairlead.dev/fairlead\n")) {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("%s is not inside the module fairlead.dev/fairlead", start)
		}
	}
}
