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

func newLeaveCommand(log *app.LogOptions) *cobra.Command {
	o := app.LeaveOptions{}
	c := &cobra.Command{
		Use:   "leave",
		Short: "Stop a proxy for good: empty its data plane, and tell the hub that it has left",
		Long: `Takes a proxy away from this host, so that nothing waits for it any more. (SIGTERM is a restart: the hub goes on to count
the proxy, and no address that it may serve goes to anybody else.)

The process that runs under this name and state directory closes its listeners, lets open connections end for up to --timeout and
cuts the others, takes its rules and addresses away from this host, removes its last-good file, writes phase Left to its Proxy,
and ends with code 0. If none runs, this command does the same by itself. Once begun it can't be undone, and goes on if this
command is interrupted. Starting the proxy again later registers it anew.

What starts the process again whatever its exit code (systemd with Restart=always) must be stopped before. Route the traffic
elsewhere first.

It needs the hub: if that is away nothing is changed. With --force it leaves all the same, unheard; then fence or delete the
Proxy in the hub.`,
		Example: `  fairlead proxy leave --kubeconfig hub.kubeconfig --name edge-1 --state-dir /var/lib/fairlead
  fairlead proxy leave --kubeconfig hub.kubeconfig --name edge-1 --state-dir /var/lib/fairlead --dataplane nftables --timeout 30s`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: process(log, func(ctx context.Context, logger *slog.Logger) error {
			o.Logger = logger
			return app.LeaveProxy(ctx, o)
		}),
	}
	host, _ := os.Hostname() // unknown: --name must be set
	f := c.Flags()
	f.StringVar(&o.Kubeconfig, "kubeconfig", "", "kubeconfig of the hub, of this proxy's identity (default: $KUBECONFIG, else ~/.kube/config, else the Pod's own)")
	f.StringVar(&o.Context, "context", "", "context of the kubeconfig")
	f.StringVar(&o.Name, "name", host, "name of the proxy, as its process has it")
	f.StringVar(&o.StateDir, "state-dir", "", "state directory of the proxy, as its process has it; empty: it has none, or it is lost, and no process runs")
	f.StringVar(&o.Dataplane, "dataplane", "", "what carried the traffic, where no process runs: "+strings.Join(app.Dataplanes(), ", ")+" (default: what its Proxy says)")
	f.DurationVar(&o.Timeout, "timeout", 5*time.Minute, "how long open connections may run on before they are cut")
	f.BoolVar(&o.Force, "force", false, "leave although the hub can't be told")
	if err := c.RegisterFlagCompletionFunc("dataplane", cobra.FixedCompletions(app.Dataplanes(), cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // no such flag
	}
	if err := c.MarkFlagDirname("state-dir"); err != nil {
		panic(err) // no such flag
	}
	return c
}
