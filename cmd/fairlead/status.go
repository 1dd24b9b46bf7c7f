package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"fairlead.dev/fairlead/internal/app"
	"fairlead.dev/fairlead/internal/cli"
	"github.com/spf13/cobra"
)

// hubFlags say which hub is asked, and how the answer is printed.
type hubFlags struct {
	kubeconfig, context, output string
	timeout                     time.Duration
	// outputs are the forms that --output may name.
	outputs []string
}

func (h *hubFlags) add(c *cobra.Command, outputs ...string) {
	h.outputs = outputs
	f := c.Flags()
	f.StringVar(&h.kubeconfig, "kubeconfig", "", "kubeconfig of the hub (default: $KUBECONFIG, else ~/.kube/config)")
	f.StringVar(&h.context, "context", "", "context of that kubeconfig")
	f.StringVarP(&h.output, "output", "o", "", "how to print: "+strings.Join(outputs, " or ")+" (default: text)")
	f.DurationVar(&h.timeout, "timeout", 30*time.Second, "how long to wait for answers")
	if err := c.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(outputs, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // no such flag
	}
}

func (h *hubFlags) hub() (*cli.Hub, error) {
	if h.output != "" && !slices.Contains(h.outputs, h.output) {
		return nil, fmt.Errorf("--output %q: must be one of %s", h.output, strings.Join(h.outputs, ", "))
	}
	if h.timeout <= 0 {
		return nil, fmt.Errorf("--timeout %s: must be more than 0s", h.timeout)
	}
	cfg, err := app.LoadConfig(h.kubeconfig, h.context, "cli")
	if err != nil {
		return nil, err
	}
	scheme, err := app.Scheme()
	if err != nil {
		return nil, err
	}
	return cli.NewHub(cfg, scheme)
}

// verdict is how a command that asks ends.
func verdict(served bool, err error) error {
	switch {
	case err != nil:
		return exit{2, err}
	case !served:
		return exit{code: 1}
	}
	return nil
}

func newStatusCommand() *cobra.Command {
	o := hubFlags{}
	watch := time.Duration(0)
	c := &cobra.Command{
		Use:   "status",
		Short: "The hub at a glance, problems first",
		Long: `Prints what is amiss in the hub, then its LoadBalancers by state, its tenants, address pools and proxies.

A proxy counts as live if it renewed its Lease within 30 s, by its own clock and the hub's.
` + exitCodes,
		Example: `  fairlead status --context hub
  fairlead status -o json | jq '.problems[] | select(.state == "broken")'
  fairlead status --watch 2s`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			hub, err := o.hub()
			if err != nil {
				return exit{2, err}
			}
			if watch <= 0 {
				return verdict(o.status(cmd.Context(), hub, cmd.OutOrStdout()))
			}
			return o.watchStatus(cmd.Context(), hub, cmd.OutOrStdout(), watch)
		},
	}
	o.add(c, "json", "yaml", "wide")
	c.Flags().DurationVar(&watch, "watch", 0, "print it again each time this has passed, until interrupted; 0: once")
	return asks(c)
}

// status asks and prints once.
func (h *hubFlags) status(ctx context.Context, hub *cli.Hub, out io.Writer) (healthy bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, h.timeout)
	defer cancel()
	objects, err := hub.Everything(ctx)
	if err != nil {
		return false, err
	}
	v := cli.Summarize(objects)
	switch h.output {
	case "":
		err = v.WriteText(out, objects.Now, cli.Narrow)
	case "wide":
		err = v.WriteText(out, objects.Now, cli.Wide)
	default:
		err = cli.WriteAs(out, h.output, v)
	}
	return v.Healthy, err
}

func (h *hubFlags) watchStatus(ctx context.Context, hub *cli.Hub, out io.Writer, every time.Duration) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		healthy, err := h.status(ctx, hub, out)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			// The hub may be back at the next tick.
			fmt.Fprintf(out, "can't ask the hub: %v\n", err)
		}
		select {
		case <-ctx.Done():
			return verdict(healthy, err)
		case <-tick.C:
			fmt.Fprintln(out, "\n---")
		}
	}
}
