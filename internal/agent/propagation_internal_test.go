package agent

import (
	"slices"
	"testing"
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestPropagation(t *testing.T) {
	web := types.NamespacedName{Namespace: "default", Name: "web"}
	for _, test := range []struct {
		name string
		do   func(p *propagation)
		want []string
	}{
		{"served after it was written", func(p *propagation) { p.seen(web, eventCreated, "7"); p.wrote(web); p.served(web, "7") }, []string{eventCreated}},
		{"counts once", func(p *propagation) {
			p.seen(web, eventCreated, "7")
			p.wrote(web)
			p.served(web, "7")
			p.served(web, "7")
		}, []string{eventCreated}},
		{"two changes before it is served are one", func(p *propagation) {
			p.seen(web, eventCreated, "7")
			p.wrote(web)
			p.seen(web, eventChanged, "7")
			p.wrote(web)
			p.served(web, "7")
		}, []string{eventCreated}},
		{"each is one if served between", func(p *propagation) {
			p.seen(web, eventCreated, "7")
			p.wrote(web)
			p.served(web, "7")
			p.seen(web, eventChanged, "7")
			p.wrote(web)
			p.served(web, "7")
		}, []string{eventCreated, eventChanged}},
		{"a change that came while the Service was looked at isn't served yet", func(p *propagation) {
			p.seen(web, eventCreated, "7")
			p.wrote(web)
			p.seen(web, eventChanged, "8")
			p.served(web, "7")
		}, nil},
		{"but in the end", func(p *propagation) {
			p.seen(web, eventCreated, "7")
			p.wrote(web)
			p.seen(web, eventChanged, "8")
			p.served(web, "7")
			p.served(web, "9")
		}, []string{eventCreated}},
		{"a change that the hub needn't know is none", func(p *propagation) { p.seen(web, eventChanged, "7"); p.served(web, "7") }, nil},
		{"one that nobody saw is none", func(p *propagation) { p.wrote(web); p.served(web, "7") }, nil},
		{"nor one that is refused", func(p *propagation) { p.seen(web, eventChanged, "7"); p.wrote(web); p.forget(web); p.served(web, "7") }, nil},
		{"of another Service", func(p *propagation) {
			p.seen(web, eventChanged, "7")
			p.wrote(web)
			p.served(types.NamespacedName{Namespace: "default", Name: "api"}, "7")
		}, nil},
	} {
		var got []string
		p := newPropagation(func(event string, took time.Duration) {
			got = append(got, event)
			if took < 0 || took > time.Minute {
				t.Errorf("%s: took %s", test.name, took)
			}
		})
		test.do(p)
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: got %q, want %q", test.name, got, test.want)
		}
	}
}

func TestByUser(t *testing.T) {
	s := &v1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: v1.ServiceSpec{Ports: []v1.ServicePort{{Port: 80}}}}
	for name, test := range map[string]struct {
		change func(*v1.Service)
		want   bool
	}{
		"port":       {func(s *v1.Service) { s.Spec.Ports[0].Port = 81 }, true},
		"annotation": {func(s *v1.Service) { s.Annotations = map[string]string{"a": "b"} }, true},
		"status":     {func(s *v1.Service) { s.Status.LoadBalancer.Ingress = []v1.LoadBalancerIngress{{IP: "192.0.2.1"}} }, false},
		"our mark":   {func(s *v1.Service) { s.Annotations = map[string]string{v1alpha1.AnnotationLoadBalancer: "x"} }, false},
		"finalizer":  {func(s *v1.Service) { s.Finalizers = []string{"x"}; s.ResourceVersion = "7" }, false},
	} {
		after := s.DeepCopy()
		test.change(after)
		if got := byUser(s, after); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
