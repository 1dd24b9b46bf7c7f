package capi_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"fairlead.dev/fairlead/internal/testkit"
	"fairlead.dev/fairlead/internal/testkit/kubetest"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/utils/ptr"
)

// provider is one of Cluster API's programs, with the ports that are its own in this network namespace.
type provider struct {
	name                         string
	webhook, health, diagnostics int
	args                         []string
}

var providers = []provider{
	{name: "core", webhook: 9443, health: 9453, diagnostics: 9463, args: []string{"--feature-gates=ClusterTopology=true"}}, // for ClusterClasses
	{name: "bootstrap", webhook: 9444, health: 9454, diagnostics: 9464},
	{name: "controlplane", webhook: 9445, health: 9455, diagnostics: 9465},
	{name: "infrastructure", webhook: 9446, health: 9456, diagnostics: 9466},
}

// startProviders installs and starts Cluster API, with its webhooks.
func (h *hub) startProviders() {
	h.t.Helper()
	built := filepath.Join(root(h.t), "bin", "capi")
	certs := h.t.TempDir()
	cert, key, err := serving(nil, "127.0.0.1")
	if err == nil {
		err = errors.Join(os.WriteFile(filepath.Join(certs, "tls.crt"), cert, 0o600), os.WriteFile(filepath.Join(certs, "tls.key"), key, 0o600))
	}
	if err != nil {
		h.t.Fatal(err)
	}
	running := map[string]*testkit.Process{}
	for _, p := range providers {
		running[p.name] = kubetest.StartProcess(h.t, testkit.Command{
			Name: p.name, Path: filepath.Join(built, p.name),
			Env: []string{"KUBECONFIG=" + h.Kubeconfig(), "POD_IP=127.0.0.1"}, // where the in-memory API servers say that they are
			Args: append([]string{
				"--webhook-cert-dir=" + certs, fmt.Sprintf("--webhook-port=%d", p.webhook),
				fmt.Sprintf("--health-addr=127.0.0.1:%d", p.health),
				"--insecure-diagnostics", fmt.Sprintf("--diagnostics-address=127.0.0.1:%d", p.diagnostics),
				"--skip-crd-migration-phases=StorageVersionMigration,CleanupManagedFields", // nothing here is of an older version
			}, p.args...),
		})
	}
	for _, p := range providers {
		kubetest.Eventually(h.t, soon, p.name+" to be ready", func(ctx context.Context) error {
			if !running[p.name].Running() {
				h.t.Fatalf("%s has ended", p.name)
			}
			return answers(ctx, fmt.Sprintf("http://127.0.0.1:%d/readyz", p.health))
		})
		h.installWebhooks(filepath.Join(built, "webhook", p.name+".yaml"), p, cert)
	}
}

// installKinds creates Cluster API's CRDs. Those of providers get the labels by which its core finds the version of their contract.
func (h *hub) installKinds(dir string) {
	h.t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil || len(files) == 0 {
		h.t.Fatalf("Cluster API is not built; run `make test-capi` (%v)", err)
	}
	var kinds []schema.GroupKind
	for _, file := range files {
		for _, o := range documents(h, file) {
			crd := &unstructured.Unstructured{Object: o}
			group, _, _ := unstructured.NestedString(o, "spec", "group")
			kind, _, _ := unstructured.NestedString(o, "spec", "names", "kind")
			kinds = append(kinds, schema.GroupKind{Group: group, Kind: kind})
			for _, group := range []string{"bootstrap", "controlplane", "infrastructure"} {
				if strings.HasSuffix(crd.GetName(), "."+group+".cluster.x-k8s.io") {
					crd.SetLabels(map[string]string{"cluster.x-k8s.io/v1beta1": "v1beta1", "cluster.x-k8s.io/v1beta2": "v1beta2"})
				}
			}
			h.create(crd)
		}
	}
	for _, kind := range kinds { // a program that finds one missing ends
		kubetest.Eventually(h.t, soon, kind.String()+" to be served", func(context.Context) error {
			_, err := h.api.RESTMapper().RESTMapping(kind, "v1beta2")
			return err
		})
	}
}

// installWebhooks has the API server ask a program that runs beside it, where it would ask a Service's Pods.
func (h *hub) installWebhooks(file string, p provider, ca []byte) {
	h.t.Helper()
	local := func(c *admissionv1.WebhookClientConfig) {
		*c = admissionv1.WebhookClientConfig{URL: ptr.To(fmt.Sprintf("https://127.0.0.1:%d%s", p.webhook, ptr.Deref(c.Service.Path, ""))), CABundle: ca}
	}
	for _, o := range documents(h, file) {
		switch kind := o["kind"]; kind {
		case "MutatingWebhookConfiguration":
			c := &admissionv1.MutatingWebhookConfiguration{}
			h.convert(o, c)
			c.Name = p.name
			for i := range c.Webhooks {
				local(&c.Webhooks[i].ClientConfig)
			}
			h.create(c)
		case "ValidatingWebhookConfiguration":
			c := &admissionv1.ValidatingWebhookConfiguration{}
			h.convert(o, c)
			c.Name = p.name
			for i := range c.Webhooks {
				local(&c.Webhooks[i].ClientConfig)
			}
			h.create(c)
		default:
			h.t.Fatalf("%s has a %v", file, kind)
		}
	}
}

func (h *hub) convert(from map[string]any, to any) {
	h.t.Helper()
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(from, to); err != nil {
		h.t.Fatal(err)
	}
}

// documents are those of a file of YAML.
func documents(h *hub, file string) []map[string]any {
	h.t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		h.t.Fatal(err)
	}
	all, err := parse(text)
	if err != nil {
		h.t.Fatalf("%s: %v", file, err)
	}
	return all
}

func parse(text []byte) ([]map[string]any, error) {
	decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	var all []map[string]any
	for {
		var o map[string]any
		if err := decoder.Decode(&o); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		if len(o) > 0 {
			all = append(all, o)
		}
	}
}

// answers is an error unless a URL answers 200.
func answers(ctx context.Context, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, res.Status)
	}
	return nil
}
