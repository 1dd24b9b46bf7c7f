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
		Long: `A data plane in the kernel serves on when its proxy stops. This takes it away: rules, and addresses that it put on this
host. Open connections are lost. Stop the proxy first, else it puts everything back.`,
		Args: cobra.NoArgs,
		RunE: process(log, func(_ context.Context, logger *slog.Logger) error { return app.Purge(dataplane, logger) }),
	}
	c.Flags().StringVar(&dataplane, "dataplane", "nftables", "the data plane: "+strings.Join(app.Dataplanes(), ", "))
	return c
}
