package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"fairlead.dev/fairlead/internal/patience"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
)

const (
	// reachEvery is the least time from one look for a hub that is away to the next, reachWithin how long it may take to answer one.
	reachEvery  = time.Second
	reachWithin = 5 * time.Second
	// settlesWithin is how long a hub may refuse what it allows: an API server that has just started knows no roles and no kinds yet.
	settlesWithin = 30 * time.Second
)

// reach makes what needs a hub once there is one: a process that starts while its hub is away waits, and ends with no error.
type reach struct {
	host string
	// ask is nil once the hub answers, whatever it says.
	ask func(context.Context) error
	log *slog.Logger
	why atomic.Pointer[string]
}

func newReach(cfg *rest.Config, log *slog.Logger) (*reach, error) {
	c, err := discovery.NewDiscoveryClientForConfig(patience.Polite(cfg))
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	return &reach{host: cfg.Host, log: log, ask: func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, reachWithin)
		defer cancel()
		return away(c.RESTClient().Get().AbsPath("/version").Do(ctx).Error())
	}}, nil
}

// away leaves of an error what may pass by itself: nobody answers, or one who can't yet. A certificate that is not the
// hub's is no such thing.
func away(err error) error {
	var wrong *tls.CertificateVerificationError
	var answer apierrors.APIStatus
	if errors.As(err, &wrong) || errors.As(err, &answer) && answer.Status().Code < http.StatusInternalServerError {
		return nil
	}
	return err
}

// refused says that an API server answered, with an error, or that it serves no kind that it is asked for.
func refused(err error) bool {
	var answer apierrors.APIStatus
	return errors.As(err, &answer) || meta.IsNoMatchError(err)
}

// Why says what is waited for; empty: nothing.
func (r *reach) Why() string {
	if why := r.why.Load(); why != nil {
		return *why
	}
	return ""
}

// until calls make once the hub answers, and again where make failed and the hub is away again, or refused while it may be starting.
func (r *reach) until(ctx context.Context, make func() (*life, error)) (*life, error) {
	began := time.Now()
	for {
		waited, err := r.await(ctx)
		if err != nil {
			return nil, err
		}
		if waited {
			began = time.Now()
		}
		l, err := make()
		switch {
		case err == nil:
			return l, nil
		case r.ask(ctx) != nil:
		case refused(err) && time.Since(began) < settlesWithin:
			r.log.Warn("the hub refuses what is needed; trying again", "hub", r.host, "err", err)
			if err := r.pause(ctx, time.Now()); err != nil {
				return nil, err
			}
		default:
			return nil, err
		}
	}
}

// await fails when ctx ends only. waited: the hub was away.
func (r *reach) await(ctx context.Context) (waited bool, err error) {
	for ; ; waited = true {
		began := time.Now()
		err := r.ask(ctx)
		if err == nil {
			r.why.Store(nil)
			return waited, nil
		}
		if r.Why() == "" {
			r.log.Warn("waiting for the hub", "hub", r.host, "err", err)
		}
		why := fmt.Sprintf("waiting for the hub %s: %v", r.host, err)
		r.why.Store(&why)
		if err := r.pause(ctx, began); err != nil {
			return waited, err
		}
	}
}

// pause waits until a look may follow one that began then: at once, if nobody answered that for long.
func (r *reach) pause(ctx context.Context, began time.Time) error {
	select {
	case <-ctx.Done():
		return fmt.Errorf("waiting for the hub %s: %w", r.host, ctx.Err())
	case <-time.After(time.Until(began.Add(reachEvery))):
		return nil
	}
}
