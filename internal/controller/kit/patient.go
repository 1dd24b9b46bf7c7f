package kit

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// conflictPause is how long the cache gets to learn what somebody else wrote.
const conflictPause = 20 * time.Millisecond

// Patient takes a conflict for what it is: the cache lags, look again in a moment. It is no error that anybody must see.
type Patient struct{ reconcile.Reconciler }

// Reconcile asks the reconciler within.
func (p Patient) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	result, err := p.Reconciler.Reconcile(ctx, req)
	if apierrors.IsConflict(err) {
		return reconcile.Result{RequeueAfter: conflictPause}, nil
	}
	return result, err
}
