package main

import (
	"context"
	"log/slog"
	"strings"

	"fairlead.dev/fairlead/internal/app"
	"github.com/spf13/cobra"
)

func newPurgeCommand(log *app.LogOptions) *cobra.Command {
	var dataplane string
	c := &cobra.Command{
		Use:   "purge",
		Short: "Take away from this host what a data plane left",
		Long: `A data plane in the kernel serves on when its proxy stops, and the addresses that any put on this host outlive a
process that was killed. This takes away what the named one left: rules, and addresses. Open connections are lost. Stop
all proxies of this host that have this data plane first.`,
		Args: cobra.NoArgs,
		RunE: process(log, func(_ context.Context, logger *slog.Logger) error { return app.Purge(dataplane, logger) }),
	}
	c.Flags().StringVar(&dataplane, "dataplane", "nftables", "the data plane: "+strings.Join(app.Dataplanes(), ", "))
	return c
}
