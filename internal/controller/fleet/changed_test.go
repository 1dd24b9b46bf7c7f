package fleet

import (
	"strings"
	"testing"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/proof"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What a Lease repeated before the hub changed means nothing in the changed one, neither while the proxy is frozen nor later.
func TestALeaseFromBeforeTheHubChangedIsNotBelieved(t *testing.T) {
	f := newFleet(nil)
	px := proxyAt("", "5")
	px.Status.Seq = 4
	f.SetProxy(px)
	l := leaseOf("b", `{"addresses":"900"}`, 1)
	l.Annotations[v1alpha1.AnnotationSeq] = "4"
	f.SetLease(l)
	if p := one(t, f); p.Through.Addresses != 900 || p.Frozen() || !f.Trouble().None() {
		t.Fatalf("%+v", p)
	}
	changed := px.DeepCopy()
	changed.Status.Seq, changed.Status.Through, changed.Status.Epoch = 5, v1alpha1.Through{}, 2
	changed.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionHubChanged, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonHubRestored}}
	f.SetProxy(changed)
	if p := one(t, f); p.Through != (proof.Vector{}) || !p.Frozen() || p.HubChanged != v1alpha1.ReasonHubRestored || p.Epoch != 2 {
		t.Errorf("frozen: %+v", p)
	}
	if trouble := f.Trouble(); len(trouble.Frozen) != 1 || !strings.Contains(proof.FrozenText(trouble.Frozen), px.Name) {
		t.Errorf("%+v", trouble)
	}
	back := changed.DeepCopy()
	back.Status.Seq, back.Status.Through.Addresses, back.Status.Conditions[0].Status = 6, "7", metav1.ConditionFalse
	f.SetProxy(back)
	if p := one(t, f); p.Through.Addresses != 7 || p.Frozen() || !f.Trouble().None() {
		t.Errorf("back: %+v", p)
	}
}
