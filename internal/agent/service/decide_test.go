package service_test

import (
	"strings"
	"testing"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/agent/service"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func web(change ...func(*v1.Service)) *v1.Service {
	s := &v1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "u-1", Annotations: map[string]string{}},
		Spec: v1.ServiceSpec{
			Type:  v1.ServiceTypeLoadBalancer,
			Ports: []v1.ServicePort{{Name: "http", Protocol: v1.ProtocolTCP, Port: 80, NodePort: 31080}},
		},
	}
	for _, c := range change {
		c(s)
	}
	return s
}

func annotated(key, value string) func(*v1.Service) {
	return func(s *v1.Service) { s.Annotations[key] = value }
}

func classed(class string) func(*v1.Service) {
	return func(s *v1.Service) { s.Spec.LoadBalancerClass = &class }
}

func clusterIP(s *v1.Service) { s.Spec.Type = v1.ServiceTypeClusterIP }

func nodePort(s *v1.Service) { s.Spec.Type = v1.ServiceTypeNodePort }

func exposed(text string) func(*v1.Service) {
	return func(s *v1.Service) {
		nodePort(s)
		s.Annotations[v1alpha1.AnnotationExposeNodePort] = text
	}
}

func held(s *v1.Service) { s.Finalizers = []string{service.OwnFinalizer} }

func finalized(s *v1.Service) { s.Finalizers = []string{service.Finalizer} }

func both(s *v1.Service) { s.Finalizers = []string{service.Finalizer, service.OwnFinalizer} }

// told is a Service that has our condition.
func told(s *v1.Service) {
	s.Status.Conditions = []metav1.Condition{{Type: service.ConditionProgrammed}}
}

// waits is a Service that said last that its own cluster's load balancer has no address.
func waits(s *v1.Service) {
	s.Status.Conditions = []metav1.Condition{{Type: service.ConditionProgrammed, Reason: service.ReasonNoBackend}}
}

func deleting(s *v1.Service) { s.DeletionTimestamp = &metav1.Time{} }

func hubs(change ...func(*clusterv1.LoadBalancer)) *clusterv1.LoadBalancer {
	key := types.NamespacedName{Namespace: "default", Name: "web"}
	l := &clusterv1.LoadBalancer{ObjectMeta: metav1.ObjectMeta{
		Name: service.Name(key), Generation: 1, Finalizers: []string{clusterv1.Finalizer},
		Annotations: map[string]string{v1alpha1.AnnotationOrigin: "Service/default/web", v1alpha1.AnnotationOriginUID: "u-1"},
	}}
	for _, c := range change {
		c(l)
	}
	return l
}

func TestDecide(t *testing.T) {
	filter := service.Filter{ClassPrefix: "fairlead.dev", Unclassed: true}
	onlyClassed := service.Filter{ClassPrefix: "fairlead.dev"}
	mark := annotated(v1alpha1.AnnotationLoadBalancer, "web-x")
	foreign := hubs(func(l *clusterv1.LoadBalancer) { l.Annotations = nil })
	for _, c := range []struct {
		name string
		f    service.Filter
		s    *v1.Service
		l    *clusterv1.LoadBalancer
		want service.Action
	}{
		{"unclassed", filter, web(), nil, service.Serve},
		{"unclassed, not the default", onlyClassed, web(), nil, service.Ignore},
		{"ours by class", onlyClassed, web(classed("fairlead.dev/edge")), nil, service.Serve},
		{"somebody else's class", filter, web(classed("example.com/edge"), finalized), nil, service.Ignore},
		{"a class that only begins like ours", filter, web(classed("fairlead.dev")), nil, service.Ignore},
		{"no class after the slash", filter, web(classed("fairlead.dev/")), nil, service.Ignore},
		{"ClusterIP, never ours", filter, web(clusterIP), nil, service.Ignore},
		{"ClusterIP with somebody else's finalizer", filter, web(clusterIP, finalized), nil, service.Ignore},
		{"ClusterIP, once ours", filter, web(clusterIP, finalized, mark), nil, service.Release},
		{"ClusterIP, its LoadBalancer is there", filter, web(clusterIP), hubs(), service.Release},
		{"ClusterIP, somebody's LoadBalancer is there", filter, web(clusterIP), foreign, service.Ignore},
		{"class changed away", filter, web(classed("example.com/edge"), finalized, mark), hubs(), service.Release},
		{"NodePort", filter, web(nodePort), nil, service.Ignore},
		{"NodePort, exposed", onlyClassed, web(exposed("true")), nil, service.Serve},
		{"NodePort, exposed with a class", onlyClassed, web(exposed("fairlead.dev/edge")), nil, service.Serve},
		{"NodePort, exposed with a word", onlyClassed, web(exposed("yes")), nil, service.Serve}, // and refused
		{"NodePort, exposed by somebody else", filter, web(exposed("example.com/edge")), nil, service.Ignore},
		{"NodePort, not exposed", filter, web(exposed("false")), nil, service.Ignore},
		{"NodePort, no longer exposed", filter, web(nodePort, held, mark), nil, service.Release},
		{"NodePort, no longer exposed, mark lost", filter, web(exposed("false"), held), nil, service.Release},
		{"NodePort, no longer exposed, finalizer lost", filter, web(nodePort), hubs(), service.Release},
		{"NodePort, exposed and deleting", filter, web(exposed("true"), deleting, held, mark), hubs(), service.Release},
		{"ClusterIP that still asks", filter, web(exposed("true"), clusterIP), nil, service.Ignore},
		{"deleting", filter, web(deleting, finalized, mark), hubs(), service.Release},
		{"deleting, mark lost", filter, web(deleting, finalized), nil, service.Release},
		{"deleting, never held", filter, web(deleting), nil, service.Ignore},
		{"deleting, exposed, held by both", onlyClassed, web(fronted("true"), deleting, both, mark), nil, service.Release},
		{"deleting, exposed, its own controller's finalizer alone", onlyClassed, web(fronted("true"), deleting, finalized), nil, service.Ignore},
		{"deleting, exposed, the same, and our word is left", onlyClassed, web(fronted("true"), deleting, finalized, told), nil, service.Release},
		{"deleting, exposed as all are, its own controller's finalizer alone", service.Filter{ExposeLoadBalancers: true}, web(deleting, finalized), nil, service.Ignore},
		{"deleting, NodePort, exposed, another's finalizer", filter, web(exposed("true"), deleting, finalized), nil, service.Ignore},
		{"deleting, somebody else's", filter, web(deleting, finalized, classed("example.com/edge")), nil, service.Ignore},
	} {
		if got := service.Decide(c.f, c.s, c.l); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// Whatever finalizers a Service has from before, it ends with the one of its place, and nobody else's goes.
func TestFinalizers(t *testing.T) {
	mark, published := annotated(v1alpha1.AnnotationLoadBalancer, "web-x"), annotated(v1alpha1.AnnotationPublished, "192.0.2.7")
	for _, c := range []struct {
		name        string
		s           *v1.Service
		at          service.Place
		add, remove string
	}{
		{"new", web(), service.InStatus, service.Finalizer, ""},
		{"held", web(finalized, mark), service.InStatus, "", ""},
		{"new, exposed", web(), service.InAnnotation, service.OwnFinalizer, ""},
		{"new, exposed, another controller's too", web(finalized), service.InAnnotation, service.OwnFinalizer, ""},
		{"held, exposed", web(held, mark), service.InAnnotation, "", ""},
		{"held, exposed, another controller's too", web(both, mark), service.InAnnotation, "", ""},
		{"exposed from now on", web(finalized, mark), service.InAnnotation, service.OwnFinalizer, service.Finalizer},
		{"exposed from now on, and once before", web(exposed("true"), finalized, mark, published), service.InAnnotation, service.OwnFinalizer, service.Finalizer},
		{"exposed, its own was taken off, another controller's too", web(fronted("true"), finalized, mark, published), service.InAnnotation, service.OwnFinalizer, ""},
		{"the same, before it had an address", web(fronted("true"), finalized, mark, waits), service.InAnnotation, service.OwnFinalizer, ""},
		{"exposed no longer", web(held, mark), service.InStatus, service.Finalizer, service.OwnFinalizer},
	} {
		if add, remove := service.Finalizers(c.s, c.at); add != c.add || remove != c.remove {
			t.Errorf("%s: add %q, remove %q", c.name, add, remove)
		}
	}
}

// The shared finalizer is another controller's, where nothing says that it is ours.
func TestHeld(t *testing.T) {
	mark := annotated(v1alpha1.AnnotationLoadBalancer, "web-x")
	filter := service.Filter{ClassPrefix: "fairlead.dev", Unclassed: true}
	onlyClassed := service.Filter{ClassPrefix: "fairlead.dev"}
	for _, c := range []struct {
		name string
		f    service.Filter
		s    *v1.Service
		want string
	}{
		{"ours alone", filter, web(finalized), service.Finalizer},
		{"ours alone by its class", onlyClassed, web(classed("fairlead.dev/edge"), finalized), service.Finalizer},
		{"marked, and another type by now", onlyClassed, web(clusterIP, finalized, mark), service.Finalizer},
		{"exposed", onlyClassed, web(fronted("true"), both, mark), service.OwnFinalizer},
		{"exposed, its own was taken off", onlyClassed, web(fronted("true"), finalized, mark, annotated(v1alpha1.AnnotationPublished, "192.0.2.7")), ""},
		{"the same, before it had an address", onlyClassed, web(fronted("true"), finalized, mark, waits), ""},
		{"exposed, let go of", onlyClassed, web(fronted("true"), finalized), ""},
		{"exposed, never held", onlyClassed, web(fronted("true"), finalized, told), ""},
		{"exposed no longer, never held", onlyClassed, web(finalized, told), ""},
		{"NodePort, exposed, never held", filter, web(exposed("true"), finalized), ""},
		{"another's", filter, web(classed("example.com/edge"), finalized), ""},
	} {
		if got := c.f.Held(c.s); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestNamesAreLabelsAndTellNamespacesApart(t *testing.T) {
	seen := map[string]types.NamespacedName{}
	for _, key := range []types.NamespacedName{
		{Namespace: "a-b", Name: "c"}, {Namespace: "a", Name: "b-c"}, {Namespace: "a", Name: "c"},
		{Namespace: "a", Name: strings.Repeat("x", 63)}, {Namespace: "a", Name: strings.Repeat("x", 62)},
		{Namespace: "a", Name: strings.Repeat("x", 51) + "-" + strings.Repeat("y", 11)},
	} {
		name := service.Name(key)
		if len(name) > 63 || strings.Contains(name, "--") {
			t.Errorf("%s: %q", key, name)
		}
		if other, twice := seen[name]; twice {
			t.Errorf("%s and %s are both %q", key, other, name)
		}
		seen[name] = key
		l := hubs(func(l *clusterv1.LoadBalancer) {
			l.Name = name
			l.Annotations[v1alpha1.AnnotationOrigin] = "Service/" + key.String()
		})
		if back, ok := service.Origin(l); !ok || back != key {
			t.Errorf("%s: origin %s, %t", key, back, ok)
		}
	}
	if _, ok := service.Origin(hubs(func(l *clusterv1.LoadBalancer) { l.Name = "other" })); ok {
		t.Error("an origin is believed under another name")
	}
}

func TestOrphan(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(d time.Duration) string { return now.Add(d).Format(time.RFC3339) }
	for _, c := range []struct {
		e    service.Evidence
		keep bool
		held time.Duration
	}{
		{service.Evidence{Made: true, Listed: true, Absent: true, Deleted: true}, false, 0},
		{service.Evidence{Made: true, Listed: true, Absent: true}, true, service.HeldFor},
		{service.Evidence{Made: true, Listed: true, Absent: true, HeldUntil: at(time.Hour)}, true, time.Hour},
		{service.Evidence{Made: true, Listed: true, Absent: true, HeldUntil: at(0)}, false, 0},
		{service.Evidence{Made: true, Listed: true, Absent: true, HeldUntil: "tomorrow"}, true, service.HeldFor},
		{service.Evidence{Made: true, Listed: true, Absent: true, Deleted: true, HeldUntil: at(time.Hour)}, false, 0},
		{service.Evidence{Listed: true, Absent: true, Deleted: true}, true, 0},
		{service.Evidence{Made: true, Absent: true, Deleted: true}, true, 0},
		{service.Evidence{Made: true, Listed: true, Deleted: true, HeldUntil: at(0)}, true, 0},
	} {
		c.e.Now = now
		keep, until := service.Orphan(c.e)
		held := time.Duration(0)
		if !until.IsZero() {
			held = until.Sub(now)
		}
		if (keep != "") != c.keep || held != c.held {
			t.Errorf("%+v: %q, held for %s", c.e, keep, held)
		}
	}
}
