// Command foo-provider manages FooLoadBalancers: load balancers for TCP that run in this process. It is an example of a
// provider, to start one's own from.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"os/signal"
	"syscall"
	"time"

	"fairlead.dev/fairlead/examples/foo-provider/api"
	"fairlead.dev/fairlead/examples/foo-provider/balancer"
	"fairlead.dev/fairlead/examples/foo-provider/foo"
	"fairlead.dev/fairlead/provider"
	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

func main() {
	addresses := flag.String("addresses", "127.80.0.0/24", "`CIDR` of this host's addresses that load balancers get where they ask for none")
	delay := flag.Duration("apply-delay", 0, "how long a change of members takes to apply")
	metrics := flag.String("metrics", "0", "`address` to serve metrics at; 0: none")
	flag.Parse() // with --kubeconfig, of controller-runtime
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *addresses, *delay, *metrics); err != nil {
		fmt.Fprintln(os.Stderr, "foo-provider:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, addresses string, delay time.Duration, metrics string) error {
	prefix, err := netip.ParsePrefix(addresses)
	if err != nil {
		return fmt.Errorf("--addresses: %w; write it as 127.80.0.0/24", err)
	}
	cfg, err := config.GetConfig()
	if err != nil {
		return fmt.Errorf("--kubeconfig: %w", err)
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(provider.AddToScheme(scheme), api.AddToScheme(scheme)); err != nil {
		return err
	}
	ctrl.SetLogger(logr.FromSlogHandler(slog.NewTextHandler(os.Stderr, nil)))
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{Scheme: scheme, Metrics: server.Options{BindAddress: metrics}})
	if err != nil {
		return fmt.Errorf("making a manager: %w", err)
	}
	cloud := balancer.New(balancer.Options{Addresses: prefix, ApplyDelay: delay})
	defer cloud.Close()
	if err := provider.Setup(ctx, mgr, foo.Options(cloud)); err != nil {
		return err
	}
	return mgr.Start(ctx)
}
