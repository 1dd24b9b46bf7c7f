package main

import (
	"context"
	"errors"
	"io"
	"time"

	"fairlead.dev/fairlead/internal/app"
	"fairlead.dev/fairlead/internal/cli"
	"github.com/spf13/cobra"
)

// tenantFlags are those of commands about something in a tenant's cluster.
type tenantFlags struct {
	hubFlags
	tenant, hubNamespace            string
	tenantKubeconfig, tenantContext string
}

func (o *tenantFlags) add(c *cobra.Command, whose string) {
	o.hubFlags.add(c, "json", "yaml")
	f := c.Flags()
	f.StringVar(&o.tenant, "tenant", "", whose)
	f.StringVar(&o.hubNamespace, "hub-namespace", "", "the Tenant's namespace in the hub, instead of --tenant; for those who may not read Tenants")
	o.addCluster(c)
	err := c.RegisterFlagCompletionFunc("tenant", func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		return o.candidates(cmd, cli.NamesOfTenants, ""), cobra.ShellCompDirectiveNoFileComp
	})
	if err != nil {
		panic(err) // no such flag
	}
}

func (o *tenantFlags) addCluster(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&o.tenantKubeconfig, "tenant-kubeconfig", "", "kubeconfig of the tenant cluster, to look there as well")
	f.StringVar(&o.tenantContext, "tenant-context", "", "context of that kubeconfig")
}

// namespace is the Tenant's in the hub.
func (o *tenantFlags) namespace(ctx context.Context, hub *cli.Hub) (string, error) {
	switch {
	case o.hubNamespace != "":
		return o.hubNamespace, nil
	case o.tenant != "":
		return hub.TenantNamespace(ctx, o.tenant)
	}
	return "", errors.New("of which Tenant? give --tenant, or --hub-namespace")
}

// cluster is the tenant's own; nil: it was not asked for.
func (o *tenantFlags) cluster() (*cli.Tenant, error) {
	if o.tenantKubeconfig == "" && o.tenantContext == "" {
		return nil, nil
	}
	cfg, err := app.LoadConfig(o.tenantKubeconfig, o.tenantContext, "cli")
	if err != nil {
		return nil, err
	}
	scheme, err := app.Scheme()
	if err != nil {
		return nil, err
	}
	return cli.NewTenant(cfg, scheme)
}

// read reads the Tenant's namespace of the hub, and returns its name; with look, where it was asked for, the tenant's cluster too.
func (o *tenantFlags) read(ctx context.Context, hub *cli.Hub, look func(*cli.Tenant, *cli.Objects) error) (*cli.Objects, string, error) {
	namespace, err := o.namespace(ctx, hub)
	if err != nil {
		return nil, "", err
	}
	objects, err := hub.Namespace(ctx, namespace)
	if err != nil {
		return nil, "", err
	}
	tenant, err := o.cluster()
	if err != nil {
		return nil, "", err
	}
	if tenant != nil {
		err = look(tenant, objects)
	}
	return objects, namespace, err
}

// names are candidates from the Tenant's namespace of the hub; none if it can't be asked.
func (o *tenantFlags) names(cmd *cobra.Command, what string) []string {
	hub, err := o.hub()
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
	defer cancel()
	namespace, err := o.namespace(ctx, hub)
	if err != nil {
		return nil
	}
	return o.candidates(cmd, what, namespace)
}

// completionTimeout is how long a person who pressed Tab waits.
const completionTimeout = 2 * time.Second

// candidates are names from the hub; none if it can't be asked.
func (h *hubFlags) candidates(cmd *cobra.Command, what, namespace string) []string {
	hub, err := h.hub()
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
	defer cancel()
	names, err := hub.Names(ctx, what, namespace)
	if err != nil {
		return nil
	}
	return names
}

// oneName completes the only argument.
func oneName(names func(*cobra.Command) []string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return names(cmd), cobra.ShellCompDirectiveNoFileComp
	}
}

// print prints an answer as --output says.
func (h *hubFlags) print(cmd *cobra.Command, answer any, text func(io.Writer) error) error {
	if h.output == "" {
		return text(cmd.OutOrStdout())
	}
	return cli.WriteAs(cmd.OutOrStdout(), h.output, answer)
}
