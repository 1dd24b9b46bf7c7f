package agent

import (
	"context"
	"log/slog"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// A key that failed is tried again after these, twice as long each time. The most is less while few
// keys fail, so that they are done soon after an API server is back: all together try retryRate times a second.
const (
	retryFirst     = 20 * time.Millisecond
	retryMost      = 5 * time.Second
	retryMostOfFew = 500 * time.Millisecond
	retryRate      = 200
)

// retrying tries again what failed, each key at its own pace. An API server that is away fails for
// every key: that is a warning, not an error each, and none again until the key fails otherwise.
type retrying struct {
	next  reconcile.Reconciler
	pace  workqueue.TypedRateLimiter[reconcile.Request]
	log   *slog.Logger
	about string

	mu      sync.Mutex
	failing map[reconcile.Request]metav1.StatusReason // as it failed last
}

func newRetrying(next reconcile.Reconciler, about string, log *slog.Logger) *retrying {
	return &retrying{next: next, about: about, log: log, failing: map[reconcile.Request]metav1.StatusReason{}, pace: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](retryFirst, retryMost)}
}

// Reconcile never fails.
func (r *retrying) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	result, err := r.next.Reconcile(ctx, req)
	switch {
	case err == nil:
		r.mend(req)
		return result, nil
	case ctx.Err() != nil: // we are stopping
		return reconcile.Result{}, nil
	}
	wait, isNew := r.wait(req, err)
	level := slog.LevelDebug
	if isNew {
		level = slog.LevelWarn
	}
	r.log.Log(ctx, level, "failed, will be tried again", "what", r.about, "key", req.NamespacedName, "wait", wait, "err", err)
	return reconcile.Result{RequeueAfter: wait}, nil
}

func (r *retrying) mend(req reconcile.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.failing, req)
	r.pace.Forget(req)
}

// wait is until the next try; isNew tells that the key didn't fail so the last time.
func (r *retrying) wait(req reconcile.Request, err error) (wait time.Duration, isNew bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	why := apierrors.ReasonForError(err)
	before, fails := r.failing[req]
	r.failing[req] = why
	fair := time.Duration(len(r.failing)) * time.Second / retryRate
	return min(r.pace.When(req), max(fair, retryMostOfFew)), !fails || before != why
}
