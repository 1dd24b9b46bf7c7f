package address

import (
	"context"
	"errors"
	"testing"
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// A proxy's word may be its last for long. Where it can't be judged as it comes, the Address is looked at again, until it can.
func TestAReleaseThatCantBeJudgedIsLookedAtAgain(t *testing.T) {
	s := newStage(t, &v1alpha1.Tenant{}, &v1alpha1.Address{})
	a := s.address()
	a.Spec.Phase, a.Spec.ReleasingSince = v1alpha1.AddressReleasing, &metav1.Time{Time: time.Now()}
	if err := s.hub.Update(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	s.Keeper.Observe(s.address())
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer queue.ShutDown()
	if err := s.Queue.Start(t.Context(), queue); err != nil {
		t.Fatal(err)
	}
	hub, ok := s.hub.(client.WithWatch)
	if !ok {
		t.Fatalf("%T can't be watched", s.hub)
	}
	s.Client = interceptor.NewClient(hub, interceptor.Funcs{Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
		return errors.New("not now")
	}})
	says := func(boot string) {
		s.Fleet.SetProxy(&v1alpha1.Proxy{
			ObjectMeta: metav1.ObjectMeta{Name: "edge-1"}, Spec: v1alpha1.ProxySpec{Pool: "edge"}, Status: v1alpha1.ProxyStatus{Boot: boot},
		})
		s.Fleet.Tell()
	}
	says("a")
	if n := queue.Len(); n != 1 {
		t.Fatalf("%d are looked at, and one couldn't be judged", n)
	}
	key, _ := queue.Get()
	if key.Name != held {
		t.Errorf("%s is looked at", key.Name)
	}
	queue.Done(key)
	// The control: of one that can be judged, and waits for that proxy, its next word is waited for.
	s.Client = s.hub
	says("b")
	if n := queue.Len(); n != 0 {
		t.Errorf("%d are looked at while a proxy has not let go", n)
	}
}
