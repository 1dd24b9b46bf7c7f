package main

import (
	"context"
	"log/slog"

	"fairlead.dev/fairlead/internal/app"
	"github.com/spf13/cobra"
)

func newAgentCommand(log *app.LogOptions) *cobra.Command {
	o := app.AgentOptions{LeaderElection: app.DefaultLeaderElection()}
	o.LeaderElection.Enabled = false
	c := &cobra.Command{
		Use:   "agent",
		Short: "Give a tenant cluster's Services their addresses",
		Long: `Runs beside a tenant cluster. Its Services of type LoadBalancer become LoadBalancers in the hub, its Nodes become
TargetGroups; addresses, conditions and events come back to the Services.

A Service is served if its spec.loadBalancerClass is PREFIX/CLASS, where CLASS is a LoadBalancerClass of the hub, or if it
has none, unless --default=false. The annotation fairlead.dev/class chooses a class too. A Service of type NodePort is served
where its annotation fairlead.dev/expose-nodeport is "true", or PREFIX/CLASS. A Service of type LoadBalancer that a cloud's load
balancer serves, or another's, stays that one's; where its annotation fairlead.dev/expose-loadbalancer says the same, the hub
sends to that load balancer's address instead of the nodes. In such a cluster, give the agent --default=false.

A Tenant is its first cluster's: an agent of another one writes nothing, is not ready, and says why in its log and by an
event. A Service that is missing, though nobody was seen to delete it, keeps its address for a day.

Of several agents of one cluster one should work: give each --leader-elect. What is served needs no agent.`,
		Args: cobra.NoArgs,
		RunE: process(log, func(ctx context.Context, logger *slog.Logger) error {
			o.Logger = logger
			return app.RunAgent(ctx, o)
		}),
	}
	f := c.Flags()
	f.StringVar(&o.Kubeconfig, "kubeconfig", "", "kubeconfig of the tenant cluster (default: $KUBECONFIG, else ~/.kube/config, else the Pod's own)")
	f.StringVar(&o.Context, "context", "", "context of that kubeconfig")
	f.StringVar(&o.HubKubeconfig, "hub-kubeconfig", "", "kubeconfig of the hub")
	f.StringVar(&o.HubContext, "hub-context", "", "context of that kubeconfig")
	f.StringVar(&o.HubNamespace, "hub-namespace", "", "this cluster's namespace in the hub (default: the hub kubeconfig's, else the Tenant's name)")
	f.StringVar(&o.Tenant, "tenant", "", "name of this cluster's Tenant in the hub (default: the hub namespace)")
	f.StringVar(&o.Filter.ClassPrefix, "class-prefix", app.DefaultClassPrefix, "what stands before the slash in the spec.loadBalancerClass of Services that are ours")
	f.BoolVar(&o.Filter.Unclassed, "default", true, "serve Services without spec.loadBalancerClass too")
	f.BoolVar(&o.Filter.ExposeLoadBalancers, "expose-loadbalancers", false, "expose each Service of type LoadBalancer that another load balancer serves, but those that say fairlead.dev/expose-loadbalancer: \"false\"")
	f.BoolVar(&o.Management, "management", false, "in Cluster API's management cluster, where that isn't the hub: have the hub serve LoadBalancers over Machines, and hold Machines until its proxies have stopped")
	metricsFlags(c, &o.Metrics)
	f.StringVar(&o.HealthAddress, "health-address", "", "address of /healthz and /readyz alone; empty: none")
	f.BoolVar(&o.LeaderElection.Enabled, "leader-elect", o.LeaderElection.Enabled, "let one of several agents work, by a Lease in the tenant's namespace fairlead-system")
	leaderElectionFlags(c, &o.LeaderElection)
	if err := c.MarkFlagRequired("hub-kubeconfig"); err != nil {
		panic(err) // no such flag
	}
	c.AddCommand(newAgentLeaveCommand(log))
	return c
}
