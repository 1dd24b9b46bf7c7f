package app

import (
	"context"
	"errors"

	"fairlead.dev/fairlead/internal/controller/lead"
)

// Start runs the life until ctx ends, its leadership is lost, or its hub turns out to be another one than it was.
func (l *life) Start(ctx context.Context) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	if l.guard != nil {
		l.guard.OnChange(end)
	}
	err := l.Manager.Start(ctx)
	if cause := context.Cause(ctx); hubChanged(cause) {
		return cause
	}
	return err
}

// hubChanged says that a life ended so that another begins with what the hub holds now.
func hubChanged(err error) bool { return errors.Is(err, lead.ErrHubChanged) }
