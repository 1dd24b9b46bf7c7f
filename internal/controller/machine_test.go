package controller_test

import (
	"fmt"
	"strings"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/app"
	"fairlead.dev/fairlead/internal/proof"
	"fairlead.dev/fairlead/internal/testkit/kubetest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// object is one of a kind that isn't ours.
func object(version, kind, namespace, name string, fields map[string]any) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: fields}
	u.SetAPIVersion(version)
	u.SetKind(kind)
	u.SetNamespace(namespace)
	u.SetName(name)
	return u
}

// machines: a silent proxy whose Machine is gone is fenced, where another serves; no other is.
func machines(h *hub) {
	h.manager(app.LeaderElection{})
	h.stage("192.0.2.200/30")
	there, gone, alive := h.proxy("there"), h.proxy("gone"), h.proxy("alive")
	look := func(s *standin) {
		h.t.Helper()
		h.change(&v1alpha1.Proxy{ObjectMeta: metav1.ObjectMeta{Name: s.name}}, func(o client.Object) {
			o.(*v1alpha1.Proxy).Spec.MachineRef = &v1alpha1.MachineReference{Namespace: h.name, Name: s.name}
			o.SetLabels(map[string]string{"look": o.GetResourceVersion()})
		})
	}
	for _, s := range []*standin{there, gone, alive} {
		s.catchUp()
		look(s)
	}
	there.rest() // both fall silent
	gone.rest()
	h.create(object("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "machines.cluster.x-k8s.io", map[string]any{
		"metadata": map[string]any{"annotations": map[string]any{"api-approved.kubernetes.io": "https://github.com/kubernetes-sigs/cluster-api"}},
		"spec": map[string]any{
			"group": "cluster.x-k8s.io", "scope": "Namespaced", "names": map[string]any{"kind": "Machine", "plural": "machines"},
			"versions": []any{map[string]any{"name": "v1beta2", "served": true, "storage": true, "schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object"}}}},
		},
	}))
	h.eventually("a Machine to be created", func(ctx ctx) error {
		return h.api.Create(ctx, object("cluster.x-k8s.io/v1beta2", "Machine", h.name, there.name, map[string]any{}))
	})
	fenced := func(p *v1alpha1.Proxy) error {
		if p.Spec.Fenced == nil || p.Spec.Fenced.By != "fairlead-manager" || !strings.Contains(p.Spec.Fenced.Reason, h.name+"/"+p.Name) {
			return fmt.Errorf("fenced: %+v", p.Spec.Fenced)
		}
		return nil
	}
	// One is looked at after the other: when the last is fenced, the others were seen.
	px := &v1alpha1.Proxy{ObjectMeta: metav1.ObjectMeta{Name: gone.name}}
	kubetest.Eventually(h.t, proof.Silence+soon, "a proxy without its Machine to be fenced", func(ctx ctx) error {
		look(there)
		look(alive)
		look(gone)
		if err := h.api.Get(ctx, client.ObjectKeyFromObject(px), px); err != nil {
			return err
		}
		return fenced(px)
	})
	for _, s := range []*standin{there, alive} {
		if err := h.api.Get(h.t.Context(), client.ObjectKey{Name: s.name}, px); err != nil || px.Spec.Fenced != nil {
			h.t.Errorf("%s: %v, fenced: %v", s.name, err, px.Spec.Fenced)
		}
	}
	h.eventually("the Machine to be deleted", func(ctx ctx) error {
		return h.api.Delete(ctx, object("cluster.x-k8s.io/v1beta2", "Machine", h.name, there.name, map[string]any{}))
	})
	look(there)
	wait(h, &v1alpha1.Proxy{ObjectMeta: metav1.ObjectMeta{Name: there.name}}, "fenced", fenced)
}
