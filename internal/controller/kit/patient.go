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
// Where there is another error, when to look again is the queue's to say, and the reconciler's word is dropped: of both,
// controller-runtime takes the error, and logs that it was told two things.
type Patient struct{ reconcile.Reconciler }

// Reconcile asks the reconciler within.
func (p Patient) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	result, err := p.Reconciler.Reconcile(ctx, req)
	switch {
	case apierrors.IsConflict(err):
		return reconcile.Result{RequeueAfter: conflictPause}, nil
	case err != nil:
		return reconcile.Result{}, err
	}
	return result, nil
}
