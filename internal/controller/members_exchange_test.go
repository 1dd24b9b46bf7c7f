package controller_test

import (
	"errors"
	"fmt"
	"strings"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/internal/member"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// exchanged: another LoadBalancer takes the place of a control plane's first one, over the same Machines. While both are there each holds a
// Machine for itself, and one that is deleted waits for both; when the first one goes, its hooks go, and nothing of the second one's.
func exchanged(f *fleetOf) {
	m, other := f.machine("a1", "prod"), f.machine("a2", "prod")
	f.states("a1=active", "a2=active")
	first, next := f.lb, f.lb.DeepCopy()
	next.ObjectMeta = metav1.ObjectMeta{Namespace: f.name, Name: "next"}
	next.Status = clusterv1.LoadBalancerStatus{}
	next.Spec.Selector = &metav1.LabelSelector{
		MatchLabels:      map[string]string{member.ClusterNameLabel: "prod"},
		MatchExpressions: []metav1.LabelSelectorRequirement{{Key: member.ControlPlaneLabel, Operator: metav1.LabelSelectorOpExists}},
	}
	f.create(next)
	f.lb = next
	f.states("a1=active", "a2=active")
	f.holders(m, "api", "next")
	f.holders(other, "api", "next")

	third := f.machine("a3", "prod")
	f.states("a1=active", "a2=active", "a3=active")
	f.holders(third, "api", "next")
	f.proxy.busy = map[string]int64{"a3": 1}
	f.delete(third)
	f.annotates(third, "api=removing,next=removing")
	f.holders(third, "api", "next")
	f.proxy.busy = map[string]int64{"next-members-0/a3": 1}
	f.annotates(third, "api=removed,next=removing")
	f.holders(third, "next")
	f.proxy.busy = nil
	f.holders(third)
	f.collect(third)
	f.states("a1=active", "a2=active")

	f.delete(first)
	f.until("the first LoadBalancer to go", func(ctx ctx) error {
		if err := f.api.Get(ctx, client.ObjectKeyFromObject(first), first); !apierrors.IsNotFound(err) {
			return errors.Join(err, errors.New("it is there"))
		}
		return nil
	})
	f.holders(m, "next")
	f.holders(other, "next")
	f.states("a1=active", "a2=active")

	f.proxy.busy = map[string]int64{"a1": 1}
	f.delete(m)
	f.states("a1=removing", "a2=active")
	f.holders(m, "next")
	f.proxy.busy = nil
	f.holders(m)
	f.collect(m)
	f.states("a2=active")
}

// unfollowed: of a pool that has no proxy here nobody says that one has stopped, as after a move to a hub that its proxies have yet to come
// to. A Machine that is deleted waits for them, for maxWait at most.
func unfollowed(f *fleetOf) {
	class, next := f.newClass(), f.lb.DeepCopy()
	class.Name, class.Spec.Proxy.Pool = f.name+"-elsewhere", f.name+"-elsewhere"
	next.ObjectMeta, next.Status = metav1.ObjectMeta{Namespace: f.name, Name: "next"}, clusterv1.LoadBalancerStatus{}
	next.Spec.ClassName = class.Name
	next.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{member.ClusterNameLabel: "prod"}}
	f.create(class, next)
	m := f.machine("a1", "prod")
	f.machine("a2", "prod")
	f.states("a1=active", "a2=active")
	f.holders(m, "api", "next")
	f.delete(m)
	f.annotates(m, "api=removed,next=removing")
	f.holders(m, "next")
	f.lb = next
	f.until("the LoadBalancer to say what is waited for", func(ctx ctx) error {
		if err := f.api.Get(ctx, client.ObjectKeyFromObject(f.lb), f.lb); err != nil {
			return err
		}
		for _, t := range f.lb.Status.Targets {
			if t.Name == m.GetName() && strings.Contains(t.Message, "pool "+class.Name+": it has no proxy here") {
				return nil
			}
		}
		return fmt.Errorf("%+v", f.lb.Status.Targets)
	})
	f.waits(0, clusterv1.OnMaxWaitRelease)
	f.holders(m)
	f.collect(m)
}

// annotates waits until a Machine says by its annotation what it is to each LoadBalancer.
func (f *fleetOf) annotates(m *unstructured.Unstructured, want string) {
	f.t.Helper()
	f.until(fmt.Sprintf("Machine %s to say %s", m.GetName(), want), func(ctx ctx) error {
		err := f.api.Get(ctx, client.ObjectKeyFromObject(m), m)
		if got := m.GetAnnotations()[member.StatusAnnotation]; err == nil && got != want {
			err = fmt.Errorf("it says %s", got)
		}
		return err
	})
}

// holders waits until a Machine is held for just these of the LoadBalancers api and next.
func (f *fleetOf) holders(m *unstructured.Unstructured, want ...string) {
	f.t.Helper()
	f.until(fmt.Sprintf("Machine %s to be held for %v", m.GetName(), want), func(ctx ctx) error {
		if err := f.api.Get(ctx, client.ObjectKeyFromObject(m), m); err != nil {
			return err
		}
		var got []string
		for _, name := range []string{"api", "next"} {
			if member.Hooked(m.GetAnnotations(), name) {
				got = append(got, name)
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			return fmt.Errorf("it is held for %v: %v", got, m.GetAnnotations())
		}
		return nil
	})
}
