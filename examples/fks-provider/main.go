// Command fks-provider manages FKSClusters and FKSControlPlanes: control planes of the Foo Kubernetes Service, which runs in this
// process. It is an example of a Cluster API provider whose cloud has managed control planes, to start one's own from.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"os/signal"
	"syscall"

	"fairlead.dev/fairlead/examples/fks-provider/cloud"
	"fairlead.dev/fairlead/examples/fks-provider/fks"
	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// options of the program.
type options struct {
	addresses, file, metrics string
	port                     uint
}

func main() {
	var o options
	flag.StringVar(&o.addresses, "addresses", "127.81.0.0/24", "`CIDR` of this host's addresses that control planes get where they ask for none")
	flag.UintVar(&o.port, "port", 6443, "port of control planes that ask for none")
	flag.StringVar(&o.file, "file", "fks.json", "`file` that holds what the service has, keys and tokens with it")
	flag.StringVar(&o.metrics, "metrics", "0", "`address` to serve metrics at; 0: none")
	flag.Parse() // with --kubeconfig, of controller-runtime
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "fks-provider:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	prefix, err := netip.ParsePrefix(o.addresses)
	if err != nil {
		return fmt.Errorf("--addresses: %w; write it as 127.81.0.0/24", err)
	}
	if o.port == 0 || o.port > 65535 {
		return fmt.Errorf("--port: %d is none: choose one from 1 to 65535", o.port)
	}
	service, err := cloud.New(cloud.Options{Addresses: prefix, Port: uint16(o.port), File: o.file})
	if err != nil {
		return fmt.Errorf("--file: %w", err)
	}
	defer service.Close()
	cfg, err := config.GetConfig()
	if err != nil {
		return fmt.Errorf("--kubeconfig: %w", err)
	}
	scheme := runtime.NewScheme()
	if err := fks.AddToScheme(scheme); err != nil {
		return err
	}
	ctrl.SetLogger(logr.FromSlogHandler(slog.NewTextHandler(os.Stderr, nil)))
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{Scheme: scheme, Metrics: server.Options{BindAddress: o.metrics}})
	if err != nil {
		return fmt.Errorf("making a manager: %w", err)
	}
	if err := fks.Setup(mgr, fks.Options{Service: service}); err != nil {
		return err
	}
	return mgr.Start(ctx)
}
