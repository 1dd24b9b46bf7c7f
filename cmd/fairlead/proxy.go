package main

import (
	"context"
	"log/slog"
	"os"
	"strings"
	"time"

	"fairlead.dev/fairlead/internal/app"
	"github.com/spf13/cobra"
)

func newProxyCommand(log *app.LogOptions) *cobra.Command {
	o := app.ProxyOptions{}
	c := &cobra.Command{
		Use:   "proxy",
		Short: "Serve the LoadBalancers of a pool on this host",
		Long: `Watches the hub and serves, on this host, all LoadBalancers whose class names the pool. It registers itself as a Proxy
of that name and reports there how far it has come. While the hub is away it serves on; with --state-dir it also starts without it.

It stops on SIGTERM: listeners are closed, and open connections may run on for --shutdown-timeout. That is a restart, not a
goodbye: see fairlead proxy leave.

To restart or upgrade it without a client noticing, start the new process beside the running one, with the same --name and
--state-dir: it takes over the sockets and the running UDP flows, and the old one returns by itself once its last connection
has ended, or --handover-timeout is over. (With data planes that outlive this process there is nothing to take over: stop, then start.)`,
		Args: cobra.NoArgs,
		RunE: process(log, func(ctx context.Context, logger *slog.Logger) error {
			o.Logger = logger
			return app.RunProxy(ctx, o)
		}),
	}
	host, _ := os.Hostname() // unknown: --name must be set
	f := c.Flags()
	f.StringVar(&o.Kubeconfig, "kubeconfig", "", "kubeconfig of the hub (default: $KUBECONFIG, else ~/.kube/config, else the Pod's own)")
	f.StringVar(&o.Context, "context", "", "context of the kubeconfig")
	f.StringVar(&o.Name, "name", host, "name of this proxy, unique in the hub")
	f.StringVar(&o.Pool, "pool", "", "pool that this proxy belongs to; proxies of one pool serve the same addresses")
	f.StringVar(&o.Zone, "zone", "", "zone that this host is in")
	f.StringSliceVar(&o.Addresses, "address", nil, "this host's own addresses, as clients reach them: AddressPools of proxyHosts are served there")
	f.StringVar(&o.Dataplane, "dataplane", "builtin", "what carries the traffic: "+strings.Join(app.Dataplanes(), ", "))
	f.StringSliceVar(&o.BindAs, "bind-as", nil, "FROM=TO prefixes: addresses of FROM arrive at this host as those of TO (builtin only)")
	f.IntVar(&o.ConnectAttempts, "connect-attempts", 0, "on how many members a connection is tried; 0: on three (builtin only)")
	f.StringVar(&o.StateDir, "state-dir", "", "directory, this proxy's own, of the last-good file, which is served when this starts while the hub is away, and of the socket through which the next process takes over; empty: neither is kept")
	metricsFlags(c, &o.Metrics)
	f.DurationVar(&o.HandoverTimeout, "handover-timeout", 0, "how long connections may run on after the next process took over; 0: until they end")
	f.DurationVar(&o.ShutdownTimeout, "shutdown-timeout", 10*time.Second, "how long connections may run on after SIGTERM, where no other process took over")
	c.AddCommand(newLeaveCommand(log), newPurgeCommand(log))
	return c
}
