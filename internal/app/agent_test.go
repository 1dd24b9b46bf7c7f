package app

import "testing"

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
