package app

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"fairlead.dev/fairlead/internal/dataplane"
	"fairlead.dev/fairlead/internal/dataplane/builtin"
	"fairlead.dev/fairlead/internal/dataplane/nftables"
	"github.com/prometheus/client_golang/prometheus"
)

// DataplaneOptions are what a data plane may be told; each takes what it has a use for.
type DataplaneOptions struct {
	Logger     *slog.Logger
	Registerer prometheus.Registerer
	// BindAs says at which addresses of this host others are served, as FROM=TO prefixes.
	BindAs []string
	// ConnectAttempts bounds how many members a connection is tried on; 0: the data plane's own bound.
	ConnectAttempts int
	// Suspect is told members that refuse connections. It does not block.
	Suspect func(netip.Addr)
}

// dataplanes are all data planes, by the word that names them in flags.
func dataplanes() map[string]func(DataplaneOptions) (dataplane.Dataplane, error) {
	return map[string]func(DataplaneOptions) (dataplane.Dataplane, error){
		"builtin":  newBuiltin,
		"nftables": newNftables,
	}
}

// Dataplanes are the words for all data planes.
func Dataplanes() []string { return slices.Sorted(maps.Keys(dataplanes())) }

func newDataplane(name string, o DataplaneOptions) (dataplane.Dataplane, error) {
	make, ok := dataplanes()[name]
	if !ok {
		return nil, fmt.Errorf("data plane %q: must be one of %s", name, strings.Join(Dataplanes(), ", "))
	}
	dp, err := make(o)
	if err != nil {
		return nil, fmt.Errorf("data plane %q: %w", name, err)
	}
	return dp, nil
}

func newBuiltin(o DataplaneOptions) (dataplane.Dataplane, error) {
	translations := make([]builtin.Translation, 0, len(o.BindAs))
	for _, s := range o.BindAs {
		t, err := builtin.ParseTranslation(s)
		if err != nil {
			return nil, fmt.Errorf("bind-as: %w", err)
		}
		translations = append(translations, t)
	}
	return builtin.New(builtin.Options{
		Logger: o.Logger, Registerer: o.Registerer, BindAs: translations, ConnectAttempts: o.ConnectAttempts, Suspect: o.Suspect,
	}), nil
}

func newNftables(o DataplaneOptions) (dataplane.Dataplane, error) {
	if len(o.BindAs) > 0 {
		return nil, errors.New("--bind-as: this data plane has no sockets to bind; leave it out, or use --dataplane builtin")
	}
	if o.ConnectAttempts != 0 {
		return nil, errors.New("--connect-attempts: clients connect to members themselves; leave it out, or use --dataplane builtin")
	}
	return nftables.New(nftables.Options{Logger: o.Logger, Registerer: o.Registerer})
}
