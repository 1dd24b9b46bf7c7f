package crd

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

//go:embed *.yaml
var files embed.FS

var definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// FieldManager is the name under which Install applies.
const FieldManager = "fairlead-crd"

// All returns the CustomResourceDefinitions, in the order of their file names.
// The caller may change them.
func All() ([]*unstructured.Unstructured, error) {
	entries, err := files.ReadDir(".")
	if err != nil {
		return nil, fmt.Errorf("listing the CRDs: %w", err)
	}
	var out []*unstructured.Unstructured
	for _, e := range entries {
		b, err := files.ReadFile(e.Name())
		if err != nil {
			return nil, fmt.Errorf("reading CRD %s: %w", e.Name(), err)
		}
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(b, &u.Object); err != nil {
			return nil, fmt.Errorf("parsing CRD %s: %w", e.Name(), err)
		}
		out = append(out, u)
	}
	return out, nil
}

// Install applies all CRDs with server-side apply, and returns when the API
// server serves each of their versions, or with an error that names the CRD that it
// doesn't serve when ctx ends. It may be called again at any time.
func Install(ctx context.Context, cfg *rest.Config) error {
	crds, err := All()
	if err != nil {
		return err
	}
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	failures := make([]error, len(crds))
	var all sync.WaitGroup
	for i, c := range crds {
		all.Go(func() { failures[i] = install(ctx, client, c) })
	}
	all.Wait()
	return errors.Join(failures...)
}

func install(ctx context.Context, client dynamic.Interface, c *unstructured.Unstructured) error {
	if _, err := client.Resource(definitions).Apply(ctx, c.GetName(), c, metav1.ApplyOptions{FieldManager: FieldManager, Force: true}); err != nil {
		return fmt.Errorf("applying CRD %s: %w", c.GetName(), err)
	}
	return waitServed(ctx, client, c)
}

// waitServed returns when c is Established and each version answers a list.
func waitServed(ctx context.Context, client dynamic.Interface, c *unstructured.Unstructured) error {
	var last error
	err := wait.PollUntilContextCancel(ctx, 20*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		last = served(ctx, client, c)
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for CRD %s: %w", c.GetName(), errors.Join(err, last))
	}
	return nil
}

func served(ctx context.Context, client dynamic.Interface, c *unstructured.Unstructured) error {
	got, err := client.Resource(definitions).Get(ctx, c.GetName(), metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading it: %w", err)
	}
	if err := established(got); err != nil {
		return err
	}
	group, _, _ := unstructured.NestedString(c.Object, "spec", "group")
	resource, _, _ := unstructured.NestedString(c.Object, "spec", "names", "plural")
	versions, _, _ := unstructured.NestedSlice(c.Object, "spec", "versions")
	for _, v := range versions {
		version, _, _ := unstructured.NestedString(v.(map[string]any), "name")
		gvr := schema.GroupVersionResource{Group: group, Version: version, Resource: resource}
		if _, err := client.Resource(gvr).List(ctx, metav1.ListOptions{Limit: 1}); err != nil {
			return fmt.Errorf("listing %s: %w", gvr, err)
		}
	}
	return nil
}

// established says why a CRD is not served yet; nil if it is.
func established(c *unstructured.Unstructured) error {
	conditions, _, _ := unstructured.NestedSlice(c.Object, "status", "conditions")
	for _, c := range conditions {
		m, ok := c.(map[string]any)
		if !ok {
			continue
		}
		switch typ, status := m["type"], m["status"]; {
		case typ == "Established" && status == "True":
			return nil
		case typ == "NamesAccepted" && status == "False":
			return fmt.Errorf("names not accepted: %v", m["message"])
		}
	}
	return errors.New("not established yet")
}

// Mapper returns the resource of each served kind, for clients without discovery.
func Mapper() (meta.RESTMapper, error) {
	crds, err := All()
	if err != nil {
		return nil, err
	}
	m := meta.NewDefaultRESTMapper(nil)
	for _, c := range crds {
		group, _, _ := unstructured.NestedString(c.Object, "spec", "group")
		kind, _, _ := unstructured.NestedString(c.Object, "spec", "names", "kind")
		plural, _, _ := unstructured.NestedString(c.Object, "spec", "names", "plural")
		scope := meta.RESTScopeRoot
		if s, _, _ := unstructured.NestedString(c.Object, "spec", "scope"); s == "Namespaced" {
			scope = meta.RESTScopeNamespace
		}
		versions, _, _ := unstructured.NestedSlice(c.Object, "spec", "versions")
		for _, v := range versions {
			gv := schema.GroupVersion{Group: group, Version: v.(map[string]any)["name"].(string)}
			m.AddSpecific(gv.WithKind(kind), gv.WithResource(plural), gv.WithResource(plural), scope)
		}
	}
	return m, nil
}
