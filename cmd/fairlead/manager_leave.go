package main

import (
	"context"
	"fmt"
	"time"

	"fairlead.dev/fairlead/internal/cli"
	"github.com/spf13/cobra"
)

func newManagerLeaveCommand() *cobra.Command {
	o, leave := hubFlags{}, cli.LeaveOptions{}
	c := &cobra.Command{
		Use:   "leave",
		Short: "Take off Cluster API's Machines and the hub's Nodes what managers wrote, when those are gone for good",
		Long: `A Machine behind a LoadBalancer is held by a hook, which a manager lifts. Where managers are gone for good nobody lifts it, and Machines
that are deleted would wait for ever. This takes hooks, states and the labels that managers gave off all Machines of this API
server, and states off its Nodes. What others wrote there stays, the annotation loadbalancer.cluster.x-k8s.io/disabled too. Nothing else is changed: what proxies
serve they serve on, and a Machine that is deleted from now on is drained by nobody.

Stop all managers first: one that runs writes it again. So it is refused while one leads, unless --force is given. A manager that runs without
--leader-elect has no Lease, and is noticed only if it has written again before this ends. Machines that are paused, or whose Cluster is, are
left as they are without --paused. It may be run again at any time.

Exit codes:
  0  no Machine or Node carries anything any more; or a dry run that would not be refused
  1  refused, or something is left; what and the fix is printed
  2  it could not be asked: a wrong flag, no connection, no permission`,
		Example: `  fairlead manager leave --kubeconfig hub.kubeconfig --dry-run
  fairlead manager leave --kubeconfig hub.kubeconfig -o json | jq -r '.machines[] | select(.state == "Left") | .name'`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			hub, err := o.hub()
			if err != nil {
				return exit{2, err}
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), o.timeout)
			defer cancel()
			l, err := hub.Leave(ctx, leave, func(m cli.LeaveLine) {
				if o.output == "" && !leave.DryRun {
					fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s %s\n", m.String(), m.State, m.Message)
				}
			})
			if err != nil {
				return exit{2, err}
			}
			return verdict(l.State == cli.LeaveDone || l.State == cli.LeavePlanned, o.print(cmd, l, l.WriteText))
		},
	}
	o.add(c, "json", "yaml")
	timeout := c.Flags().Lookup("timeout")
	timeout.Usage, timeout.DefValue = "how long to go on at most", "10m0s"
	o.timeout = 10 * time.Minute
	f := c.Flags()
	f.BoolVar(&leave.DryRun, "dry-run", false, "say what would be taken off, and change nothing")
	f.BoolVar(&leave.Force, "force", false, "though a manager leads, or that can't be told")
	f.BoolVar(&leave.Paused, "paused", false, "from Machines too that are paused or move to another hub, or whose Cluster is or does")
	return asks(c)
}
