package main

import (
	"context"
	"errors"

	"fairlead.dev/fairlead/internal/cli"
	"fairlead.dev/fairlead/internal/version"
	"github.com/spf13/cobra"
)

func newCheckCommand() *cobra.Command {
	o, management := tenantFlags{}, false
	c := &cobra.Command{
		Use:   "check",
		Short: "Are all parts there, can they reach one another, and may they do what they must",
		Long: `Looks, in this order, at the hub's version, the kinds and roles there against those of this program, what each identity may do,
the versions that run, the manager, whether each proxy and each Tenant's agent reaches the hub, and whether proxies reach the
nodes. What is amiss has its fix below. With --tenant and --tenant-kubeconfig it looks at that tenant's cluster as well; with --management
at what the agent of a management cluster of Cluster API needs there besides.

It changes nothing: the API server is asked what an apply would change, and what an identity may do. What the reader may not ask is
left out, and says so.

Exit codes:
  0  no trouble; there may be warnings
  1  trouble was found; what and the fix is printed
  2  it could not be asked: a wrong flag, no connection, no permission`,
		Example: `  fairlead check
  fairlead check --tenant prod-eu --tenant-kubeconfig prod-eu.kubeconfig
  fairlead check -o json | jq '.checks[] | select(.state == "broken")'`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			hub, err := o.hub()
			if err != nil {
				return exit{2, err}
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), o.timeout)
			defer cancel()
			r, err := o.check(ctx, hub, management)
			if err != nil {
				return exit{2, err}
			}
			return verdict(r.OK, o.print(cmd, r, r.WriteText))
		},
	}
	o.add(c, "the Tenant whose cluster --tenant-kubeconfig is")
	c.Flags().BoolVar(&management, "management", false, "that cluster's agent runs with --management: look at what it needs besides")
	return asks(c)
}

func (o *tenantFlags) check(ctx context.Context, hub *cli.Hub, management bool) (cli.Report, error) {
	cluster, err := o.cluster()
	if err != nil {
		return cli.Report{}, err
	}
	if management && cluster == nil {
		return cli.Report{}, errors.New("--management is about a tenant's cluster: give --tenant and --tenant-kubeconfig too")
	}
	if (cluster == nil) != (o.tenant == "") {
		return cli.Report{}, errors.New("--tenant and --tenant-kubeconfig go together: give both, or none")
	}
	facts, err := hub.Check(ctx, version.String())
	if err != nil {
		return cli.Report{}, err
	}
	if cluster != nil {
		if facts.Cluster, err = cluster.Check(ctx, o.tenant); err != nil {
			return cli.Report{}, err
		}
		if management {
			if facts.Cluster.Management, err = cluster.CheckManagement(ctx, hub); err != nil {
				return cli.Report{}, err
			}
		}
	}
	return cli.Diagnose(facts), nil
}
