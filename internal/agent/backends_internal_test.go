package agent

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/agent/service"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// However long the hub is away: an address that was seen to be taken is no target when it is back.
func TestAnAddressThatWasSeenToBeTakenIsNotHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, hub := fakes(t, 0)
		away := errors.New("away")
		var wrote []v1alpha1.TargetGroup
		b := &backends{namespace: "t", memory: newMemory[v1alpha1.TargetGroupSpec](), emptied: newObserved[types.NamespacedName](), metrics: newMetrics("t")}
		b.hub = interceptor.NewClient(hub, interceptor.Funcs{
			Apply: func(_ context.Context, _ client.WithWatch, o runtime.ApplyConfiguration, _ ...client.ApplyOption) error {
				text, err := json.Marshal(o)
				if err != nil || away != nil {
					return errors.Join(err, away)
				}
				g := v1alpha1.TargetGroup{}
				wrote = append(wrote, g)
				return json.Unmarshal(text, &wrote[len(wrote)-1])
			},
		})
		empties := func(key types.NamespacedName) (before, after *v1.Service) {
			before, after = at("1"), at("2")
			for _, s := range []*v1.Service{before, after} {
				s.Namespace, s.Name, s.UID = key.Namespace, key.Name, types.UID(key.Name)
			}
			before.Status.LoadBalancer.Ingress = []v1.LoadBalancerIngress{{IP: "10.9.0.1"}}
			b.turned(before, after)
			return before, after
		}
		before, after := empties(key)
		has := &v1alpha1.TargetGroup{
			ObjectMeta: metav1.ObjectMeta{Namespace: "t", Name: service.Name(key), Labels: service.BackendLabels(after), Annotations: map[string]string{
				v1alpha1.AnnotationOrigin: service.OriginOf(key), v1alpha1.AnnotationOriginUID: string(after.UID)}},
			Spec: service.BackendSpec(service.Backend(before, nil)),
		}
		if _, _, _, err := b.ensure(t.Context(), after, nil, has); !errors.Is(err, away) {
			t.Fatal(err)
		}
		time.Sleep(time.Hour) // of the bubble's clock
		empties(types.NamespacedName{Namespace: "default", Name: "another"})
		away = nil
		if _, _, _, err := b.ensure(t.Context(), after, nil, has); err != nil || len(wrote) != 1 || len(wrote[0].Spec.Targets) > 0 || wrote[0].Annotations[v1alpha1.AnnotationHeldUntil] != "" {
			t.Fatalf("%v, wrote %+v", err, wrote)
		}
		has.Spec = wrote[0].Spec
		if _, did, _, err := b.ensure(t.Context(), after, nil, has); err != nil || did {
			t.Errorf("%v, wrote: %t", err, did)
		}
	})
}

// An address that comes and goes while the cache still shows the group without one: what was seen to be taken isn't forgotten by that.
func TestAnAddressThatIsTakenAgainIsNotHeld(t *testing.T) {
	_, hub := fakes(t, 0)
	b := &backends{namespace: "t", memory: newMemory[v1alpha1.TargetGroupSpec](), emptied: newObserved[types.NamespacedName](), metrics: newMetrics("t")}
	var wrote []v1alpha1.TargetGroup
	b.hub = interceptor.NewClient(hub, interceptor.Funcs{
		Apply: func(_ context.Context, _ client.WithWatch, o runtime.ApplyConfiguration, _ ...client.ApplyOption) error {
			text, err := json.Marshal(o)
			if err != nil {
				return err
			}
			g := v1alpha1.TargetGroup{}
			err = json.Unmarshal(text, &g)
			wrote = append(wrote, g)
			return err
		},
	})
	bare, full := shown("2", ""), shown("1", "10.9.0.1")
	has := &v1alpha1.TargetGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: "t", Name: service.Name(key), Labels: service.BackendLabels(bare), Annotations: map[string]string{
			v1alpha1.AnnotationOrigin: service.OriginOf(key), v1alpha1.AnnotationOriginUID: string(bare.UID)}},
		Spec: service.BackendSpec(nil),
	}
	b.turned(full, bare)
	if _, did, _, err := b.ensure(t.Context(), bare, nil, has); err != nil || did {
		t.Fatalf("%v, wrote: %t", err, did)
	}
	// What was written in between comes to the cache only now.
	has.Spec = service.BackendSpec(service.Backend(full, nil))
	if _, did, _, err := b.ensure(t.Context(), bare, nil, has); err != nil || !did || len(wrote[0].Spec.Targets) > 0 {
		t.Errorf("%v, wrote %+v", err, wrote)
	}
}

// That an address was seen to be taken is forgotten with it back, and with its Service.
func TestWhatWasSeenToBeTakenIsForgotten(t *testing.T) {
	another := shown("3", "")
	another.UID = "another"
	r := &services{gone: newObserved[types.NamespacedName](), backends: &backends{emptied: newObserved[types.NamespacedName]()}}
	q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer q.ShutDown()
	for name, then := range map[string]func(){
		"the address is back":         func() { r.backends.turned(shown("2", ""), shown("3", "10.9.0.1")) },
		"another Service of the name": func() { r.backends.turned(shown("2", ""), another) },
		"it is deleted": func() {
			r.ofTenant().Delete(t.Context(), event.TypedDeleteEvent[*v1.Service]{Object: shown("2", "")}, q)
		},
		"it is gone, and nobody saw it happen": func() {
			r.ofTenant().Delete(t.Context(), event.TypedDeleteEvent[*v1.Service]{Object: shown("2", ""), DeleteStateUnknown: true}, q)
		},
	} {
		r.backends.turned(shown("1", "10.9.0.1"), shown("2", ""))
		if !r.backends.emptied.has(key) {
			t.Fatal("what is taken isn't noted")
		}
		if then(); r.backends.emptied.has(key) {
			t.Errorf("%s: it is remembered", name)
		}
	}
}

// shown is the Service at a version, with the address that its status shows; empty: none.
func shown(version, address string) *v1.Service {
	s := at(version)
	s.Namespace, s.Name, s.UID = key.Namespace, key.Name, "u"
	if address != "" {
		s.Status.LoadBalancer.Ingress = []v1.LoadBalancerIngress{{IP: address}}
	}
	return s
}
