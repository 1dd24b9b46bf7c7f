package agent_test

import (
	"context"
	"errors"
	"testing"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func (w *world) classOf(name, want string) {
	w.Helper()
	w.published(name)
	l, err := w.loadBalancer(w.Context(), name)
	w.must(err)
	if l.Spec.ClassName != want {
		w.Errorf("%s has class %q, want %q", name, l.Spec.ClassName, want)
	}
}

func TestTheHubsDefaultClassIsWrittenByTheAgent(t *testing.T) {
	w := newWorld(t)
	w.create("before")
	w.classOf("before", "") // none is marked
	w.stop()
	marked := map[string]string{v1alpha1.AnnotationDefaultClass: "true"}
	edge := &v1alpha1.LoadBalancerClass{ObjectMeta: metav1.ObjectMeta{Name: "edge", Annotations: marked}, Spec: v1alpha1.LoadBalancerClassSpec{Proxy: &v1alpha1.ClassProxy{Pool: "edge"}}}
	w.forTheTest(edge)
	w.start()
	w.loadBalancerThat("before", "has the default class", func(l *clusterv1.LoadBalancer) error {
		if l.Spec.ClassName != "edge" {
			return errors.New(l.Spec.ClassName)
		}
		return nil
	})
	w.create("hubs-default")
	w.classOf("hubs-default", "edge")
	// The Tenant's own default is for what comes; what has a class keeps it.
	w.tenantSays(func(t *v1alpha1.Tenant) { t.Spec.DefaultClass = "gold" })
	w.eventually("a Service with the Tenant's default", func(ctx context.Context) error {
		s := w.service("")
		s.GenerateName = "tenants-default-"
		if err := w.tenant.api.Create(ctx, s); err != nil {
			return err
		}
		w.published(s.Name)
		l, err := w.loadBalancer(ctx, s.Name)
		if err == nil && l.Spec.ClassName != "gold" {
			err = errors.New("the agent has not seen it yet: " + l.Spec.ClassName)
		}
		return err
	})
	w.patch("hubs-default", port81)
	w.loadBalancerThat("hubs-default", "has the other port", hasPort81)
	w.classOf("hubs-default", "edge")
}
