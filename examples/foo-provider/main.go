// Command foo-provider manages FooLoadBalancers: load balancers for TCP that run in this process. It is an example of a
// provider, to start one's own from.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/signal"
	"syscall"
	"time"

	"fairlead.dev/fairlead/examples/foo-provider/api"
	"fairlead.dev/fairlead/examples/foo-provider/balancer"
	"fairlead.dev/fairlead/examples/foo-provider/foo"
	"fairlead.dev/fairlead/provider"
	"fairlead.dev/fairlead/provider/webhook"
	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// options of the program.
type options struct {
	addresses, metrics, serve, webhook, control string
	delay                                       time.Duration
}

func main() {
	var o options
	flag.StringVar(&o.addresses, "addresses", "127.80.0.0/24", "`CIDR` of this host's addresses that load balancers get where they ask for none")
	flag.DurationVar(&o.delay, "apply-delay", 0, "how long a change of members takes to apply")
	flag.StringVar(&o.metrics, "metrics", "0", "`address` to serve metrics at; 0: none")
	flag.StringVar(&o.serve, "serve", "", "be the cloud alone, and answer at this `address` what package webhook calls; whoever reaches it may do anything")
	flag.StringVar(&o.control, "control", "", "loopback `address` at which the cloud's delay and faults are shown and set: GET, or PUT {\"applyDelay\": \"5s\", \"faults\": {\"SetMembers\": \"halves\"}}")
	flag.StringVar(&o.webhook, "webhook", "", "have whoever answers at this `URL` manage load balancers, instead of the cloud in this process")
	flag.Parse() // with --kubeconfig, of controller-runtime
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "foo-provider:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	prefix, err := netip.ParsePrefix(o.addresses)
	if err != nil {
		return fmt.Errorf("--addresses: %w; write it as 127.80.0.0/24", err)
	}
	cloud := balancer.New(balancer.Options{Addresses: prefix, ApplyDelay: o.delay})
	defer cloud.Close()
	if o.control != "" {
		end, err := control(o.control, cloud)
		if err != nil {
			return fmt.Errorf("--control: %w", err)
		}
		defer end()
	}
	if o.serve != "" {
		return serve(ctx, o.serve, cloud)
	}
	what := foo.Options(cloud)
	if o.webhook != "" {
		if what.Provider, err = webhook.New(webhook.Options{URL: o.webhook}); err != nil {
			return fmt.Errorf("--webhook: %w", err)
		}
	}
	return manage(ctx, o.metrics, what)
}

// control answers at the control address until end.
func control(address string, cloud *balancer.Cloud) (end func(), err error) {
	at, err := netip.ParseAddrPort(address)
	if err != nil || !at.Addr().IsLoopback() {
		return nil, fmt.Errorf("%q must be a loopback address with a port, such as 127.0.0.1:9091: whoever reaches it may break the cloud", address)
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	s := &http.Server{Handler: cloud.Control(), ReadHeaderTimeout: 10 * time.Second}
	go func() {
		if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			slog.Error("the control address doesn't answer any more", "error", err)
		}
	}()
	return func() { s.Close() }, nil // its error says only that connections are closed
}

// serve answers webhooks until ctx ends.
func serve(ctx context.Context, address string, cloud *balancer.Cloud) error {
	s := &http.Server{
		Addr:              address,
		Handler:           webhook.Handler(&foo.Provider{Cloud: cloud}, func() provider.Object { return &api.FooLoadBalancer{} }),
		ReadHeaderTimeout: 10 * time.Second,
	}
	stop := context.AfterFunc(ctx, func() { s.Close() })
	defer stop()
	if err := s.ListenAndServe(); err != nil && !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("--serve: %w", err)
	}
	return nil
}

// manage runs the controller until ctx ends.
func manage(ctx context.Context, metrics string, o provider.Options) error {
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
	if err := provider.Setup(ctx, mgr, o); err != nil {
		return err
	}
	return mgr.Start(ctx)
}
