package controller_test

import (
	"fmt"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/app"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// changing: a LoadBalancer that goes on changing costs few writes of the ledger, and in the end is served as it stands.
func changing(h *hub) {
	const changes = 60
	h.manager(app.LeaderElection{})
	h.stage("192.0.2.248/30")
	p := h.proxy("1")
	l := h.loadBalancer("web", 80)
	h.waitFor(l, "AddressGranted=True")
	p.catchUp()
	h.waitFor(l, "Programmed=True")
	address := h.address(l)
	for i := range changes {
		patch := fmt.Sprintf(`{"spec":{"ports":[{"name":"http","protocol":"TCP","port":%d,"targetPort":80}]}}`, 1000+i)
		if err := h.api.Patch(h.t.Context(), l, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
			h.t.Fatal(err)
		}
	}
	last := fmt.Sprintf("[TCP/%d]", 1000+changes-1)
	wait(h, address, "the last port", func(a *v1alpha1.Address) error {
		if got := fmt.Sprint(a.Spec.Holders[0].Ports); got != last {
			return fmt.Errorf("ports %s", got)
		}
		return nil
	})
	if address.Generation > changes/3 {
		h.t.Errorf("%d changes made the Address change %d times, should be a third of them at most: its changes take turns, with rests", changes, address.Generation-1)
	}
	p.catchUp()
	h.waitFor(l, "Programmed=True", "Ready=True")
}
