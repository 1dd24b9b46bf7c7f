package main

import (
	"context"
	"errors"

	"fairlead.dev/fairlead/internal/app"
	"fairlead.dev/fairlead/internal/cli"
	"github.com/spf13/cobra"
)

// elsewhereFlags say where the hub is of a management cluster that isn't it.
type elsewhereFlags struct {
	kubeconfig, context, namespace string
}

func (o *elsewhereFlags) add(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&o.kubeconfig, "hub-kubeconfig", "", "kubeconfig of the hub, where the LoadBalancer is in a management cluster that isn't it, to look there as well")
	f.StringVar(&o.context, "hub-context", "", "context of that kubeconfig")
	f.StringVar(&o.namespace, "hub-namespace", "", "the management cluster's namespace in the hub (default: that context's)")
}

// read reads what the hub has of that cluster; nil: it was not asked for.
func (o *elsewhereFlags) read(ctx context.Context) (*cli.Elsewhere, error) {
	if o.kubeconfig == "" && o.context == "" {
		if o.namespace != "" {
			return nil, errors.New("--hub-namespace is of the hub: give --hub-kubeconfig too")
		}
		return nil, nil
	}
	cfg, namespace, err := app.LoadConfigAndNamespace(o.kubeconfig, o.context, "cli")
	if err != nil {
		return nil, err
	}
	if o.namespace != "" {
		namespace = o.namespace
	}
	scheme, err := app.Scheme()
	if err != nil {
		return nil, err
	}
	hub, err := cli.NewHub(cfg, scheme)
	if err != nil {
		return nil, err
	}
	objects, err := hub.Namespace(ctx, namespace)
	if err != nil {
		return nil, err
	}
	return &cli.Elsewhere{Objects: objects, Namespace: namespace}, nil
}
