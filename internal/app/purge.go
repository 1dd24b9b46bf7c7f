package app

import (
	"context"
	"fmt"
	"log/slog"

	"fairlead.dev/fairlead/internal/dataplane"
)

// purger is a data plane of which something may outlive its process, and can be taken away from this host.
type purger interface {
	dataplane.Dataplane
	Purge() error
}

// Purge takes away all that a data plane left on this host. It does nothing for one that leaves nothing.
func Purge(name string, log *slog.Logger) error {
	dp, err := newDataplane(name, DataplaneOptions{Logger: log})
	if err != nil {
		return err
	}
	defer dp.Close(context.Background())
	p, ok := dp.(purger)
	if !ok {
		log.Info("data plane leaves nothing on a host", "dataplane", name)
		return nil
	}
	if err := p.Purge(); err != nil {
		return fmt.Errorf("data plane %q: %w", name, err)
	}
	log.Info("data plane is gone from this host", "dataplane", name)
	return nil
}
