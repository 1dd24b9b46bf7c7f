package agent_test

import (
	"context"
	"errors"
	"testing"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/agent"
	"fairlead.dev/fairlead/internal/agent/service"
	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Where the Tenant is gone for good, Services go all the same.
func TestLeaveLetsServicesGoWithoutAHub(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"stays", "goes"} {
		w.create(name)
	}
	for _, name := range []string{"stays", "goes"} {
		w.says(name, clusterv1.ReasonProgrammed)
	}
	w.create("foreign", class("example.com/theirs"), func(s *v1.Service) { s.Finalizers = []string{service.Finalizer} })
	w.must(w.hub.api.Delete(t.Context(), &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: w.hubNamespace, Name: v1alpha1.AgentServiceAccount}}))
	w.delete("goes")
	w.stop()
	if s, err := w.get(t.Context(), "goes"); err != nil || !service.Finalized(s) {
		t.Fatalf("the Service doesn't wait for the hub: %v", err)
	}
	left, err := agent.Leave(t.Context(), w.tenant.api, w.filter, w.log)
	if err != nil || left != 2 {
		t.Errorf("%d Services, %v", left, err)
	}
	w.eventually("the Service to go", func(ctx context.Context) error {
		_, err := w.get(ctx, "goes")
		return absent(err)
	})
	s, err := w.get(t.Context(), "stays")
	w.must(err)
	if len(s.Finalizers) > 0 || len(s.Status.LoadBalancer.Ingress) > 0 || len(s.Status.Conditions) > 0 || service.Marked(s) {
		t.Errorf("something is left: %+v, %+v", s.ObjectMeta, s.Status)
	}
	if s, err = w.get(t.Context(), "foreign"); errors.Join(err) != nil || !service.Finalized(s) {
		t.Errorf("another controller's Service was touched: %v, %q", err, s.Finalizers)
	}
	w.patch("foreign", `{"metadata":{"finalizers":null}}`)
}

// Whatever its flags, and however often it runs: what is the cloud's stays.
func TestLeaveTakesNothingOfTheClouds(t *testing.T) {
	w := inACloud(t)
	clouds := func(s *v1.Service) { s.Finalizers = []string{service.Finalizer} }
	w.create("asks", fronted, clouds)
	w.create("quiet", clouds)
	for _, name := range []string{"asks", "quiet"} {
		w.cloudSays(name, `[{"ip":"10.9.0.1"}]`)
	}
	w.announced("asks")
	w.create("goes", clouds)
	w.cloudSays("goes", `[{"ip":"10.9.0.2"}]`)
	w.delete("goes")
	w.stop()
	own := w.filter
	for _, run := range []struct {
		f    service.Filter
		left int
	}{
		{own, 1}, {own, 0},
		{service.Filter{ClassPrefix: own.ClassPrefix, ExposeLoadBalancers: true}, 0},
	} {
		if left, err := agent.Leave(t.Context(), w.tenant.api, run.f, w.log); err != nil || left != run.left {
			t.Errorf("%+v: %d Services, %v", run.f, left, err)
		}
		for _, name := range []string{"asks", "quiet", "goes"} {
			w.isTheClouds(name)
		}
	}
	w.patch("goes", `{"metadata":{"finalizers":null}}`)
	if left, err := agent.Leave(t.Context(), w.tenant.api, service.Filter{ClassPrefix: own.ClassPrefix, Unclassed: true}, w.log); err != nil || left != 0 {
		t.Errorf("%d Services that live, %v", left, err)
	}
	for _, name := range []string{"asks", "quiet"} {
		w.isTheClouds(name)
		w.patch(name, `{"metadata":{"finalizers":null}}`)
	}
}
