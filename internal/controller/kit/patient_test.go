package kit_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/controller/kit"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func TestPatientSaysEitherWhenOrWhatFailed(t *testing.T) {
	away, later := errors.New("away"), reconcile.Result{RequeueAfter: time.Hour}
	for _, c := range []struct {
		name   string
		result reconcile.Result
		err    error
		wants  error
		soon   bool
	}{
		{"well", reconcile.Result{}, nil, nil, false},
		{"well, look again", later, nil, nil, false},
		{"failed", reconcile.Result{}, away, away, false},
		{"failed, look again", later, away, away, false},
		{"conflict", later, apierrors.NewConflict(schema.GroupResource{}, "x", away), nil, true},
	} {
		p := kit.Patient{Reconciler: reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) { return c.result, c.err })}
		got, err := p.Reconcile(t.Context(), reconcile.Request{})
		if !errors.Is(err, c.wants) || err != nil && got != (reconcile.Result{}) {
			t.Errorf("%s: %+v and %v", c.name, got, err)
		}
		switch {
		case c.soon && (got.RequeueAfter <= 0 || got.RequeueAfter > time.Second):
			t.Errorf("%s: again in %s", c.name, got.RequeueAfter)
		case !c.soon && err == nil && got != c.result:
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}
