package app

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// An agent that waits for its hub isn't ready. A budget would let nobody drain the node of the other one as long as the hub is away.
func TestAHubsOutageBlocksNoDrainOfATenantsNodes(t *testing.T) {
	files, err := filepath.Glob("../../config/agent/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("%q, %v", files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "kind: PodDisruptionBudget") {
			t.Errorf("%s has a PodDisruptionBudget", file)
		}
	}
}

func TestHubNames(t *testing.T) {
	for _, c := range []struct{ namespace, tenant, fromContext, wantNamespace, wantTenant string }{
		{"", "", "prod-eu", "prod-eu", "prod-eu"},
		{"", "eu", "prod-eu", "prod-eu", "eu"},
		{"ns", "", "prod-eu", "ns", "ns"},
		{"", "eu", "default", "eu", "eu"}, // client-go's word for none
		{"default", "", "default", "default", "default"},
	} {
		namespace, tenant, err := hubNames(c.namespace, c.tenant, c.fromContext)
		if err != nil || namespace != c.wantNamespace || tenant != c.wantTenant {
			t.Errorf("%+v: %s, %s, %v", c, namespace, tenant, err)
		}
	}
	if _, _, err := hubNames("", "", "default"); err == nil {
		t.Error("without a namespace it goes on")
	}
}
