// Command fairlead load-balances a fleet of Kubernetes clusters: manager,
// agent and proxy, and the commands for people. Each subcommand has a file here
// that turns flags into options; internal/app runs them.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"fairlead.dev/fairlead/internal/app"
	"fairlead.dev/fairlead/internal/version"
	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := newRootCommand().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "fairlead:", err)
		os.Exit(1)
	}
}

func newRootCommand() *cobra.Command {
	log := &app.LogOptions{}
	root := &cobra.Command{
		Use:           "fairlead",
		Short:         "Load balancing for fleets of Kubernetes clusters",
		Version:       version.String(),
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.PersistentFlags().StringVar(&log.Format, "log-format", "text", "how processes log: text or json")
	debug := ""
	root.PersistentFlags().StringVar(&debug, "debug-address", "", "address of /debug/pprof/; empty: none")
	root.PersistentPreRunE = func(*cobra.Command, []string) error {
		if debug == "" {
			return nil
		}
		return app.ServeDebug(debug)
	}
	root.PersistentFlags().StringVar(&log.Level, "log-level", "info", "what processes log: debug, info, warn or error")
	root.AddCommand(newAgentCommand(log), newDemoCommand(), newManagerCommand(log), newProxyCommand(log))
	return root
}
