package main

import (
	"context"
	"errors"
	"strings"
	"time"

	"fairlead.dev/fairlead/internal/app"
	"fairlead.dev/fairlead/internal/cli"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"
)

func newExplainCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "explain",
		Short: "Why a Service is served, or is not, rung by rung, with the fix",
		Long:  "Prints one rung a line, from the Service down to the members that get its connections, and the fix at the first that is broken.\n" + exitCodes,
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.AddCommand(newExplainServiceCommand(), newExplainLoadBalancerCommand())
	return asks(c)
}

// explainFlags are those of both subcommands.
type explainFlags struct {
	hubFlags
	// namespace is the Service's in the tenant cluster, or the LoadBalancer's in the hub.
	namespace, tenant, hubNamespace string
	tenantKubeconfig, tenantContext string
}

func newExplainServiceCommand() *cobra.Command {
	o := explainFlags{}
	c := &cobra.Command{
		Use:     "service NAME",
		Aliases: []string{"svc"},
		Short:   "Explain a tenant cluster's Service",
		Long: `Reads the hub, and with --tenant-kubeconfig the tenant cluster too, and prints what became of a Service:

  ✓ it holds    ! it holds, and deserves a look    … on its way    ✗ broken    – not looked at, or not reached
` + exitCodes,
		Example: `  fairlead explain service web -n default --tenant prod-eu
  fairlead explain service web --tenant prod-eu --tenant-kubeconfig prod-eu.kubeconfig -o json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return verdict(o.run(cmd, func(ctx context.Context, hub *cli.Hub) (cli.Explanation, error) {
				return o.service(ctx, hub, types.NamespacedName{Namespace: o.namespace, Name: args[0]})
			}))
		},
	}
	o.add(c, "json or yaml")
	f := c.Flags()
	f.StringVarP(&o.namespace, "namespace", "n", "default", "namespace of the Service in the tenant cluster")
	f.StringVar(&o.tenant, "tenant", "", "the Tenant whose Service it is")
	f.StringVar(&o.hubNamespace, "hub-namespace", "", "the Tenant's namespace in the hub, instead of --tenant; for those who may not read Tenants")
	f.StringVar(&o.tenantKubeconfig, "tenant-kubeconfig", "", "kubeconfig of the tenant cluster, to look at the Service itself as well")
	f.StringVar(&o.tenantContext, "tenant-context", "", "context of that kubeconfig")
	registerOutputs(c, "json", "yaml")
	o.complete(c, "tenant", "tenants")
	c.ValidArgsFunction = func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var out []string
		for _, key := range o.names(cmd, "services") {
			if namespace, name, _ := strings.Cut(key, "/"); namespace == o.namespace {
				out = append(out, name)
			}
		}
		return out, cobra.ShellCompDirectiveNoFileComp
	}
	return asks(c)
}

func newExplainLoadBalancerCommand() *cobra.Command {
	o := explainFlags{}
	c := &cobra.Command{
		Use:     "loadbalancer NAME",
		Aliases: []string{"lb"},
		Short:   "Explain a LoadBalancer of the hub",
		Long:    "Prints the same rungs as explain service, for a LoadBalancer, whoever made it.\n" + exitCodes,
		Example: "  fairlead explain loadbalancer web-5f2c9x -n prod-eu",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return verdict(o.run(cmd, func(ctx context.Context, hub *cli.Hub) (cli.Explanation, error) {
				objects, err := hub.Namespace(ctx, o.namespace)
				if err != nil {
					return cli.Explanation{}, err
				}
				return cli.ExplainLoadBalancer(objects, types.NamespacedName{Namespace: o.namespace, Name: args[0]}), nil
			}))
		},
	}
	o.add(c, "json or yaml")
	c.Flags().StringVarP(&o.namespace, "namespace", "n", "default", "namespace of the LoadBalancer in the hub")
	registerOutputs(c, "json", "yaml")
	c.ValidArgsFunction = func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		o.hubNamespace = o.namespace
		return o.names(cmd, "loadbalancers"), cobra.ShellCompDirectiveNoFileComp
	}
	return asks(c)
}

// run asks, prints, and says whether all is served.
func (o *explainFlags) run(cmd *cobra.Command, ask func(context.Context, *cli.Hub) (cli.Explanation, error)) (bool, error) {
	hub, err := o.hub()
	if err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), o.timeout)
	defer cancel()
	e, err := ask(ctx, hub)
	if err != nil {
		return false, err
	}
	if o.output == "" {
		return e.Served, e.WriteText(cmd.OutOrStdout())
	}
	return e.Served, cli.WriteAs(cmd.OutOrStdout(), o.output, e)
}

func (o *explainFlags) service(ctx context.Context, hub *cli.Hub, key types.NamespacedName) (cli.Explanation, error) {
	namespace, err := o.tenantNamespace(ctx, hub)
	if err != nil {
		return cli.Explanation{}, err
	}
	objects, err := hub.Namespace(ctx, namespace)
	if err != nil {
		return cli.Explanation{}, err
	}
	if o.tenantKubeconfig != "" || o.tenantContext != "" {
		cfg, err := app.LoadConfig(o.tenantKubeconfig, o.tenantContext, "cli")
		if err != nil {
			return cli.Explanation{}, err
		}
		scheme, err := app.Scheme()
		if err != nil {
			return cli.Explanation{}, err
		}
		if err := cli.ReadService(ctx, cfg, scheme, key, objects); err != nil {
			return cli.Explanation{}, err
		}
	}
	return cli.ExplainService(objects, namespace, key), nil
}

func (o *explainFlags) tenantNamespace(ctx context.Context, hub *cli.Hub) (string, error) {
	switch {
	case o.hubNamespace != "":
		return o.hubNamespace, nil
	case o.tenant != "":
		return hub.TenantNamespace(ctx, o.tenant)
	}
	return "", errors.New("whose Service? give --tenant, or --hub-namespace")
}

// completionTimeout is how long a person who pressed Tab waits.
const completionTimeout = 2 * time.Second

// names are candidates from the hub; none if it can't be asked.
func (o *explainFlags) names(cmd *cobra.Command, what string) []string {
	hub, err := o.hub()
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
	defer cancel()
	namespace := ""
	if what != "tenants" {
		if namespace, err = o.tenantNamespace(ctx, hub); err != nil {
			return nil
		}
	}
	names, err := hub.Names(ctx, what, namespace)
	if err != nil {
		return nil
	}
	return names
}

// complete gives a flag the names of a kind.
func (o *explainFlags) complete(c *cobra.Command, flag, what string) {
	err := c.RegisterFlagCompletionFunc(flag, func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		return o.names(cmd, what), cobra.ShellCompDirectiveNoFileComp
	})
	if err != nil {
		panic(err) // no such flag
	}
}
