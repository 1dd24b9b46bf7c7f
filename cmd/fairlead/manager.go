package main

import (
	"context"
	"log/slog"
	"strings"

	"fairlead.dev/fairlead/internal/app"
	"fairlead.dev/fairlead/internal/controller"
	"github.com/spf13/cobra"
)

func newManagerCommand(log *app.LogOptions) *cobra.Command {
	o := app.ManagerOptions{LeaderElection: app.DefaultLeaderElection()}
	c := &cobra.Command{
		Use:   "manager",
		Short: "Grant addresses and judge what is served, in the hub",
		Long: `Runs the hub's controllers: Tenants, classes, address pools, the ledger, LoadBalancers and TargetGroups; endpoints of Cluster
API's Clusters, and their control planes and infrastructure that somebody else runs.

Several may run: one leads, by the Lease fairlead-manager in the namespace fairlead-system, which must exist. The others know
as much and take over within seconds. Nothing that is served needs a manager; what is new waits for one.`,
		Args: cobra.NoArgs,
		RunE: process(log, func(ctx context.Context, logger *slog.Logger) error {
			o.Logger = logger
			return app.RunManager(ctx, o)
		}),
	}
	c.AddCommand(newManagerLeaveCommand())
	f := c.Flags()
	f.StringVar(&o.Kubeconfig, "kubeconfig", "", "kubeconfig of the hub (default: $KUBECONFIG, else ~/.kube/config, else the Pod's own)")
	f.StringVar(&o.Context, "context", "", "context of the kubeconfig")
	metricsFlags(c, &o.Metrics)
	f.StringVar(&o.HealthAddress, "health-address", "", "address of /healthz and /readyz alone; empty: none")
	f.BoolVar(&o.LeaderElection.Enabled, "leader-elect", o.LeaderElection.Enabled, "let one of several managers lead")
	leaderElectionFlags(c, &o.LeaderElection)
	f.StringSliceVar(&o.Controllers, "controllers", controller.All(), "which to run: "+strings.Join(controller.All(), ", "))
	return c
}
