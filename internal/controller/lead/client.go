package lead

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Client is a client that asks before each write whether it may.
func Client(c client.Client, check func(context.Context) error) client.Client {
	return &guarded{c, check}
}

type guarded struct {
	client.Client
	check func(context.Context) error
}

func (c *guarded) Create(ctx context.Context, o client.Object, opts ...client.CreateOption) error {
	if err := c.check(ctx); err != nil {
		return err
	}
	return c.Client.Create(ctx, o, opts...)
}

func (c *guarded) Update(ctx context.Context, o client.Object, opts ...client.UpdateOption) error {
	if err := c.check(ctx); err != nil {
		return err
	}
	return c.Client.Update(ctx, o, opts...)
}

func (c *guarded) Patch(ctx context.Context, o client.Object, p client.Patch, opts ...client.PatchOption) error {
	if err := c.check(ctx); err != nil {
		return err
	}
	return c.Client.Patch(ctx, o, p, opts...)
}

func (c *guarded) Delete(ctx context.Context, o client.Object, opts ...client.DeleteOption) error {
	if err := c.check(ctx); err != nil {
		return err
	}
	return c.Client.Delete(ctx, o, opts...)
}

func (c *guarded) Status() client.SubResourceWriter {
	return &guardedStatus{c.Client.Status(), c.check}
}

type guardedStatus struct {
	client.SubResourceWriter
	check func(context.Context) error
}

func (s *guardedStatus) Patch(ctx context.Context, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
	if err := s.check(ctx); err != nil {
		return err
	}
	return s.SubResourceWriter.Patch(ctx, o, p, opts...)
}

func (s *guardedStatus) Update(ctx context.Context, o client.Object, opts ...client.SubResourceUpdateOption) error {
	if err := s.check(ctx); err != nil {
		return err
	}
	return s.SubResourceWriter.Update(ctx, o, opts...)
}
