package app

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"fairlead.dev/fairlead/internal/controller/lead"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// LeaderElection makes one of several processes the only one that writes.
type LeaderElection struct {
	Enabled                                   bool
	LeaseDuration, RenewDeadline, RetryPeriod time.Duration
}

// DefaultLeaderElection is what Kubernetes' own components use.
func DefaultLeaderElection() LeaderElection {
	return LeaderElection{Enabled: true, LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second}
}

// into sets a manager's options.
func (e *LeaderElection) into(o *manager.Options, lock resourcelock.Interface) {
	o.LeaderElection, o.LeaderElectionResourceLockInterface, o.LeaderElectionReleaseOnCancel = e.Enabled, lock, true
	o.LeaseDuration, o.RenewDeadline, o.RetryPeriod = &e.LeaseDuration, &e.RenewDeadline, &e.RetryPeriod
}

// life is a controller-runtime manager between its start and the loss of its leadership.
type life struct {
	manager.Manager
	metrics prometheus.Gatherer
	guard   *lead.Guard // nil: whoever writes may
	// started: the caches run, and hold what was asked for before. complete: and all that a leader needs.
	started, complete atomic.Bool
}

// newLife counts what registry counts. complete returns once a leader has read all that it needs, or fails; nil: it is not waited for.
func newLife(mgr manager.Manager, registry *prometheus.Registry, complete func(context.Context) error) (*life, error) {
	l := &life{Manager: mgr, metrics: prometheus.Gatherers{metrics.Registry, registry}}
	l.complete.Store(complete == nil)
	parts := []manager.Runnable{onStandby(func(ctx context.Context) error {
		l.started.Store(mgr.GetCache().WaitForCacheSync(ctx))
		return nil
	})}
	if complete != nil {
		parts = append(parts, manager.RunnableFunc(func(ctx context.Context) error { // of a leader alone
			if err := complete(ctx); err != nil {
				if ctx.Err() != nil {
					return nil // it ends before it is complete
				}
				return err
			}
			l.complete.Store(true)
			return nil
		}))
	}
	for _, p := range parts {
		if err := mgr.Add(p); err != nil {
			return nil, fmt.Errorf("adding the readiness check: %w", err)
		}
	}
	return l, nil
}

// ready tells that a leader has all that it needs, or that whoever stands by may take over.
func (l *life) ready() bool { return l.started.Load() && (l.complete.Load() || !hasLed(l)) }

// onStandby is a part that runs in every manager, leader or not.
type onStandby func(context.Context) error

// Start runs it.
func (f onStandby) Start(ctx context.Context) error { return f(ctx) }

// NeedLeaderElection says that it doesn't.
func (onStandby) NeedLeaderElection() bool { return false }

// pauseBetweenLives keeps a process that can't start anew from spinning.
const pauseBetweenLives = time.Second

// lives runs one life after the other until ctx ends. Whoever has lost its
// leadership, most often because the API server was away, forgets everything and starts anew
// under the same name: nobody has to restart the process, and no Lease has to run out
// first. What fails before it ever led is an error.
type lives struct {
	Logger *slog.Logger
	// Metrics as the process was told; API says who may see them. HealthAddress shows health alone; empty: nowhere.
	Metrics       MetricsOptions
	API           *rest.Config
	HealthAddress string
	// New makes a life; it may be called several times, one life at a time.
	New func(context.Context) (*life, error)
	// Waits says what New waits for; empty: nothing. nil: it never waits.
	Waits func() string

	now atomic.Pointer[life]
}

func (s *lives) run(ctx context.Context) error {
	stop, err := s.serve()
	if err != nil {
		return err
	}
	defer stop()
	led := false
	for {
		s.now.Store(nil)
		l, err := s.New(ctx)
		if err == nil {
			s.now.Store(l)
			err = l.Start(ctx)
			led = led || hasLed(l) || hubChanged(err)
		}
		switch {
		case ctx.Err() != nil && led:
			return nil // it was asked to end; what it says of that interests nobody
		case err == nil || !led:
			return err
		}
		s.Logger.Warn("no longer leading, starting anew", "err", err)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pauseBetweenLives):
		}
	}
}

func hasLed(l *life) bool {
	select {
	case <-l.Elected():
		return true
	default:
		return false
	}
}

// health is that of the present life.
func (s *lives) health() http.Handler {
	return healthSaying(func() string {
		switch l := s.now.Load(); {
		case l != nil && l.ready():
			return ""
		case l == nil && s.Waits != nil && s.Waits() != "":
			return s.Waits()
		}
		return "the caches are not complete yet"
	})
}

// serve serves metrics and health of the present life until stop is called.
func (s *lives) serve() (stop func(), err error) {
	health := s.health()
	stopAll, err := serveMetrics(s.Metrics, s.API, health, prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
		if l := s.now.Load(); l != nil {
			return l.metrics.Gather()
		}
		return nil, nil
	}), s.Logger)
	if err != nil || s.HealthAddress == s.Metrics.Address {
		return stopAll, err
	}
	stopHealth, err := serveHTTP(s.HealthAddress, nil, health, s.Logger)
	if err != nil {
		stopAll()
		return nil, err
	}
	return func() { stopAll(); stopHealth() }, nil
}
