package dataplanetest_test

import (
	"flag"
	"testing"

	"fairlead.dev/fairlead/internal/dataplane"
	"fairlead.dev/fairlead/internal/dataplane/builtin"
	"fairlead.dev/fairlead/internal/dataplane/dataplanetest"
	"fairlead.dev/fairlead/internal/dataplane/nftables"
)

var update = flag.Bool("update", false, "rewrite docs/data-planes.md with what passed")

// factories are all data planes.
func factories() []dataplanetest.Factory {
	return []dataplanetest.Factory{
		{
			Name: builtin.Name,
			New: func(o dataplanetest.Options) (dataplane.Dataplane, error) {
				return builtin.New(builtin.Options{Logger: o.Logger, Suspect: o.Suspect}), nil
			},
			Addresses: dataplanetest.Local,
			Limits: map[string]string{
				"Crash": "connections go through its process and end with it",
			},
		},
		{
			Name: nftables.Name,
			New: func(o dataplanetest.Options) (dataplane.Dataplane, error) {
				return nftables.New(nftables.Options{Logger: o.Logger})
			},
			Addresses: dataplanetest.Routed,
			Limits: map[string]string{
				"Unnoticed": "the kernel sends a connection to one member and does not try another; the member is left out once its check has found it",
			},
		},
	}
}

func TestMain(m *testing.M) { dataplanetest.Main(m, factories()) }

func TestDataplanes(t *testing.T) {
	dataplanetest.Run(t, factories(), dataplanetest.Page{Path: "../../../docs/data-planes.md", Rewrite: *update})
}
