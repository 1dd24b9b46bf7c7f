package main

import (
	"context"
	"log/slog"
	"os"

	"fairlead.dev/fairlead/internal/app"
	"github.com/spf13/cobra"
)

// process makes a command's RunE of what runs until its context ends, with a logger to stderr.
func process(log *app.LogOptions, run func(context.Context, *slog.Logger) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, _ []string) error {
		logger, err := app.NewLogger(os.Stderr, *log)
		if err != nil {
			return err
		}
		return run(cmd.Context(), logger)
	}
}

// leaderElectionFlags adds the flags of a component of which several may run, but for --leader-elect itself.
func leaderElectionFlags(c *cobra.Command, e *app.LeaderElection) {
	f := c.Flags()
	f.DurationVar(&e.LeaseDuration, "leader-elect-lease-duration", e.LeaseDuration, "how long a leader that is silent stays one")
	f.DurationVar(&e.RenewDeadline, "leader-elect-renew-deadline", e.RenewDeadline, "how long a leader tries to renew before it steps down")
	f.DurationVar(&e.RetryPeriod, "leader-elect-retry-period", e.RetryPeriod, "time between two tries")
}

// metricsFlags adds the flags of what a process shows of itself.
func metricsFlags(c *cobra.Command, o *app.MetricsOptions) {
	f := c.Flags()
	f.StringVar(&o.Address, "metrics-address", "", "address of /metrics, /healthz and /readyz; empty: none")
	f.BoolVar(&o.Secure, "metrics-secure", false, "serve these by TLS, and /metrics to those alone whose token the API server knows, and allows to get it")
	f.StringVar(&o.CertDir, "metrics-cert-dir", "", "directory of tls.crt and tls.key for that, which may change; empty: a certificate of its own making")
	if err := c.MarkFlagDirname("metrics-cert-dir"); err != nil {
		panic(err) // no such flag
	}
}
