package controller_test

import (
	"testing"
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/app"
	"fairlead.dev/fairlead/internal/controller/lead"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestRestoredHub: a manager whose hub becomes an older copy of itself starts anew, gives away nothing that is served,
// and has it in the ledger again.
func TestRestoredHub(t *testing.T) {
	h := newHub(t)
	h.name = "restored"
	defer h.explain()
	h.manager(app.LeaderElection{Enabled: true, LeaseDuration: 60 * time.Second, RenewDeadline: 50 * time.Second, RetryPeriod: 200 * time.Millisecond})
	h.stage("192.0.2.0/29")
	p := h.proxy("1")
	p.rest() // it renews when it is told to
	p.catchUp()
	one := h.loadBalancer("one", 80)
	h.waitFor(one, "AddressGranted=True")
	p.catchUp()
	h.waitFor(one, "Programmed=True")
	older, err := h.control.SaveCopy()
	if err != nil {
		t.Fatal(err)
	}
	two := h.loadBalancer("two", 80)
	h.waitFor(two, "AddressGranted=True")
	p.catchUp()
	h.waitFor(two, "Programmed=True")
	had := addressOf(two)
	if err := h.control.Restore(t.Context(), older, 0); err != nil {
		t.Fatal(err)
	}
	h.eventually("the manager to notice", func(ctx) error { return h.log.has(lead.ErrHubChanged.Error()) })

	three := h.loadBalancer("three", 80)
	h.waitFor(three, "AddressGranted=False/Pending")
	// The proxy says what it is about before it renews.
	p.changed, p.serves = v1alpha1.ReasonHubRestored, []v1alpha1.ServedAddress{serves(had, "two", "TCP/80")}
	p.catchUp()
	p.renew()
	h.waitFor(three, "AddressGranted=False/HubChanged")
	address := &v1alpha1.Address{ObjectMeta: metav1.ObjectMeta{Name: had}}
	wait(h, address, "adopted", h.heldBy("two", "[TCP/80]"))
	p.changed, p.serves, p.epoch = "", nil, 1
	p.catchUp()
	h.waitFor(three, "AddressGranted=True")
	if addressOf(three) == had {
		t.Errorf("%s is granted to a second", had)
	}
	wait(h, &v1alpha1.LoadBalancerClass{ObjectMeta: metav1.ObjectMeta{Name: h.name}}, "there", func(*v1alpha1.LoadBalancerClass) error { return nil })
	if err := h.api.Get(t.Context(), client.ObjectKeyFromObject(one), one); err != nil {
		t.Error(err)
	}
}
