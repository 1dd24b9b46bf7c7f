package testkit

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// clusterAPI is the module whose CRDs are used.
const clusterAPI = "sigs.k8s.io/cluster-api@v1.14.2"

// bases are where each of its parts keeps its CRDs.
const bases = "config/crd/bases"

// ClusterAPICRD is the CRD of one of Cluster API's own kinds, by its plural, from its module: which is downloaded where the module
// cache has it not.
func ClusterAPICRD(ctx context.Context, kinds string) (*unstructured.Unstructured, error) {
	cmd := exec.CommandContext(ctx, "go", "mod", "download", "-json", clusterAPI)
	cmd.Dir, cmd.Stderr = os.TempDir(), os.Stderr // outside of this module, which doesn't require it
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("downloading %s: %w", clusterAPI, err)
	}
	var module struct{ Dir string }
	if err := json.Unmarshal(out, &module); err != nil {
		return nil, fmt.Errorf("downloading %s: %w", clusterAPI, err)
	}
	core, controlPlane := filepath.Join(module.Dir, "core"), filepath.Join(module.Dir, "controlplane", "kubeadm")
	b, err := os.ReadFile(filepath.Join(core, bases, "cluster.x-k8s.io_"+kinds+".yaml"))
	if os.IsNotExist(err) {
		b, err = os.ReadFile(filepath.Join(controlPlane, bases, "controlplane.cluster.x-k8s.io_"+kinds+".yaml"))
	}
	if err != nil {
		return nil, err
	}
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(b, &u.Object); err != nil {
		return nil, fmt.Errorf("CRD of %s: %w", kinds, err)
	}
	return u, nil
}
