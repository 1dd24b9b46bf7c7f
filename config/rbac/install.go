package rbac

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

//go:embed hub/*.yaml cluster-api/*.yaml management/*.yaml nodes/*.yaml tenant/*.yaml
var files embed.FS

// FieldManager is the name under which manifests are applied.
const FieldManager = "fairlead-rbac"

// fairnessGroup has the kinds of priority and fairness, which an API server may have switched off.
const fairnessGroup = "flowcontrol.apiserver.k8s.io"

// Hub returns the hub's objects, in an order in which they can be applied. The caller may change them.
func Hub() ([]*unstructured.Unstructured, error) { return read("hub") }

// ClusterAPI returns what a hub that Cluster API runs in gets beside those of Hub, likewise.
func ClusterAPI() ([]*unstructured.Unstructured, error) { return read("cluster-api") }

// Nodes returns what a hub whose LoadBalancers have its own Nodes as targets gets beside those of Hub, likewise.
func Nodes() ([]*unstructured.Unstructured, error) { return read("nodes") }

// Management returns what a management cluster that isn't the hub gets beside those of Tenant, likewise.
func Management() ([]*unstructured.Unstructured, error) { return read("management") }

// Tenant returns the objects of a tenant's cluster, likewise.
func Tenant() ([]*unstructured.Unstructured, error) { return read("tenant") }

func read(dir string) ([]*unstructured.Unstructured, error) {
	entries, err := files.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("listing roles: %w", err)
	}
	var out []*unstructured.Unstructured
	for _, e := range entries {
		if e.Name() == "kustomization.yaml" {
			continue
		}
		b, err := files.ReadFile(path.Join(dir, e.Name()))
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", e.Name(), err)
		}
		d := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(b), 4096)
		for {
			u := &unstructured.Unstructured{}
			if err := d.Decode(&u.Object); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return nil, fmt.Errorf("parsing %s: %w", e.Name(), err)
			}
			if len(u.Object) > 0 {
				out = append(out, u)
			}
		}
	}
	first := map[string]int{"Namespace": -4, "PriorityLevelConfiguration": -1, "ValidatingAdmissionPolicy": -3, "ValidatingAdmissionPolicyBinding": -3, "ClusterRole": -2, "Role": -2, "ServiceAccount": -1}
	slices.SortStableFunc(out, func(a, b *unstructured.Unstructured) int { return first[a.GetKind()] - first[b.GetKind()] })
	return out, nil
}

// InstallHub applies the hub's objects with server-side apply. It may be called again at any time.
func InstallHub(ctx context.Context, cfg *rest.Config) error { return install(ctx, cfg, "hub") }

// InstallClusterAPI applies what a hub that Cluster API runs in gets beside those of InstallHub, likewise.
func InstallClusterAPI(ctx context.Context, cfg *rest.Config) error {
	return install(ctx, cfg, "cluster-api")
}

// InstallNodes applies what a hub whose LoadBalancers have its own Nodes as targets gets beside those of InstallHub, likewise.
func InstallNodes(ctx context.Context, cfg *rest.Config) error { return install(ctx, cfg, "nodes") }

// InstallManagement applies what a management cluster that isn't the hub gets beside those of InstallTenant, likewise.
func InstallManagement(ctx context.Context, cfg *rest.Config) error {
	return install(ctx, cfg, "management")
}

// InstallTenant applies the objects of a tenant's cluster, likewise.
func InstallTenant(ctx context.Context, cfg *rest.Config) error { return install(ctx, cfg, "tenant") }

func install(ctx context.Context, cfg *rest.Config, dir string) error {
	objects, err := read(dir)
	if err != nil {
		return err
	}
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return fmt.Errorf("installing roles: %w", err)
	}
	for _, o := range objects {
		gvk := o.GroupVersionKind()
		// All of these kinds have regular plurals.
		gvr, _ := meta.UnsafeGuessKindToResource(gvk)
		var r dynamic.ResourceInterface = client.Resource(gvr)
		if ns := o.GetNamespace(); ns != "" {
			r = client.Resource(gvr).Namespace(ns)
		}
		_, err := r.Apply(ctx, o.GetName(), o, metav1.ApplyOptions{FieldManager: FieldManager, Force: true})
		if gvk.Group == fairnessGroup && apierrors.IsNotFound(err) {
			continue // an API server without priority and fairness shares out nothing
		}
		if err != nil {
			return fmt.Errorf("installing %s %s: %w", strings.ToLower(gvk.Kind), o.GetName(), err)
		}
	}
	return nil
}
