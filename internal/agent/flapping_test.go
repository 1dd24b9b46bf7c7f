package agent_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/agent/service"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
)

// Services whose type changes ten times a second end as the last one says, with nothing left of the others, for few writes.
func TestServicesThatFlapBetweenTypesEndInTheLast(t *testing.T) {
	const changes, interval, mostForOne = 30, 100 * time.Millisecond, 6
	w := newWorld(t)
	types := []v1.ServiceType{v1.ServiceTypeLoadBalancer, v1.ServiceTypeClusterIP, v1.ServiceTypeNodePort}
	asks := func(s *v1.Service) { s.Annotations[v1alpha1.AnnotationExposeNodePort] = "true" }
	names := []string{"loadbalancer", "clusterip", "nodeport"} // each ends as what it is called
	for _, name := range names {
		w.create(name, asks)
	}
	w.create("stays", asks)
	address := w.published("stays").Status.LoadBalancer.Ingress[0].IP
	count := w.count()
	pace := time.NewTicker(interval)
	defer pace.Stop()
	for i := range changes {
		<-pace.C
		for k, name := range names {
			w.patch(name, fmt.Sprintf(`{"spec":{"type":%q}}`, types[(i+1+k)%len(types)]))
		}
		// This one keeps its LoadBalancer, and so its address: both types have one.
		w.patch("stays", fmt.Sprintf(`{"spec":{"type":%q}}`, types[2*(i%2)]))
	}
	w.serviceThat("loadbalancer", "is served, and says so in its status alone", func(s *v1.Service) error {
		if s.Spec.Type != v1.ServiceTypeLoadBalancer || len(s.Status.LoadBalancer.Ingress) != 1 || s.Annotations[v1alpha1.AnnotationPublished] != "" || !slices.Equal(s.Finalizers, []string{service.Finalizer}) {
			return fmt.Errorf("type %s, annotations %v", s.Spec.Type, s.Annotations)
		}
		return w.sendsTo(s, s.Status.LoadBalancer.Ingress[0].IP)
	})
	w.released("clusterip")
	for _, name := range []string{"nodeport", "stays"} {
		s := w.serviceThat(name, "is served, and says so in its annotation alone", func(s *v1.Service) error {
			if len(s.Status.LoadBalancer.Ingress) > 0 || s.Annotations[v1alpha1.AnnotationPublished] == "" || !slices.Equal(s.Finalizers, []string{service.OwnFinalizer}) {
				return fmt.Errorf("type %s, annotations %v", s.Spec.Type, s.Annotations)
			}
			return w.sendsTo(s, s.Annotations[v1alpha1.AnnotationPublished])
		})
		if got := s.Annotations[v1alpha1.AnnotationPublished]; name == "stays" && got != address {
			t.Errorf("it is served at %s, and was at %s", got, address)
		}
	}
	if got := count.writes(); len(got) > 4*changes*mostForOne {
		t.Errorf("%d changes cost %d writes:%s", 4*changes, len(got), show(got))
	} else {
		t.Logf("%d changes cost %d writes", 4*changes, len(got))
	}
	w.create("later")
	w.says("later", clusterv1.ReasonProgrammed) // the agent has looked at all that happened before
	for _, x := range count.writes() {
		if slices.Contains(append(names, "stays"), x.Name) && x.Resource == "services" {
			t.Errorf("it goes on: %s %s %s", x.Verb, x.Resource, x.Name)
		}
	}
}

// sendsTo says why the LoadBalancer of a Service, which is published at one address, doesn't serve it as it stands.
func (w *world) sendsTo(s *v1.Service, address string) error {
	l, err := w.loadBalancer(w.Context(), s.Name)
	switch {
	case err != nil:
		return err
	case !meta.IsStatusConditionTrue(s.Status.Conditions, service.ConditionProgrammed):
		return fmt.Errorf("it says %+v", s.Status.Conditions)
	case l.DeletionTimestamp != nil:
		return errors.New("it is being deleted")
	case len(l.Status.Addresses) != 1 || l.Status.Addresses[0].Value != address:
		return fmt.Errorf("it has %+v, and the Service says %s", l.Status.Addresses, address)
	case l.Spec.Ports[0].TargetPort != s.Spec.Ports[0].NodePort:
		return fmt.Errorf("it sends to %d, and the Service has %d", l.Spec.Ports[0].TargetPort, s.Spec.Ports[0].NodePort)
	}
	return nil
}
