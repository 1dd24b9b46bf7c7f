package provider

import (
	"testing"

	"fairlead.dev/fairlead/examples/foo-provider/api"
	"fairlead.dev/fairlead/provider/contract"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// An object that was read before it was made doesn't have what was made since be called unready, because the provider fails now.
func TestStatusIsNotWrittenFromAnOldObject(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := api.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	old := &api.FooLoadBalancer{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "lb"}}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(old).WithStatusSubresource(old).Build()
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(old), old); err != nil {
		t.Fatal(err)
	}
	now := old.DeepCopy()
	for _, kind := range []string{contract.ConditionExists, contract.ConditionReady} {
		meta.SetStatusCondition(&now.Status.Conditions, metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: contract.ReasonAsExpected})
	}
	if err := c.Status().Update(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	p := &pass{reconciler: &reconciler{client: c}, o: old}
	p.problem = &problem{contract.ReasonProviderError, "503"}
	if _, err := p.writeStatus(t.Context()); !apierrors.IsConflict(err) {
		t.Errorf("it writes, %v", err)
	}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(now), now); err != nil {
		t.Fatal(err)
	}
	if !meta.IsStatusConditionTrue(now.Status.Conditions, contract.ConditionReady) {
		t.Errorf("what is there is %v", now.Status.Conditions)
	}
}
