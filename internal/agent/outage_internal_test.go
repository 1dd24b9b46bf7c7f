package agent

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"fairlead.dev/fairlead/internal/agent/service"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// newServing returns what serves a tenant's only Service by a hub that answers writes as apply does. told is what its user is told.
// Neither side takes a write whose context has ended.
func newServing(t *testing.T, log *slog.Logger, apply func(context.Context) error) (r *retrying, told *strings.Builder) {
	t.Helper()
	tenant, hub := fakes(t, 0)
	hub = interceptor.NewClient(hub, interceptor.Funcs{
		Apply: func(ctx context.Context, _ client.WithWatch, _ runtime.ApplyConfiguration, _ ...client.ApplyOption) error {
			return errors.Join(ctx.Err(), apply(ctx))
		},
	})
	told = &strings.Builder{}
	tenant = interceptor.NewClient(tenant, interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, _ client.Client, _ string, o client.Object, patch client.Patch, _ ...client.SubResourcePatchOption) error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			text, err := patch.Data(o)
			told.Write(text)
			return err
		},
	})
	s := epochsOf(tenant, hub).services
	s.services, s.waiting, s.failing, s.refused, s.gone = newMemory[struct{}](), newSince(), newSince(), newSince(), newObserved[types.NamespacedName]()
	s.events = newRecorder(tenant, "agent", s.log, s.metrics)
	return newRetrying(s, "service", log), told
}

// serveUntil reconciles the Service as its queue would until done says that it is enough.
func serveUntil(t *testing.T, r *retrying, done func() bool) {
	t.Helper()
	for !done() {
		result, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: key})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(max(result.RequeueAfter, time.Millisecond)) // of the bubble's clock
	}
}

// A Service that was asked for while the hub is away is written soon after it is back, though its user has been told that it is away,
// and though a hub that has just come back forbids everything for a moment.
func TestAHubThatIsAwayForLongIsTriedOnSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		back, wrote := time.Now().Add(50*time.Second), time.Time{}
		knowsRoles := back.Add(time.Second)
		r, told := newServing(t, slog.New(slog.DiscardHandler), func(context.Context) error {
			switch now := time.Now(); {
			case now.Before(back):
				return errors.New("connection refused")
			case now.Before(knowsRoles):
				return apierrors.NewForbidden(schema.GroupResource{Resource: "loadbalancers"}, "x", nil)
			}
			wrote = time.Now()
			return nil
		})
		serveUntil(t, r, func() bool { return !wrote.IsZero() })
		if !strings.Contains(told.String(), service.ReasonHubUnreachable) {
			t.Errorf("nobody was told %s", service.ReasonHubUnreachable)
		}
		if late := wrote.Sub(knowsRoles); late > retryMostOfFew {
			t.Errorf("written %s after the hub was back", late)
		}
	})
}

// A hub that takes connections and answers nothing is away, and the user is told: it costs no more of a round than its part.
func TestAHubThatNeverAnswersIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, told := newServing(t, slog.New(slog.DiscardHandler), func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		})
		end := time.Now().Add(tellAfter + 3*attempt)
		serveUntil(t, r, func() bool { return time.Now().After(end) })
		if !strings.Contains(told.String(), service.ReasonHubUnreachable) {
			t.Errorf("nobody was told %s, only %q", service.ReasonHubUnreachable, told)
		}
	})
}

// A hub that answers is there: the user reads what it says, it is asked less often then, and the log says it once.
func TestWhatAHubAnswersIsSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, tries := &strings.Builder{}, 0
		r, told := newServing(t, slog.New(slog.NewTextHandler(log, nil)), func(context.Context) error {
			tries++
			return apierrors.NewInternalError(errors.New("failed calling webhook"))
		})
		end := time.Now().Add(10 * time.Minute)
		serveUntil(t, r, func() bool { return time.Now().After(end) })
		for _, word := range []string{service.ReasonHubRefuses, "failed calling webhook"} {
			if !strings.Contains(told.String(), word) {
				t.Errorf("nobody was told %q, only %q", word, told)
			}
		}
		if strings.Contains(told.String(), service.ReasonHubUnreachable) {
			t.Errorf("the user is told %s", service.ReasonHubUnreachable)
		}
		if most := int(10*time.Minute/answeredRetry + 2*tellAfter/retryMostOfFew); tries > most {
			t.Errorf("tried %d times in ten minutes, and %d should be enough", tries, most)
		}
		if lines := strings.Count(log.String(), "\n"); lines != 1 {
			t.Errorf("%d lines in the log:\n%.1000s", lines, log)
		}
	})
}

// A key is logged when it begins to fail, and when it fails otherwise.
func TestAFailureIsLoggedOnce(t *testing.T) {
	log, fails := &strings.Builder{}, error(nil)
	r := newRetrying(reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
		return reconcile.Result{}, fails
	}), "test", slog.New(slog.NewTextHandler(log, nil)))
	refused, other := errors.New("connection refused"), apierrors.NewBadRequest("no")
	for i, c := range []struct {
		err   error
		lines int
	}{{refused, 1}, {refused, 1}, {other, 2}, {other, 2}, {nil, 2}, {other, 3}} {
		fails = c.err
		if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: key}); err != nil {
			t.Fatal(err)
		}
		if lines := strings.Count(log.String(), "\n"); lines != c.lines {
			t.Errorf("try %d: %d lines, want %d", i, lines, c.lines)
		}
	}
}
