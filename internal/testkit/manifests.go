package testkit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Create creates the objects of all files in files' root. It returns when the kinds of each CustomResourceDefinition among them are found by
// discovery too, which is after the definition says Established: until then a client that maps kinds is refused.
func Create(ctx context.Context, cfg *rest.Config, files fs.FS) error {
	objects, err := readManifests(files)
	if err != nil {
		return err
	}
	c, err := client.New(cfg, client.Options{})
	if err != nil {
		return err
	}
	var served []schema.GroupVersionKind
	for _, o := range objects {
		if err := c.Create(ctx, o); err != nil {
			return fmt.Errorf("creating %s %s: %w", o.GetKind(), o.GetName(), err)
		}
		if o.GetKind() == "CustomResourceDefinition" {
			served = append(served, servedBy(o)...)
		}
	}
	return waitDiscovered(ctx, cfg, served)
}

func readManifests(files fs.FS) ([]*unstructured.Unstructured, error) {
	entries, err := fs.ReadDir(files, ".")
	if err != nil {
		return nil, err
	}
	var out []*unstructured.Unstructured
	for _, e := range entries {
		b, err := fs.ReadFile(files, e.Name())
		if err != nil {
			return nil, err
		}
		for docs := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(b), 4096); ; {
			u := &unstructured.Unstructured{}
			if err := docs.Decode(&u.Object); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return nil, fmt.Errorf("%s: %w", e.Name(), err)
			}
			out = append(out, u)
		}
	}
	return out, nil
}

// servedBy are the kinds that a CustomResourceDefinition has served, one for each version.
func servedBy(definition *unstructured.Unstructured) []schema.GroupVersionKind {
	group, _, _ := unstructured.NestedString(definition.Object, "spec", "group")
	kind, _, _ := unstructured.NestedString(definition.Object, "spec", "names", "kind")
	versions, _, _ := unstructured.NestedSlice(definition.Object, "spec", "versions")
	var out []schema.GroupVersionKind
	for _, v := range versions {
		if v, ok := v.(map[string]any); ok && v["served"] == true {
			name, _ := v["name"].(string)
			out = append(out, schema.GroupVersionKind{Group: group, Version: name, Kind: kind})
		}
	}
	return out
}

func waitDiscovered(ctx context.Context, cfg *rest.Config, kinds []schema.GroupVersionKind) error {
	c, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		return err
	}
	for _, k := range kinds {
		err := Poll(ctx, 20*time.Millisecond, "discovery of "+k.String(), func(context.Context) error {
			list, err := c.ServerResourcesForGroupVersion(k.GroupVersion().String())
			if err != nil {
				return err
			}
			for _, r := range list.APIResources {
				if r.Kind == k.Kind {
					return nil
				}
			}
			return fmt.Errorf("%s has no kind %s yet", k.GroupVersion(), k.Kind)
		})
		if err != nil {
			return err
		}
	}
	return nil
}
