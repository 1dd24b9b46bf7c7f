package agent

import (
	"context"
	"log/slog"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// An item that failed is tried again after these, twice as long each time.
const (
	retryFirst = 20 * time.Millisecond
	retryMost  = 5 * time.Second
)

// retrying tries again what failed, each key at its own pace. An API server that is away fails for
// every key: that is a warning, not an error each.
type retrying struct {
	next  reconcile.Reconciler
	pace  workqueue.TypedRateLimiter[reconcile.Request]
	log   *slog.Logger
	about string
}

func newRetrying(next reconcile.Reconciler, about string, log *slog.Logger) *retrying {
	return &retrying{next: next, about: about, log: log, pace: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](retryFirst, retryMost)}
}

// Reconcile never fails.
func (r *retrying) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	result, err := r.next.Reconcile(ctx, req)
	switch {
	case err == nil:
		r.pace.Forget(req)
		return result, nil
	case ctx.Err() != nil: // we are stopping
		return reconcile.Result{}, nil
	}
	wait := r.pace.When(req)
	r.log.Warn("failed, will be tried again", "what", r.about, "key", req.NamespacedName, "wait", wait, "error", err)
	return reconcile.Result{RequeueAfter: wait}, nil
}
