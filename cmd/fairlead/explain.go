package main

import (
	"context"
	"errors"
	"strings"

	"fairlead.dev/fairlead/internal/cli"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"
)

const signs = `
  ✓ it holds    ! it holds, and deserves a look    … on its way    ✗ broken    – not looked at, or not reached
`

func newExplainCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "explain",
		Short: "Why a Service, LoadBalancer, Node, address or proxy serves, or does not, rung by rung, with the fix",
		Long: `Prints one rung a line, each needing those before, with what it was told by, and the fix at the first that is broken. Each is asked
with the rights of the kubeconfig given: a tenant is told of its own, and of nobody else's.
` + signs + exitCodes,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.AddCommand(newExplainServiceCommand(), newExplainLoadBalancerCommand(), newExplainNodeCommand(), newExplainAddressCommand(), newExplainProxyCommand())
	return asks(c)
}

func newExplainServiceCommand() *cobra.Command {
	o := tenantFlags{}
	namespace := ""
	c := &cobra.Command{
		Use:     "service NAME",
		Aliases: []string{"svc"},
		Short:   "Explain a tenant cluster's Service",
		Long: `Reads the hub, and with --tenant-kubeconfig the tenant cluster too, and prints what became of a Service:
` + signs + exitCodes,
		Example: `  fairlead explain service web -n default --tenant prod-eu
  fairlead explain service web --tenant prod-eu --tenant-kubeconfig prod-eu.kubeconfig -o json`,
		Args: cobra.ExactArgs(1),
		RunE: explains(&o.hubFlags, func(ctx context.Context, hub *cli.Hub, name string) (cli.Explanation, error) {
			key := types.NamespacedName{Namespace: namespace, Name: name}
			objects, at, err := o.read(ctx, hub, func(t *cli.Tenant, objects *cli.Objects) error { return t.ReadService(ctx, key, objects) })
			if err != nil {
				return cli.Explanation{}, err
			}
			if err := hub.ReadEvents(ctx, cli.LoadBalancerOf(at, key), objects); err != nil {
				return cli.Explanation{}, err
			}
			return cli.ExplainService(objects, at, key), nil
		}),
	}
	o.add(c, "the Tenant whose Service it is")
	c.Flags().StringVarP(&namespace, "namespace", "n", "default", "namespace of the Service in the tenant cluster")
	c.ValidArgsFunction = oneName(func(cmd *cobra.Command) []string {
		var out []string
		for _, key := range o.names(cmd, cli.NamesOfServices) {
			if in, name, _ := strings.Cut(key, "/"); in == namespace {
				out = append(out, name)
			}
		}
		return out
	})
	return asks(c)
}

func newExplainLoadBalancerCommand() *cobra.Command {
	o, elsewhere := hubFlags{}, elsewhereFlags{}
	namespace := ""
	c := &cobra.Command{
		Use:     "loadbalancer NAME",
		Aliases: []string{"lb"},
		Short:   "Explain a LoadBalancer of the hub",
		Long: `Prints the same rungs as explain service, for a LoadBalancer, whoever made it. Of one in a management cluster that isn't the hub it says
what the agent wrote there, and with --hub-kubeconfig what the hub makes of it.
` + exitCodes,
		Example: `  fairlead explain loadbalancer web-5f2c9x -n prod-eu
  fairlead explain loadbalancer my-cluster-api -n clusters --kubeconfig management.kubeconfig --hub-kubeconfig hub.kubeconfig`,
		Args: cobra.ExactArgs(1),
		RunE: explains(&o, func(ctx context.Context, hub *cli.Hub, name string) (cli.Explanation, error) {
			key := types.NamespacedName{Namespace: namespace, Name: name}
			objects, err := hub.Namespace(ctx, namespace)
			if err != nil {
				return cli.Explanation{}, err
			}
			if err := hub.ReadEvents(ctx, key, objects); err != nil {
				return cli.Explanation{}, err
			}
			looked, err := elsewhere.read(ctx)
			if err != nil {
				return cli.Explanation{}, err
			}
			return cli.ExplainLoadBalancer(objects, key, looked), nil
		}),
	}
	o.add(c, "json", "yaml")
	c.Flags().StringVarP(&namespace, "namespace", "n", "default", "namespace of the LoadBalancer in the hub, or in the management cluster")
	elsewhere.add(c)
	c.ValidArgsFunction = oneName(func(cmd *cobra.Command) []string { return o.candidates(cmd, cli.NamesOfLoadBalancers, namespace) })
	return asks(c)
}

func newExplainNodeCommand() *cobra.Command {
	o := tenantFlags{}
	c := &cobra.Command{
		Use:   "node NAME",
		Short: "Explain whether a tenant cluster's Node gets connections",
		Long: `Says whether a Node of a tenant cluster is a target, whether it drains and who still has connections open to it, which
proxies find it unhealthy by which check, and which Services send to it. With --tenant-kubeconfig it looks at the Node itself, too.
` + signs + exitCodes,
		Example: `  fairlead explain node node-2 --tenant prod-eu
  fairlead explain node node-2 --tenant prod-eu --tenant-kubeconfig prod-eu.kubeconfig`,
		Args: cobra.ExactArgs(1),
		RunE: explains(&o.hubFlags, func(ctx context.Context, hub *cli.Hub, name string) (cli.Explanation, error) {
			objects, at, err := o.read(ctx, hub, func(t *cli.Tenant, objects *cli.Objects) error { return t.ReadNode(ctx, name, objects) })
			if err != nil {
				return cli.Explanation{}, err
			}
			return cli.ExplainNode(objects, at, name), nil
		}),
	}
	o.add(c, "the Tenant whose Node it is")
	c.ValidArgsFunction = oneName(func(cmd *cobra.Command) []string { return o.names(cmd, cli.NamesOfNodes) })
	return asks(c)
}

func newExplainAddressCommand() *cobra.Command {
	o := hubFlags{}
	namespace := ""
	c := &cobra.Command{
		Use:     "address ADDRESS",
		Aliases: []string{"addr"},
		Short:   "Explain who holds an address, who serves it, and what its release waits for",
		Long: `Says which pool an address is of, who holds it, which proxies serve it, and who wants it and can't have it. ADDRESS is an
IP address, or the name of an Address. A tenant gives --hub-namespace, and is told of its own LoadBalancers only.
` + signs + exitCodes,
		Example: `  fairlead explain address 192.0.2.7
  fairlead explain address fd00::7 --hub-namespace prod-eu`,
		Args: cobra.ExactArgs(1),
		RunE: explains(&o, func(ctx context.Context, hub *cli.Hub, arg string) (cli.Explanation, error) {
			a, err := cli.ParseAddress(arg)
			if err != nil {
				return cli.Explanation{}, err
			}
			read := hub.Everything
			if namespace != "" {
				read = func(ctx context.Context) (*cli.Objects, error) { return hub.Namespace(ctx, namespace) }
			}
			objects, err := read(ctx)
			if err != nil {
				return cli.Explanation{}, err
			}
			return cli.ExplainAddress(objects, a), nil
		}),
	}
	o.add(c, "json", "yaml")
	c.Flags().StringVar(&namespace, "hub-namespace", "", "look at the LoadBalancers of this namespace of the hub only; for those who may not list all")
	c.ValidArgsFunction = oneName(func(cmd *cobra.Command) []string { return o.candidates(cmd, cli.NamesOfAddresses, "") })
	return asks(c)
}

func newExplainProxyCommand() *cobra.Command {
	o := hubFlags{}
	c := &cobra.Command{
		Use:     "proxy NAME",
		Aliases: []string{"px"},
		Short:   "Explain whether a proxy serves what the hub says",
		Long: `Says whether a proxy is live, follows this hub and has applied what it says, which ports it refuses, which members it alone
finds unhealthy, and which addresses can't be released before it speaks.
` + signs + exitCodes,
		Example: "  fairlead explain proxy edge-1",
		Args:    cobra.ExactArgs(1),
		RunE: explains(&o, func(ctx context.Context, hub *cli.Hub, name string) (cli.Explanation, error) {
			objects, err := hub.Everything(ctx)
			if err != nil {
				return cli.Explanation{}, err
			}
			if objects.MayNot("proxies", "leases", "proxyreports") {
				return cli.Explanation{}, errors.New("you may not list Proxies, their Leases and ProxyReports: use the hub operator's kubeconfig")
			}
			return cli.ExplainProxy(objects, name), nil
		}),
	}
	o.add(c, "json", "yaml")
	c.ValidArgsFunction = oneName(func(cmd *cobra.Command) []string { return o.candidates(cmd, cli.NamesOfProxies, "") })
	return asks(c)
}

// explains makes a RunE that asks about one name, prints the answer, and ends by whether all is served.
func explains(o *hubFlags, ask func(context.Context, *cli.Hub, string) (cli.Explanation, error)) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		hub, err := o.hub()
		if err != nil {
			return exit{2, err}
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), o.timeout)
		defer cancel()
		e, err := ask(ctx, hub, args[0])
		if err != nil {
			return exit{2, err}
		}
		return verdict(e.Served, o.print(cmd, e, e.WriteText))
	}
}
