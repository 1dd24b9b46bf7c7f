package api_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
)

// What kubectl get prints.
func testTables(t *testing.T, h *hub) {
	namespace := h.namespace(t)
	for _, u := range fullObjects(t) {
		h.createWithStatus(t, namespace, u)
	}
	for path, want := range map[string]string{
		"cluster.x-k8s.io/v1beta1/namespaces/%s/loadbalancers": `
			NAME                 READY ADDRESS   CLASS MEMBERS REASON
			full-class           True  192.0.2.9 edge  1/1     Ready
			full-infrastructure  -     -         -     -       -`,
		"cluster.x-k8s.io/v1alpha4/namespaces/%s/loadbalancers": `
			NAME                 READY ADDRESS   CLASS MEMBERS REASON
			full-class           True  192.0.2.9 edge  1/1     Ready
			full-infrastructure  -     -         -     -       -`,
		"cluster.x-k8s.io/v1beta1/namespaces/%s/clusterendpoints": `
			NAME         CLUSTER    HOST                       PORT SERVICE        SURFACED REASON
			full         my-cluster my-cluster-123.elb.example 6443 -              True     Surfaced
			full-service my-cluster -                          -    my-cluster-api False    NotPrimary`,
		"controlplane.cluster.x-k8s.io/v1beta1/namespaces/%s/externalcontrolplanes": `
			NAME CLUSTER    AVAILABLE REASON    VERSION
			full my-cluster True      Available v1.37.0`,
		"infrastructure.cluster.x-k8s.io/v1beta1/namespaces/%s/unmanagedclusters": `
			NAME CLUSTER    READY REASON
			full my-cluster True  Ready`,
		"fairlead.dev/v1alpha1/namespaces/%s/targetgroups": `
			NAME MEMBERS HEALTHY REASON
			full 0/1     True    AsExpected`,
		"fairlead.dev/v1alpha1/loadbalancerclasses": `
			NAME                 PROXIES POOLS      ACCEPTED REASON
			full-hooks           -       -          -        -
			full-infrastructure  -       -          -        -
			full-proxy           edge    ["public"] True     Accepted
			full-service         -       -          -        -`,
		"fairlead.dev/v1alpha1/addresspools": `
			NAME        RANGES FREE GRANTED RELEASING READY
			full-hosts  -      -    -       -         -
			full-ranges ["192.0.2.0/26","192.0.2.128-192.0.2.140","fd00::/120"] 40 20 1 True`,
		"fairlead.dev/v1alpha1/addresses": `
			NAME      POOL   PHASE     NAMESPACE HOLDER ALSO
			192.0.2.7 public Releasing prod-eu   hello  api`,
		"fairlead.dev/v1alpha1/tenants": `
			NAME READY AGENT LOADBALANCERS ADDRESSES
			full True  -     1             1`,
		"fairlead.dev/v1alpha1/proxies": `
			NAME   POOL PHASE   DATAPLANE FRONTENDS
			edge-1 edge Serving builtin   312`,
		"fairlead.dev/v1alpha1/namespaces/%s/proxyreports": `
			NAME   REFUSED          MEMBERS
			edge-1 PortNotPermitted Draining`,
	} {
		t.Run(path, func(t *testing.T) {
			if strings.Contains(path, "%s") {
				path = fmt.Sprintf(path, namespace)
			}
			got := h.table(t, "/apis/"+path)
			if w := squeeze(want); got != w {
				t.Errorf("got\n%s\nwant\n%s", got, w)
			}
		})
	}
}

// squeeze makes each run of blanks one, and drops empty lines.
func squeeze(s string) string {
	var lines []string
	for l := range strings.Lines(s) {
		if f := strings.Fields(l); len(f) > 0 {
			lines = append(lines, strings.Join(f, " "))
		}
	}
	return strings.Join(lines, "\n")
}

// table asks for the table that kubectl get prints; without the age, which must be last.
func (h *hub) table(t *testing.T, path string) string {
	t.Helper()
	cfg := rest.CopyConfig(h.config)
	client, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	var table metav1.Table
	if err := client.RESTClient().Get().AbsPath(path).SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").Do(t.Context()).Into(&table); err != nil {
		t.Fatal(err)
	}
	var shown []int
	var head []string
	for i, c := range table.ColumnDefinitions {
		if c.Priority == 0 {
			shown, head = append(shown, i), append(head, strings.ToUpper(c.Name))
		}
	}
	if head[len(head)-1] != "AGE" {
		t.Errorf("the last column of %s is not AGE: %v", path, head)
	}
	lines := []string{strings.Join(head[:len(head)-1], " ")}
	for _, r := range table.Rows {
		var cells []string
		for _, i := range shown[:len(shown)-1] {
			cell := "-"
			if r.Cells[i] != nil && r.Cells[i] != "" {
				cell = fmt.Sprint(r.Cells[i])
			}
			cells = append(cells, cell)
		}
		lines = append(lines, strings.Join(cells, " "))
	}
	return strings.Join(lines, "\n")
}

// Short names, and kubectl get fairlead.
func testShortNames(t *testing.T, h *hub) {
	client, err := discovery.NewDiscoveryClientForConfig(h.config)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"loadbalancers": "lb", "targetgroups": "tg", "loadbalancerclasses": "lbc", "addresspools": "pool",
		"addresses": "addr", "proxies": "px", "proxyreports": "pxr", "tenants": "", "clusterendpoints": "cep",
		"externalcontrolplanes": "xcp", "unmanagedclusters": "umc", "unmanagedclustertemplates": "umct",
	}
	for _, version := range []string{
		"cluster.x-k8s.io/v1beta1", "cluster.x-k8s.io/v1alpha4", "controlplane.cluster.x-k8s.io/v1beta1", "infrastructure.cluster.x-k8s.io/v1beta1", "fairlead.dev/v1alpha1",
	} {
		list, err := client.ServerResourcesForGroupVersion(version)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range list.APIResources {
			if strings.Contains(r.Name, "/") {
				continue
			}
			short, ours := want[r.Name]
			if !ours {
				t.Errorf("unknown resource %s", r.Name)
			}
			if got := strings.Join(r.ShortNames, ","); got != short {
				t.Errorf("%s %s has the short names %q, want %q", version, r.Name, got, short)
			}
			if !slices.Contains(r.Categories, "fairlead") {
				t.Errorf("%s %s is not in the category fairlead", version, r.Name)
			}
		}
	}
}
