// Command fairlead load-balances a fleet of Kubernetes clusters: manager,
// agent and proxy, and the commands for people. Each subcommand has a file here
// that turns flags into options; internal/app runs them.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"fairlead.dev/fairlead/internal/app"
	"fairlead.dev/fairlead/internal/version"
	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	root := newRootCommand()
	root.SetArgs(arguments(os.Args))
	if err := root.ExecuteContext(ctx); err != nil {
		code := exit{code: 1, err: err}
		errors.As(err, &code)
		if code.err != nil {
			fmt.Fprintln(os.Stderr, "fairlead:", code.err)
		}
		os.Exit(code.code)
	}
}

// arguments of the command line. Linked as kubectl_complete-fairlead, the program answers what kubectl asks it when
// somebody presses Tab after kubectl fairlead.
func arguments(argv []string) []string {
	if filepath.Base(argv[0]) == "kubectl_complete-fairlead" {
		return append([]string{cobra.ShellCompRequestCmd}, argv[1:]...)
	}
	return argv[1:]
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
	if strings.HasPrefix(filepath.Base(os.Args[0]), "kubectl-") {
		// Linked as kubectl-fairlead, it is kubectl fairlead.
		root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl fairlead"}
	}
	root.PersistentFlags().StringVar(&log.Format, "log-format", "text", "how processes log: text or json")
	debug := ""
	root.PersistentFlags().StringVar(&debug, "debug-address", "", "address of /debug/pprof/; empty: none")
	root.PersistentPreRunE = func(*cobra.Command, []string) error {
		if debug == "" {
			return nil
		}
		logger, err := app.NewLogger(os.Stderr, *log)
		if err == nil {
			app.ServeDebug(debug, logger)
		}
		return err
	}
	root.PersistentFlags().StringVar(&log.Level, "log-level", "info", "what processes log: debug, info, warn or error")
	root.AddCommand(newAgentCommand(log), newCheckCommand(), newDemoCommand(), newDrainCommand(), newExplainCommand(), newManagerCommand(log), newProxyCommand(log), newStatusCommand())
	return root
}
