package agent_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/agent/service"
	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

func class(name string) func(*v1.Service) {
	return func(s *v1.Service) { s.Spec.LoadBalancerClass = &name }
}

func annotate(key, value string) func(*v1.Service) {
	return func(s *v1.Service) { s.Annotations[key] = value }
}

// The fourth write says what is waited for, and is left out where the hub is done by then.
func TestAServiceIsPublishedInFourWrites(t *testing.T) {
	w := newWorld(t)
	w.create("first")
	w.says("first", clusterv1.ReasonProgrammed) // the agent is warm
	count := w.count()
	w.create("web", class("fairlead.dev/edge"))
	s := w.published("web")
	if note := w.says("web", clusterv1.ReasonProgrammed); !strings.Contains(note, s.Status.LoadBalancer.Ingress[0].IP) {
		t.Errorf("the event says %q", note)
	}
	if !slices.Contains(s.Finalizers, service.Finalizer) || s.Annotations[v1alpha1.AnnotationLoadBalancer] != w.lbKey("web").Name {
		t.Errorf("finalizers %q, annotations %v", s.Finalizers, s.Annotations)
	}
	in := s.Status.LoadBalancer.Ingress[0]
	if *in.IPMode != v1.LoadBalancerIPModeProxy || len(in.Ports) != 1 || in.Ports[0].Port != 80 || in.Ports[0].Error != nil {
		t.Errorf("ingress %+v", in)
	}
	l, err := w.loadBalancer(t.Context(), "web")
	w.must(err)
	if l.Spec.ClassName != "edge" || len(l.Spec.Ports) != 1 || l.Spec.Ports[0].TargetPort != s.Spec.Ports[0].NodePort ||
		!slices.Contains(l.Finalizers, clusterv1.Finalizer) || l.Annotations[v1alpha1.AnnotationOriginUID] != string(s.UID) {
		t.Errorf("LoadBalancer %+v", l)
	}
	if got := count.writes(); len(got) < 3 || len(got) > 4 {
		t.Errorf("%d writes:%s", len(got), show(got))
	}
}

func TestOtherServicesAreLeftAlone(t *testing.T) {
	w := newWorld(t)
	count := w.count()
	foreign := w.create("foreign", class("example.com/theirs"), func(s *v1.Service) { s.Finalizers = []string{service.Finalizer} })
	foreign.Status.LoadBalancer.Ingress = []v1.LoadBalancerIngress{{IP: "192.0.2.1", IPMode: ptr.To(v1.LoadBalancerIPModeVIP)}}
	w.must(w.tenant.api.Status().Update(t.Context(), foreign))
	w.create("internal", func(s *v1.Service) { s.Spec.Type = v1.ServiceTypeClusterIP })
	w.create("ours")
	w.says("ours", clusterv1.ReasonProgrammed)
	for _, x := range count.writes() {
		if strings.HasPrefix(x.Name, "foreign") || strings.HasPrefix(x.Name, "internal") {
			t.Errorf("%s %s %s", x.Verb, x.Resource, x.Name)
		}
	}
	s, err := w.get(t.Context(), "foreign")
	w.must(err)
	if len(s.Finalizers) != 1 || s.Status.LoadBalancer.Ingress[0].IP != "192.0.2.1" {
		t.Errorf("it was touched: %+v", s)
	}
	w.patch("foreign", `{"metadata":{"finalizers":null}}`)
}

func TestUnclassedServicesAreIgnoredWhereWeAreNotTheDefault(t *testing.T) {
	w := newWorld(t)
	w.stop()
	w.filter.Unclassed = false
	w.create("unclassed")
	w.create("classed", class("fairlead.dev/edge"))
	w.start()
	w.published("classed")
	if _, err := w.loadBalancer(t.Context(), "unclassed"); absent(err) != nil {
		t.Errorf("a LoadBalancer was made: %v", err)
	}
}

func TestADeletedServiceGoesAfterItsLoadBalancer(t *testing.T) {
	w := newWorld(t)
	w.create("web")
	w.published("web")
	w.manager.set(func(m *manager) { m.keep = true })
	w.delete("web")
	w.lbDeleting("web")
	if s, err := w.get(t.Context(), "web"); err != nil || !slices.Contains(s.Finalizers, service.Finalizer) {
		t.Errorf("the Service doesn't wait: %v, %q", err, s.Finalizers)
	}
	w.manager.set(func(m *manager) { m.keep = false })
	w.gone("web")
	// The name is free again.
	w.create("web")
	w.published("web")
}

func TestATypeChangeReleases(t *testing.T) {
	w := newWorld(t)
	w.create("web")
	w.published("web")
	w.patch("web", `{"spec":{"type":"ClusterIP"}}`)
	w.released("web")
	w.patch("web", `{"spec":{"type":"LoadBalancer"}}`)
	w.published("web")
}

// However a Service flaps, it ends as it is: served by one LoadBalancer of its own, or released.
func TestAServiceThatFlapsEndsAsItIs(t *testing.T) {
	w := newWorld(t)
	w.create("web")
	for range 10 {
		w.patch("web", `{"spec":{"type":"ClusterIP"}}`)
		w.patch("web", `{"spec":{"type":"LoadBalancer"}}`)
		w.patch("web", `{"metadata":{"annotations":{"fairlead.dev/class":"gold"}}}`)
		w.patch("web", `{"metadata":{"annotations":{"fairlead.dev/class":null}}}`)
	}
	w.eventually("the Service to show what its LoadBalancer has", func(ctx context.Context) error {
		l, err := w.loadBalancer(ctx, "web")
		if err != nil {
			return err
		}
		s, err := w.get(ctx, "web")
		if err != nil {
			return err
		}
		switch in := s.Status.LoadBalancer.Ingress; {
		case l.DeletionTimestamp != nil || l.Annotations[v1alpha1.AnnotationClass] != "":
			return errors.New("the LoadBalancer is from before")
		case l.Spec.Ports[0].TargetPort != s.Spec.Ports[0].NodePort:
			return errors.New("the LoadBalancer has another nodePort")
		case len(in) != 1 || len(l.Status.Addresses) != 1 || in[0].IP != l.Status.Addresses[0].Value || !service.Holds(s, service.InStatus):
			return fmt.Errorf("the Service shows %+v, the LoadBalancer has %+v", in, l.Status.Addresses)
		}
		return nil
	})
	for range 10 {
		w.patch("web", `{"spec":{"type":"LoadBalancer"}}`)
		w.patch("web", `{"spec":{"type":"ClusterIP"}}`)
	}
	w.released("web")
	w.eventually("its LoadBalancer to be gone", func(ctx context.Context) error {
		_, err := w.loadBalancer(ctx, "web")
		return absent(err)
	})
}

func TestAClassChangeReleasesAndServesAnew(t *testing.T) {
	w := newWorld(t)
	w.create("web", annotate(v1alpha1.AnnotationClass, "edge"))
	old := w.published("web").Status.LoadBalancer.Ingress[0].IP
	w.patch("web", `{"metadata":{"annotations":{"fairlead.dev/class":"gold"}}}`)
	w.loadBalancerThat("web", "has the other class", func(l *clusterv1.LoadBalancer) error {
		if l.Spec.ClassName != "gold" {
			return errors.New(l.Spec.ClassName)
		}
		return nil
	})
	w.serviceThat("web", "has another address", func(s *v1.Service) error {
		if len(s.Status.LoadBalancer.Ingress) == 0 || s.Status.LoadBalancer.Ingress[0].IP == old {
			return errors.New("not yet")
		}
		return nil
	})
	// To a class of somebody else, by way of another type.
	w.patch("web", `{"spec":{"type":"ClusterIP"}}`)
	w.patch("web", `{"spec":{"type":"LoadBalancer","loadBalancerClass":"example.com/theirs"}}`)
	w.released("web")
}

func TestARefusalIsSaidOnce(t *testing.T) {
	w := newWorld(t)
	w.manager.set(func(m *manager) {
		m.refuse["web"] = refusal{clusterv1.ConditionAddressGranted, clusterv1.ReasonPoolExhausted, "pool public has no free address: delete a LoadBalancer"}
	})
	s := w.create("web")
	if note := w.says("web", clusterv1.ReasonPoolExhausted); !strings.Contains(note, "delete a LoadBalancer") {
		t.Errorf("the event says %q", note)
	}
	// A restart repeats nothing, nor does a change that leaves the refusal as it is.
	w.stop()
	w.start()
	w.patch("web", `{"spec":{"ports":[{"name":"http","port":81,"targetPort":8080}]}}`)
	w.loadBalancerThat("web", "has the other port", func(l *clusterv1.LoadBalancer) error {
		if l.Spec.Ports[0].Port != 81 {
			return errors.New("not yet")
		}
		return nil
	})
	w.manager.set(func(m *manager) { clear(m.refuse) })
	w.published("web")
	w.says("web", clusterv1.ReasonProgrammed)
	if got := w.events(t.Context(), s); len(got) != 2 {
		t.Errorf("%d events: %+v", len(got), got)
	}
}

func TestWhatTheHubsSchemaRefusesIsSaid(t *testing.T) {
	w := newWorld(t)
	count := w.count()
	w.create("web", annotate(v1alpha1.AnnotationAddresses, "192.0.2.1,192.0.2.2,192.0.2.3,192.0.2.4,192.0.2.5,192.0.2.6,192.0.2.7,192.0.2.8,192.0.2.9"))
	if note := w.says("web", clusterv1.ReasonInvalid); !strings.Contains(note, "spec.addresses") {
		t.Errorf("the event says %q", note)
	}
	tries := 0
	for _, x := range count.writes() {
		if x.Resource == "loadbalancers" {
			tries++
		}
	}
	if tries > 4 {
		t.Errorf("%d tries at a write that can't succeed", tries)
	}
	w.patch("web", `{"metadata":{"annotations":{"fairlead.dev/addresses":"192.0.2.1"}}}`)
	if s := w.published("web"); s.Status.LoadBalancer.Ingress[0].IP != "192.0.2.1" {
		t.Errorf("%+v", s.Status)
	}
}

func TestANameThatIsTakenInTheHubIsLeftAlone(t *testing.T) {
	w := newWorld(t)
	theirs := &clusterv1.LoadBalancer{}
	theirs.Namespace, theirs.Name = w.lbKey("web").Namespace, w.lbKey("web").Name
	w.must(w.hub.api.Create(t.Context(), theirs))
	w.create("web")
	w.says("web", service.ReasonNameTaken)
	w.delete("web")
	w.eventually("the Service to go", func(ctx context.Context) error {
		_, err := w.get(ctx, "web")
		return absent(err)
	})
	if l, err := w.loadBalancer(t.Context(), "web"); err != nil || l.DeletionTimestamp != nil || len(l.Annotations) > 0 {
		t.Errorf("somebody's LoadBalancer was touched: %v, %+v", err, l)
	}
}
