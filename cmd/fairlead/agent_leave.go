package main

import (
	"context"
	"log/slog"

	"fairlead.dev/fairlead/internal/app"
	"github.com/spf13/cobra"
)

func newAgentLeaveCommand(log *app.LogOptions) *cobra.Command {
	o := app.AgentOptions{}
	c := &cobra.Command{
		Use:   "leave",
		Short: "Let go of a cluster's Services, when its Tenant is gone for good",
		Long: `An agent lets a Service go once the hub has released what it had. Where the hub, or this cluster's Tenant, is gone
for good, nobody says so, and Services that are deleted would wait for ever. This takes the agent's finalizer, mark, condition and
addresses out of all Services of this cluster. It asks no hub. Stop the agent first: it would write them again. What another load
balancer's controller wrote stays.`,
		Args: cobra.NoArgs,
		RunE: process(log, func(ctx context.Context, logger *slog.Logger) error {
			o.Logger = logger
			return app.AgentLeave(ctx, o)
		}),
	}
	f := c.Flags()
	f.StringVar(&o.Kubeconfig, "kubeconfig", "", "kubeconfig of the tenant cluster (default: $KUBECONFIG, else ~/.kube/config, else the Pod's own)")
	f.StringVar(&o.Context, "context", "", "context of that kubeconfig")
	f.StringVar(&o.Filter.ClassPrefix, "class-prefix", app.DefaultClassPrefix, "what stands before the slash in the spec.loadBalancerClass of Services that are ours")
	f.BoolVar(&o.Filter.Unclassed, "default", false, "no other controller serves Services without spec.loadBalancerClass: those that are being deleted are let go though they lack the agent's mark")
	return c
}
