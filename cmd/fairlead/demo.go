package main

import (
	"fmt"
	"os"
	"strings"

	"fairlead.dev/fairlead/internal/app"
	"fairlead.dev/fairlead/internal/demo"
	"github.com/spf13/cobra"
	"golang.org/x/term"
)

func newDemoCommand() *cobra.Command {
	o := demo.Options{}
	check := false
	c := &cobra.Command{
		Use:   "demo",
		Short: "A hub, two tenant clusters and two proxies on this machine",
		Long: `Starts a hub and two tenant clusters of three nodes each, without containers and without root, the manager, an
agent in each tenant and two proxies, applies example Services and shows what happens to requests, until Ctrl-C. On a terminal,
keys have a node die or drain, the hub go away or be replaced by an empty one, a proxy be cut off from the hub, and a tenant be restored
from a backup.

With --check it runs its story instead, of ` + strings.Join(demo.Steps(), ", ") + `. It prints a line a
step, and for long ones what happens and what is expected. It takes about five minutes. Where this machine is too busy to send as many
requests as a step needs, that step proves nothing, and is told again, three times in all; a request that fails is a failure all the same.

With --dataplane nftables traffic is carried by the kernel. Then it needs root, and the proxies, their clients and the nodes are in
network namespaces of their own, which end with it; the host's own network is left alone. What is served there has IPv6 too.

It needs the kube binary, which "make kube" builds.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			self, err := os.Executable()
			if err != nil {
				return fmt.Errorf("finding this binary: %w", err)
			}
			o.Self, o.Out, o.Screen = self, cmd.OutOrStdout(), term.IsTerminal(int(os.Stdout.Fd()))
			if check {
				return demo.Check(cmd.Context(), o)
			}
			if term.IsTerminal(int(os.Stdin.Fd())) {
				restore, err := eachKey(os.Stdin)
				if err != nil {
					return err
				}
				defer restore()
				o.Keys = os.Stdin
			}
			return demo.Run(cmd.Context(), o)
		},
	}
	f := c.Flags()
	f.BoolVar(&check, "check", false, "run the story without a person, and fail at the first step that does not hold")
	f.StringVar(&o.Dataplane, "dataplane", "builtin", "what carries the traffic: "+strings.Join(app.Dataplanes(), ", "))
	f.StringVar(&o.KubeBinary, "kube", "", "path of the kube binary (default: $FAIRLEAD_KUBE, else bin/kube of this repository)")
	f.StringVar(&o.Dir, "dir", "", "directory for data, logs and kubeconfigs, which stays (default: a temporary one)")
	f.BoolVar(&o.Keep, "keep", false, "keep the temporary directory")
	f.StringVar(&o.Only, "only", "", "with --check: run this step alone, after the first, which each needs")
	return c
}
