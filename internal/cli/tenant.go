package cli

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Tenant reads a tenant's cluster, and drains its Nodes. It may be used by one goroutine at a time.
type Tenant struct {
	client client.Client
	config *rest.Config
}

// NewTenant returns a reader of the API server that cfg names.
func NewTenant(cfg *rest.Config, scheme *runtime.Scheme) (*Tenant, error) {
	c, err := client.New(cfg, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("making a client of the tenant cluster: %w", err)
	}
	return &Tenant{c, cfg}, nil
}

// ReadService adds a Service to o, if it is there, and its events.
func (t *Tenant) ReadService(ctx context.Context, key types.NamespacedName, o *Objects) error {
	s := &corev1.Service{}
	o.Services = []*corev1.Service{}
	found, err := t.read(ctx, key, s, "Service "+key.String())
	if !found {
		return err
	}
	o.Services = append(o.Services, s)
	return readEvents(ctx, t.client, kindService, key, o)
}

// ReadNode adds a Node to o, if it is there.
func (t *Tenant) ReadNode(ctx context.Context, name string, o *Objects) error {
	n := &corev1.Node{}
	o.Nodes = []*corev1.Node{}
	found, err := t.read(ctx, types.NamespacedName{Name: name}, n, "Node "+name)
	if found {
		o.Nodes = append(o.Nodes, n)
	}
	return err
}

func (t *Tenant) read(ctx context.Context, key types.NamespacedName, into client.Object, what string) (bool, error) {
	switch err := t.client.Get(ctx, key, into); {
	case err == nil:
		return true, nil
	case apierrors.IsNotFound(err):
		return false, nil
	default:
		return false, fmt.Errorf("reading %s of the tenant cluster: %w", what, err)
	}
}
