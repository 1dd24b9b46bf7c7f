package agent

import (
	"context"
	"errors"
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

// A Service that was asked for while the hub is away is written soon after it is back, though its user has been told that it is away,
// and though a hub that has just come back forbids everything for a moment.
func TestAHubThatIsAwayForLongIsTriedOnSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tenant, hub := fakes(t, 0)
		back, wrote := time.Now().Add(50*time.Second), time.Time{}
		knowsRoles := back.Add(time.Second)
		hub = interceptor.NewClient(hub, interceptor.Funcs{
			Apply: func(context.Context, client.WithWatch, runtime.ApplyConfiguration, ...client.ApplyOption) error {
				switch now := time.Now(); {
				case now.Before(back):
					return errors.New("connection refused")
				case now.Before(knowsRoles):
					return apierrors.NewForbidden(schema.GroupResource{Resource: "loadbalancers"}, "x", nil)
				}
				wrote = time.Now()
				return nil
			},
		})
		told := false
		tenant = interceptor.NewClient(tenant, interceptor.Funcs{
			SubResourcePatch: func(_ context.Context, _ client.Client, _ string, o client.Object, patch client.Patch, _ ...client.SubResourcePatchOption) error {
				text, err := patch.Data(o)
				told = told || strings.Contains(string(text), service.ReasonHubUnreachable)
				return err
			},
		})
		s := epochsOf(tenant, hub).services
		s.services, s.waiting, s.failing, s.forbidden, s.gone = newMemory[struct{}](), newSince(), newSince(), newSince(), newObserved[types.NamespacedName]()
		s.events = newRecorder(tenant, "agent", s.log, s.metrics)
		r := newRetrying(s, "service", s.log)
		for wrote.IsZero() {
			result, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: key})
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(max(result.RequeueAfter, time.Millisecond))
		}
		if !told {
			t.Errorf("nobody was told %s", service.ReasonHubUnreachable)
		}
		if late := wrote.Sub(knowsRoles); late > retryMostOfFew {
			t.Errorf("written %s after the hub was back", late)
		}
	})
}
