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
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
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
		if !b.emptied.has(key) {
			t.Error("forgotten before the hub shows it")
		}
		has.Spec = wrote[0].Spec
		if _, did, _, err := b.ensure(t.Context(), after, nil, has); err != nil || did || b.emptied.has(key) {
			t.Errorf("%v, wrote: %t, remembered: %t", err, did, b.emptied.has(key))
		}
	})
}
