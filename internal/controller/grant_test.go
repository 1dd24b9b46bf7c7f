package controller_test

import (
	"testing"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/app"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestGrantIsProgrammedOnceEveryLiveProxyIsThrough(t *testing.T) {
	h := newHub(t)
	h.manager(app.LeaderElection{})
	h.create(newPool("public", "192.0.2.0/30"), newClass("edge", "public"))
	h.tenant("prod")
	h.create(newTargetGroup("prod", "10.0.0.1"))

	l := newLoadBalancer("prod", "web", 80)
	h.create(l)
	h.waitFor(l, "Accepted=True", "AddressGranted=True", "Programmed=False/NoProxies", "Ready=False/NoProxies")

	one, two := h.proxy("edge-1"), h.proxy("edge-2")
	one.catchUp()
	h.waitFor(l, "Programmed=True", "Ready=True", "Degraded=False") // edge-2 hasn't applied anything yet: it holds up nobody
	two.catchUp()

	second := newLoadBalancer("prod", "api", 80)
	h.create(second)
	h.waitFor(second, "AddressGranted=True", "Programmed=False/WaitingForProxies")
	one.catchUp()
	h.waitFor(second, "Programmed=False/WaitingForProxies")
	two.catchUp()
	h.waitFor(second, "Programmed=True", "Ready=True")
	if a, b := addressOf(l), addressOf(second); a == b || a == "" || b == "" {
		t.Errorf("addresses %q and %q: want two", a, b)
	}

	// Deleted: Releasing, and the LoadBalancer goes at once.
	address := &v1alpha1.Address{ObjectMeta: metav1.ObjectMeta{Name: addressOf(l)}}
	h.delete(l)
	h.gone(l)
	wait(h, address, "Releasing", func(a *v1alpha1.Address) error {
		if a.Spec.Phase != v1alpha1.AddressReleasing || a.Spec.ReleasingSince == nil {
			t.Fatalf("phase %s since %v: want Releasing before the LoadBalancer is gone", a.Spec.Phase, a.Spec.ReleasingSince)
		}
		return nil
	})
	one.catchUp()
	two.catchUp()
	h.gone(address)
}
