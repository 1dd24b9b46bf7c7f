package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"fairlead.dev/fairlead/internal/cli"
	"github.com/spf13/cobra"
)

// drainLook is the pause between two looks at how far a drain is.
const drainLook = time.Second

const drainLong = `
With --dry-run it says which LoadBalancers send there, how many members each has left, what share of new connections moves, and for
how long open connections may run on; nothing is changed. A drain that leaves a LoadBalancer without any member is refused, unless
--force is given.

It then waits until every proxy has let go, and prints what it waits for; --wait=false doesn't. Interrupted, or when --timeout is
over, it ends, and the drain goes on. --undo has them take connections again.

Exit codes:
  0  drained, or told to with --wait=false; undone; a dry run that would not be refused
  1  refused, not drained within --timeout, or the hub has the target no more, so that it can't be told
  2  it could not be asked or done: a wrong flag or name, no connection, no permission`

func newDrainCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "drain",
		Short: "Take a Node or a target out: no new connection, open ones may end",
		Long:  "Has a Node or targets get no new connection, and waits until the open ones have ended.\n" + drainLong,
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.AddCommand(newDrainNodeCommand(), newDrainTargetCommand())
	return asks(c)
}

// drainFlags are those of both subcommands.
type drainFlags struct {
	tenantFlags
	dryRun, force, undo, wait bool
}

func (o *drainFlags) addDrain(c *cobra.Command) {
	f := c.Flags()
	f.BoolVar(&o.dryRun, "dry-run", false, "say what would move, and change nothing")
	f.BoolVar(&o.force, "force", false, "drain although a LoadBalancer is left without a member")
	f.BoolVar(&o.undo, "undo", false, "have them take connections again")
	f.BoolVar(&o.wait, "wait", true, "wait until every proxy has let go")
	timeout := f.Lookup("timeout")
	timeout.Usage = "how long to wait until it is drained"
	timeout.DefValue = "10m0s"
	o.timeout = 10 * time.Minute
}

func newDrainNodeCommand() *cobra.Command {
	o := drainFlags{}
	c := &cobra.Command{
		Use:   "node NAME",
		Short: "Drain a tenant cluster's Node",
		Long: `Puts the annotation loadbalancer.cluster.x-k8s.io/disabled on a Node of a tenant cluster. Its agent tells the hub, and no proxy sends
a new connection there. Pods stay where they are: see kubectl drain for those.
` + drainLong,
		Example: `  fairlead drain node node-2 --tenant prod-eu --tenant-kubeconfig prod-eu.kubeconfig --dry-run
  fairlead drain node node-2 --tenant prod-eu --tenant-kubeconfig prod-eu.kubeconfig`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.run(cmd, func(ctx context.Context, hub *cli.Hub) (cli.Targets, func(context.Context) (string, error), error) {
				namespace, err := o.namespace(ctx, hub)
				if err != nil {
					return cli.Targets{}, nil, err
				}
				cluster, err := o.cluster()
				if err != nil {
					return cli.Targets{}, nil, err
				}
				if cluster == nil && !o.dryRun {
					return cli.Targets{}, nil, errors.New("a Node is drained in its own cluster: give --tenant-kubeconfig, or --dry-run")
				}
				t := cli.Targets{Namespace: namespace, Node: args[0]}
				return t, func(ctx context.Context) (string, error) { return cluster.DrainNode(ctx, args[0], o.undo) }, nil
			})
		},
	}
	o.add(c, "the Tenant whose Node it is")
	o.addDrain(c)
	c.ValidArgsFunction = oneName(func(cmd *cobra.Command) []string { return o.names(cmd, cli.NamesOfNodes) })
	return asks(c)
}

func newDrainTargetCommand() *cobra.Command {
	o := drainFlags{}
	c := &cobra.Command{
		Use:   "target TARGETGROUP [TARGET]",
		Short: "Drain a target of a TargetGroup, or all of them",
		Long: `Writes state Draining to a target in spec.targets of a TargetGroup of the hub; without TARGET, to all that are there. The targets of a
group that an agent writes are Nodes: see drain node. All of those at once are drained by the annotation
loadbalancer.cluster.x-k8s.io/disabled on the group. Those of a group that the manager makes are Machines of Cluster API, or
Nodes of the hub, which are drained by that annotation on each of them, from all LoadBalancers that send there.
` + drainLong,
		Example: `  fairlead drain target databases db-2 -n prod-eu --dry-run
  fairlead drain target databases -n prod-eu --force`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.run(cmd, func(_ context.Context, hub *cli.Hub) (cli.Targets, func(context.Context) (string, error), error) {
				t := cli.Targets{Namespace: o.hubNamespace, Group: args[0]}
				if len(args) > 1 {
					t.Target = args[1]
				}
				return t, func(ctx context.Context) (string, error) { return hub.DrainTargets(ctx, t, o.undo) }, nil
			})
		},
	}
	o.hubFlags.add(c, "json", "yaml")
	c.Flags().StringVarP(&o.hubNamespace, "namespace", "n", "default", "namespace of the TargetGroup in the hub")
	o.addDrain(c)
	c.ValidArgsFunction = func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		switch len(args) {
		case 0:
			return o.names(cmd, cli.NamesOfTargetGroups), cobra.ShellCompDirectiveNoFileComp
		case 1:
			return o.names(cmd, cli.NamesOfTargets+args[0]), cobra.ShellCompDirectiveNoFileComp
		}
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return asks(c)
}

// run plans, writes and follows a drain. prepare says what is drained, and how it is told; what that returns drains it after an undo, too.
func (o *drainFlags) run(cmd *cobra.Command, prepare func(context.Context, *cli.Hub) (cli.Targets, func(context.Context) (string, error), error)) error {
	if o.undo && (o.dryRun || o.force) {
		return exit{2, errors.New("--undo goes with neither --dry-run nor --force: leave one out")}
	}
	hub, err := o.hub()
	if err != nil {
		return exit{2, err}
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), o.timeout)
	defer cancel()
	targets, tell, err := prepare(ctx, hub)
	if err != nil {
		return exit{2, err}
	}
	objects, err := hub.Namespace(ctx, targets.Namespace)
	if err != nil {
		return exit{2, err}
	}
	if err := hub.Machines(ctx, objects, targets); err != nil {
		return exit{2, err}
	}
	d, err := cli.PlanDrain(objects, targets)
	if err != nil {
		return exit{2, err}
	}
	switch {
	case o.undo:
		still, err := tell(ctx)
		if err != nil {
			return exit{2, err}
		}
		d.State, d.Message = cli.DrainUndone, "Told to take connections again"
		if still != "" {
			d.Message += ", but " + still
		}
	case d.Refuse() && !o.force:
		return verdict(false, o.print(cmd, d, d.WriteText))
	case o.dryRun:
		d.State, d.Message, d.Fix = cli.DrainPlanned, "", ""
	default:
		if _, err := tell(ctx); err != nil {
			return exit{2, err}
		}
		d.State, d.Message, d.Fix = cli.DrainDraining, "told to drain", ""
		if o.wait {
			if err := o.follow(ctx, cmd, hub, targets, &d); err != nil {
				return exit{2, err}
			}
		}
	}
	done := !o.wait || d.State != cli.DrainDraining && d.State != cli.DrainUnknown
	return verdict(done, o.print(cmd, d, d.WriteText))
}

// follow prints a line whenever what is waited for changes, as text only.
func (o *drainFlags) follow(ctx context.Context, cmd *cobra.Command, hub *cli.Hub, t cli.Targets, d *cli.Drain) error {
	began := time.Now()
	return d.Follow(ctx, hub, t, drainLook, func(d *cli.Drain) {
		if o.output == "" {
			fmt.Fprintf(cmd.OutOrStdout(), "%5s  … %s\n", time.Since(began).Round(time.Second), d.Message)
		}
	})
}
