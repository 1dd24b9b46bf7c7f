package api_test

import (
	"testing"

	"fairlead.dev/fairlead/config/crd"
	"fairlead.dev/fairlead/internal/testkit"
	"fairlead.dev/fairlead/internal/testkit/kubetest"
)

func TestInstall(t *testing.T) {
	c := kubetest.Start(t, testkit.Options{Name: "hub"})
	if err := crd.Install(t.Context(), c.RESTConfig()); err != nil {
		t.Fatal(err)
	}
}
