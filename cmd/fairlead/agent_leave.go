package main

import (
	"context"
	"fmt"
	"log/slog"

	"fairlead.dev/fairlead/internal/app"
	"fairlead.dev/fairlead/internal/cli"
	"github.com/spf13/cobra"
)

func newAgentLeaveCommand(log *app.LogOptions) *cobra.Command {
	o, leave, management := app.AgentOptions{}, cli.LeaveOptions{Agent: true}, false
	c := &cobra.Command{
		Use:   "leave",
		Short: "Let go of a cluster's Services, when its Tenant is gone for good",
		Long: `An agent lets a Service go once the hub has released what it had. Where the hub, or this cluster's Tenant, is gone
for good, nobody says so, and Services that are deleted would wait for ever. This takes the agent's finalizer, mark, condition and
addresses out of all Services of this cluster. It asks no hub. Stop the agent first: it would write them again. What another load
balancer's controller wrote stays.

With --management, where the agent ran with that flag, it takes hooks, states and labels off all Machines of Cluster API first, as fairlead
manager leave does in a hub, then the finalizers off the LoadBalancers over them. That is refused while an agent or a manager leads here,
unless --force is given. Machines that are paused, or whose Cluster is, are left as they are without --paused, and then no finalizer goes.`,
		Args: cobra.NoArgs,
		RunE: process(log, func(ctx context.Context, logger *slog.Logger) error {
			o.Logger = logger
			if management {
				if err := leaveMachines(ctx, o, leave); err != nil {
					return err
				}
			}
			return app.AgentLeave(ctx, o)
		}),
	}
	f := c.Flags()
	f.StringVar(&o.Kubeconfig, "kubeconfig", "", "kubeconfig of the tenant cluster (default: $KUBECONFIG, else ~/.kube/config, else the Pod's own)")
	f.StringVar(&o.Context, "context", "", "context of that kubeconfig")
	f.StringVar(&o.Filter.ClassPrefix, "class-prefix", app.DefaultClassPrefix, "what stands before the slash in the spec.loadBalancerClass of Services that are ours")
	f.BoolVar(&o.Filter.Unclassed, "default", false, "no other controller serves Services without spec.loadBalancerClass: those that are being deleted are let go though they lack the agent's mark")
	f.BoolVar(&management, "management", false, "the agent ran with --management: let go of Machines and LoadBalancers over them too")
	f.BoolVar(&leave.Force, "force", false, "with --management: though an agent or a manager leads, or that can't be told")
	f.BoolVar(&leave.Paused, "paused", false, "with --management: from Machines too that are paused or move to another hub, or whose Cluster is or does")
	return c
}

// leaveMachines takes off Machines what the agent wrote there.
func leaveMachines(ctx context.Context, o app.AgentOptions, leave cli.LeaveOptions) error {
	cfg, err := app.LoadConfig(o.Kubeconfig, o.Context, "cli")
	if err != nil {
		return err
	}
	scheme, err := app.Scheme()
	if err != nil {
		return err
	}
	hub, err := cli.NewHub(cfg, scheme)
	if err != nil {
		return err
	}
	l, err := hub.Leave(ctx, leave, func(m cli.LeaveLine) {
		o.Logger.Info("Machine", "machine", m.Namespace+"/"+m.Name, "state", m.State, "takes", m.Takes, "message", m.Message)
	})
	if err != nil {
		return err
	}
	if l.State != cli.LeaveDone {
		return fmt.Errorf("not all Machines are let go: %s: %s", l.Message, l.Fix)
	}
	o.Logger.Info(l.Message)
	return nil
}
