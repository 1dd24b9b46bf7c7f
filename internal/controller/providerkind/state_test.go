package providerkind

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func object(generation int64, spec, status map[string]any) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"spec": spec, "status": status}}
	o.SetNamespace("shop")
	o.SetName("web")
	o.SetGeneration(generation)
	return o
}

func said(kind, status, reason string, generation int64) any {
	return map[string]any{"type": kind, "status": status, "reason": reason, "message": "Because.", "observedGeneration": generation}
}

func at(host string) map[string]any { return map[string]any{"host": host, "port": int64(443)} }

var foo = reference{schema.GroupKind{Group: "infrastructure.cluster.x-k8s.io", Kind: "FooLoadBalancer"}, "web"}

// What an object says comes to its LoadBalancer, whatever a provider leaves out.
func TestState(t *testing.T) {
	k := New(Options{Logger: slog.New(slog.DiscardHandler), Now: time.Now})
	for name, tt := range map[string]struct {
		spec, status           map[string]any
		address, reason, lacks string
	}{
		"nothing yet": {reason: clusterv1.ReasonWaitingForProvider},
		"there": {status: map[string]any{"endpoint": at("192.0.2.1"), "conditions": []any{said("LBExists", "True", "AsExpected", 1), said("Ready", "True", "AsExpected", 1)}},
			address: "192.0.2.1"},
		"by its spec": {spec: map[string]any{"endpoint": at("api.example.com")}, status: map[string]any{"conditions": []any{said("LBExists", "True", "AsExpected", 1), said("Ready", "True", "AsExpected", 1)}},
			address: "api.example.com"},
		"not yet there": {spec: map[string]any{"endpoint": at("api.example.com")}, status: map[string]any{"conditions": []any{said("Ready", "False", "Pending", 1)}}, reason: clusterv1.ReasonWaitingForProvider},
		"refused":       {status: map[string]any{"conditions": []any{said("Ready", "False", "NotSupported", 1)}}, reason: clusterv1.ReasonProviderNotReady},
		"degraded": {status: map[string]any{"endpoint": at("::1"), "conditions": []any{said("LBExists", "True", "", 0), said("Ready", "True", "", 0), said("Degraded", "True", "NoActiveTargets", 0)}},
			address: "::1", lacks: clusterv1.ReasonProviderDegraded},
		"no endpoint":        {status: map[string]any{"conditions": []any{said("LBExists", "True", "x", 1), said("Ready", "True", "x", 1)}}, reason: clusterv1.ReasonWaitingForProvider},
		"of another shape":   {spec: map[string]any{"endpoint": "x"}, status: map[string]any{"endpoint": []any{}, "conditions": "x"}, reason: clusterv1.ReasonWaitingForProvider},
		"of another shape 2": {status: map[string]any{"endpoint": map[string]any{"host": int64(1), "port": "x"}, "conditions": []any{"x", map[string]any{"type": "Ready"}}}, reason: clusterv1.ReasonWaitingForProvider},
	} {
		t.Run(name, func(t *testing.T) {
			s := k.state(foo, object(1, tt.spec, tt.status))
			address, lacks := "", ""
			if len(s.Addresses) > 0 {
				address = s.Addresses[0].Value
			}
			if s.Lack != nil {
				lacks = s.Lack.Reason
			}
			if address != tt.address || s.Reason != tt.reason || lacks != tt.lacks {
				t.Errorf("%q, %q, %q: %s", address, s.Reason, lacks, s.Message)
			}
			for _, c := range s.Conditions {
				if c.Reason == "" {
					t.Errorf("%s has no reason, which no status may have", c.Type)
				}
			}
		})
	}
}

// A provider that doesn't look at what was changed is named after a while, and not before.
func TestAProviderThatDoesNotLook(t *testing.T) {
	now := time.Unix(1000, 0)
	k := New(Options{Now: func() time.Time { return now }})
	served := map[string]any{"endpoint": at("192.0.2.1"), "conditions": []any{said("LBExists", "True", "AsExpected", 1), said("Ready", "True", "AsExpected", 1)}}
	if s := k.state(foo, object(2, nil, served)); s.Reason != "" || s.Lack != nil || s.Again != patience {
		t.Errorf("at once it says %+v", s)
	}
	now = now.Add(patience - time.Second)
	if s := k.state(foo, object(2, nil, served)); s.Lack != nil || s.Again != time.Second {
		t.Errorf("a second before it says %+v", s)
	}
	now = now.Add(time.Second)
	if s := k.state(foo, object(2, nil, served)); s.Reason != "" || s.Lack == nil || !strings.Contains(s.Lack.Message, "since its generation 1, and has 2") {
		t.Errorf("then it says %+v", s)
	}
	if s := k.state(foo, object(3, nil, served)); s.Lack != nil {
		t.Errorf("of another generation it says %+v", s)
	}
	k.state(foo, object(1, nil, served))
	if len(k.unseen) > 0 {
		t.Errorf("it remembers %v", k.unseen)
	}
}

// A manager that has just begun takes nothing back of what it hasn't read yet.
func TestWhatIsNotReadYetStays(t *testing.T) {
	k := New(Options{Now: time.Now})
	f := &followed{}
	f.busy.Lock() // another LoadBalancer has the kind be read
	k.kinds[foo.GroupKind] = f
	l := &clusterv1.LoadBalancer{}
	l.Spec.InfrastructureRef = &clusterv1.ObjectReference{APIGroup: foo.Group, Kind: foo.Kind, Name: foo.Name}
	l.Status.Addresses = []clusterv1.LoadBalancerAddress{addressOf("192.0.2.1")}
	s, err := k.Ensure(t.Context(), Wanted{LoadBalancer: l})
	if err != nil || s.Unread || len(s.Addresses) > 0 || s.Reason != clusterv1.ReasonWaitingForProvider {
		t.Errorf("it never had the object, and gets %+v, %v", s, err)
	}
	l.Annotations = map[string]string{v1alpha1.AnnotationImplementedBy: foo.String()}
	s, err = k.Ensure(t.Context(), Wanted{LoadBalancer: l})
	if err != nil || !s.Unread || len(s.Addresses) != 1 || s.Again == 0 {
		t.Errorf("it had the object, and gets %+v, %v", s, err)
	}
	f.busy.Unlock()
	f.trouble, f.until = notInstalled(foo.GroupKind), time.Now().Add(time.Hour)
	s, err = k.Ensure(t.Context(), Wanted{LoadBalancer: l})
	if err != nil || s.Unread || len(s.Addresses) != 1 || s.Reason != clusterv1.ReasonProviderNotInstalled {
		t.Errorf("the kind was taken away, and it gets %+v, %v", s, err)
	}
}

// What people write in the annotation leads to no other kinds than a reference may.
func TestNoted(t *testing.T) {
	for text, want := range map[string]bool{
		"FooLoadBalancer.infrastructure.cluster.x-k8s.io/web": true, "Secret/web": false, "FooLoadBalancer.infrastructure.cluster.x-k8s.io/": false,
		"": false, "/": false, ".infrastructure.cluster.x-k8s.io/web": false, "FooLoadBalancer.example.com/web": false,
	} {
		l := &clusterv1.LoadBalancer{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{v1alpha1.AnnotationImplementedBy: text}}}
		if of, has := noted(l); has != want || has && of != foo {
			t.Errorf("%q: %v %t", text, of, has)
		}
	}
}
