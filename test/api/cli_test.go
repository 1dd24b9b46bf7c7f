package api_test

import (
	"fmt"
	"strings"
	"testing"

	"fairlead.dev/fairlead/internal/app"
	"fairlead.dev/fairlead/internal/cli"
	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
)

// What status and explain read of a real hub: all kinds, more than one page, and no more than one may see.
func testCLI(t *testing.T, h *hub) {
	namespace := h.namespace(t)
	for _, u := range fullObjects(t) {
		h.createWithStatus(t, namespace, u)
	}
	const more = 1100 // the page has 1000
	all, ctx := errgroup.WithContext(t.Context())
	all.SetLimit(16)
	for i := range more {
		all.Go(func() error {
			u := &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "fairlead.dev/v1alpha1", "kind": "TargetGroup", "metadata": map[string]any{"name": fmt.Sprintf("group-%04d", i)},
			}}
			_, err := h.resource(t, u, namespace).Create(ctx, u, metav1.CreateOptions{})
			return err
		})
	}
	if err := all.Wait(); err != nil {
		t.Fatal(err)
	}
	scheme, err := app.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	hub, err := cli.NewHub(h.config, scheme)
	if err != nil {
		t.Fatal(err)
	}
	o, err := hub.Everything(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, g := range o.TargetGroups {
		if g.Namespace == namespace {
			names[g.Name] = true
		}
	}
	if len(names) != more+1 {
		t.Errorf("%d TargetGroups were read, want %d", len(names), more+1)
	}
	if len(o.LoadBalancers) < 2 || len(o.Classes) < 4 || len(o.Pools) < 2 || len(o.Addresses) < 1 || len(o.Tenants) < 1 || len(o.Proxies) < 1 || len(o.Reports) < 1 || len(o.Hidden) > 0 {
		t.Errorf("read %d LoadBalancers, %d classes, %d pools, %d addresses, %d tenants, %d proxies, %d reports; hidden %v",
			len(o.LoadBalancers), len(o.Classes), len(o.Pools), len(o.Addresses), len(o.Tenants), len(o.Proxies), len(o.Reports), o.Hidden)
	}
	if v := cli.Summarize(o); v.Healthy || v.Totals.Total < 2 {
		t.Errorf("a hub without a manager is healthy: %+v", v.Totals)
	}
	if o, err = hub.Namespace(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	if e := cli.ExplainLoadBalancer(o, types.NamespacedName{Namespace: namespace, Name: "full-class"}, nil); e.First() == nil || e.First().Reason != "ClassNotFound" {
		t.Errorf("%+v", e)
	}

	kubeconfig, err := h.control.UserKubeconfig("nobody")
	if err != nil {
		t.Fatal(err)
	}
	nobody, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	if hub, err = cli.NewHub(nobody, scheme); err != nil {
		t.Fatal(err)
	}
	if _, err := hub.Everything(t.Context()); err == nil || !strings.Contains(err.Error(), "you may not list LoadBalancers") {
		t.Errorf("who may read nothing is told: %v", err)
	}
}
