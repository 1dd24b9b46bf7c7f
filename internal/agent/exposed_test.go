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
	"k8s.io/apimachinery/pkg/api/meta"
)

func exposed(s *v1.Service) {
	s.Spec.Type = v1.ServiceTypeNodePort
	s.Annotations[v1alpha1.AnnotationExposeNodePort] = "true"
}

// announced waits for the annotation that says where a Service is served, and returns the first address.
func (w *world) announced(name string) string {
	w.Helper()
	s := w.serviceThat(name, "says where it is served", func(s *v1.Service) error {
		if s.Annotations[v1alpha1.AnnotationPublished] == "" || !meta.IsStatusConditionTrue(s.Status.Conditions, service.ConditionProgrammed) || !service.Holds(s, service.InAnnotation) {
			return fmt.Errorf("annotations %v", s.Annotations)
		}
		return nil
	})
	address, _, _ := strings.Cut(s.Annotations[v1alpha1.AnnotationPublished], ",")
	return address
}

func TestANodePortThatAsksIsServed(t *testing.T) {
	w := newWorld(t)
	w.create("first")
	w.says("first", clusterv1.ReasonProgrammed) // the agent is warm
	count := w.count()
	w.create("quiet", func(s *v1.Service) { s.Spec.Type = v1.ServiceTypeNodePort })
	w.create("web", exposed)
	address := w.announced("web")
	if note := w.says("web", clusterv1.ReasonProgrammed); !strings.Contains(note, address) {
		t.Errorf("the event says %q", note)
	}
	s, err := w.get(t.Context(), "web")
	w.must(err)
	l, err := w.loadBalancer(t.Context(), "web")
	w.must(err)
	if len(s.Status.LoadBalancer.Ingress) > 0 || service.Finalized(s) || l.Status.Addresses[0].Value != address || l.Spec.Ports[0].TargetPort != s.Spec.Ports[0].NodePort {
		t.Errorf("status %+v, finalizers %q, LoadBalancer %+v", s.Status, s.Finalizers, l.Spec)
	}
	if got := count.writes(); len(got) != 4 {
		t.Errorf("%d writes:%s", len(got), show(got))
	}
	// No longer asked for.
	w.patch("web", `{"metadata":{"annotations":{"fairlead.dev/expose-nodeport":null}}}`)
	w.released("web")
	w.patch("web", `{"metadata":{"annotations":{"fairlead.dev/expose-nodeport":"fairlead.dev/edge"}}}`)
	w.announced("web")
	w.loadBalancerThat("web", "has that class", func(l *clusterv1.LoadBalancer) error {
		if l.Spec.ClassName != "edge" {
			return errors.New(l.Spec.ClassName)
		}
		return nil
	})
	// Another class is another LoadBalancer.
	w.patch("web", `{"metadata":{"annotations":{"fairlead.dev/expose-nodeport":"fairlead.dev/gold"}}}`)
	w.loadBalancerThat("web", "has the other class", func(l *clusterv1.LoadBalancer) error {
		if l.Spec.ClassName != "gold" {
			return errors.New(l.Spec.ClassName)
		}
		return nil
	})
	w.announced("web")
	w.patch("web", `{"metadata":{"annotations":{"fairlead.dev/expose-nodeport":"yes"}}}`)
	if note := w.says("web", clusterv1.ReasonInvalid); !strings.Contains(note, "expose-nodeport") {
		t.Errorf("the event says %q", note)
	}
	w.manager.set(func(m *manager) { m.keep = true })
	w.delete("web")
	w.lbDeleting("web")
	if s, err := w.get(t.Context(), "web"); err != nil || !slices.Contains(s.Finalizers, service.OwnFinalizer) {
		t.Errorf("the Service doesn't wait: %v, %q", err, s.Finalizers)
	}
	w.manager.set(func(m *manager) { m.keep = false })
	w.gone("web")
	if s, err := w.get(t.Context(), "quiet"); err != nil || len(s.Finalizers)+len(s.Annotations)+len(s.Status.Conditions) > 0 {
		t.Errorf("a Service that didn't ask was touched: %v, %+v", err, s)
	}
}

// From one type to the other its LoadBalancer, and so its address, is the same.
func TestAnAddressSurvivesAnotherType(t *testing.T) {
	w := newWorld(t)
	w.create("web", func(s *v1.Service) { s.Annotations[v1alpha1.AnnotationExposeNodePort] = "true" })
	address := w.published("web").Status.LoadBalancer.Ingress[0].IP
	l, err := w.loadBalancer(t.Context(), "web")
	w.must(err)
	w.patch("web", `{"spec":{"type":"NodePort"}}`)
	if got := w.announced("web"); got != address {
		t.Errorf("it is served at %s, and was at %s", got, address)
	}
	w.serviceThat("web", "has one finalizer", func(s *v1.Service) error {
		if len(s.Finalizers) != 1 || len(s.Status.LoadBalancer.Ingress) > 0 {
			return errors.New("something is left")
		}
		return nil
	})
	w.patch("web", `{"spec":{"type":"LoadBalancer"}}`)
	s := w.serviceThat("web", "is published in its status alone", func(s *v1.Service) error {
		if len(s.Status.LoadBalancer.Ingress) == 0 || s.Annotations[v1alpha1.AnnotationPublished] != "" || !service.Holds(s, service.InStatus) {
			return fmt.Errorf("annotations %v", s.Annotations)
		}
		return nil
	})
	now, err := w.loadBalancer(t.Context(), "web")
	w.must(err)
	if s.Status.LoadBalancer.Ingress[0].IP != address || now.UID != l.UID {
		t.Errorf("it is served at %+v, and was at %s", s.Status.LoadBalancer.Ingress, address)
	}
	// A Service that is let go by force goes from the hub too.
	w.patch("web", `{"spec":{"type":"NodePort"}}`)
	w.announced("web")
	w.delete("web")
	w.patchGone("web", `{"metadata":{"finalizers":null}}`)
	w.gone("web")
}

// patchGone patches a Service that may be gone.
func (w *world) patchGone(name, merge string) {
	w.Helper()
	w.eventually("a patch of "+name, func(ctx context.Context) error {
		s, err := w.get(ctx, name)
		if err == nil && len(s.Finalizers) > 0 {
			w.patch(name, merge)
		}
		return absent(err)
	})
}
