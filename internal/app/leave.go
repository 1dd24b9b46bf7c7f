package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"fairlead.dev/fairlead/internal/build"
	"fairlead.dev/fairlead/internal/dataplane"
	"fairlead.dev/fairlead/internal/proxy"
	"k8s.io/klog/v2"
)

// LeaveOptions are what `fairlead proxy leave` is told.
type LeaveOptions struct {
	Kubeconfig, Context string
	Name, StateDir      string
	// Dataplane that the proxy had; empty: as its Proxy says. It counts where no process runs.
	Dataplane string
	Timeout   time.Duration
	Force     bool
	Logger    *slog.Logger
}

// LeaveProxy returns once the proxy has left.
func LeaveProxy(ctx context.Context, o LeaveOptions) error {
	klog.SetSlogLogger(o.Logger)
	if err := checkProxyName(o.Name); err != nil {
		return err
	}
	if o.Timeout < 0 {
		return errors.New("--timeout: must not be negative")
	}
	scheme, err := Scheme()
	if err != nil {
		return err
	}
	cfg, err := LoadConfig(o.Kubeconfig, o.Context, "proxy")
	if err != nil {
		return err
	}
	hub, err := proxy.NewClient(cfg, scheme, o.Name, func(string, error) {})
	if err != nil {
		return err
	}
	err = proxy.Leave(ctx, proxy.LeaveOptions{
		Name: o.Name, StateDir: o.StateDir, Timeout: o.Timeout, Force: o.Force, Hub: hub, Logger: o.Logger,
		Dataplane: o.Dataplane,
		NewDataplane: func(name string) (dataplane.Dataplane, error) {
			return newDataplane(name, DataplaneOptions{Logger: o.Logger})
		},
		NewBuilder: func(pool string, dp dataplane.Dataplane) proxy.Builder {
			return build.New(build.Options{ProxyPool: pool, Check: dp.Check})
		},
	})
	if err != nil {
		return fmt.Errorf("proxy %s: %w", o.Name, err)
	}
	return nil
}
