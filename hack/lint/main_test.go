package main

import (
	"strings"
	"testing"
)

func TestBreaches(t *testing.T) {
	for name, tc := range map[string]struct {
		pkg  pkg
		want []string
	}{
		"the model may use the standard library and itself": {
			pkg: pkg{ImportPath: module + "/internal/lb", Imports: []string{"net/netip", module + "/internal/lb"}},
		},
		"the model knows nothing of Kubernetes": {
			pkg:  pkg{ImportPath: module + "/internal/lb", Imports: []string{"k8s.io/apimachinery/pkg/types"}},
			want: []string{"internal/lb imports k8s.io/apimachinery"},
		},
		"the proxy names no data plane": {
			pkg:  pkg{ImportPath: module + "/internal/proxy", Imports: []string{module + "/internal/dataplane", module + "/internal/dataplane/builtin"}},
			want: []string{"internal/dataplane/builtin"},
		},
		"data planes know nothing of each other": {
			pkg:  pkg{ImportPath: module + "/internal/dataplane/builtin", Imports: []string{module + "/internal/dataplane/hostaddr", module + "/internal/dataplane/nftables/mark"}},
			want: []string{"internal/dataplane/nftables/mark"},
		},
		"what puts writes off knows nothing of ours": {
			pkg:  pkg{ImportPath: module + "/internal/yield", Imports: []string{"k8s.io/client-go/util/workqueue", module + "/api/fairlead/v1alpha1"}},
			want: []string{"api/fairlead/v1alpha1"},
		},
		"a provider needs the public SDK only": {
			pkg:  pkg{ImportPath: module + "/examples/foo-provider/foo", Imports: []string{module + "/provider", module + "/internal/build"}},
			want: []string{"internal/build"},
		},
		"a folder with a longer name is another folder": {
			pkg: pkg{ImportPath: module + "/internal/lbx", Imports: []string{"k8s.io/client-go/rest"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := breaches(tc.pkg)
			if len(got) != len(tc.want) {
				t.Fatalf("breaches = %q, want %d", got, len(tc.want))
			}
			for i, w := range tc.want {
				if !strings.Contains(got[i], w) {
					t.Errorf("breach %q does not name %q", got[i], w)
				}
			}
		})
	}
}
