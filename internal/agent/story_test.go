package agent_test

import (
	"context"
	"errors"
	"fmt"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/internal/agent/service"
	"fairlead.dev/fairlead/internal/testkit"
	v1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The steps of which the tests are made.

func (w *world) service(name string, change ...func(*v1.Service)) *v1.Service {
	s := &v1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name, Annotations: map[string]string{}},
		Spec: v1.ServiceSpec{
			Type:  v1.ServiceTypeLoadBalancer,
			Ports: []v1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromInt32(8080)}},
		},
	}
	for _, c := range change {
		c(s)
	}
	return s
}

func (w *world) create(name string, change ...func(*v1.Service)) *v1.Service {
	w.Helper()
	s := w.service(name, change...)
	w.must(w.tenant.api.Create(w.Context(), s))
	return s
}

func (w *world) patch(name, merge string) {
	w.Helper()
	w.must(w.tenant.api.Patch(w.Context(), w.service(name), client.RawPatch(types.MergePatchType, []byte(merge))))
}

func (w *world) delete(name string) {
	w.Helper()
	w.must(w.tenant.api.Delete(w.Context(), w.service(name)))
}

func (w *world) get(ctx context.Context, name string) (*v1.Service, error) {
	s := w.service(name)
	return s, w.tenant.api.Get(ctx, client.ObjectKeyFromObject(s), s)
}

func (w *world) lbKey(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: w.hubNamespace, Name: service.Name(types.NamespacedName{Namespace: w.namespace, Name: name})}
}

func (w *world) loadBalancer(ctx context.Context, name string) (*clusterv1.LoadBalancer, error) {
	l := &clusterv1.LoadBalancer{}
	return l, w.hub.api.Get(ctx, w.lbKey(name), l)
}

// published waits for the address in a Service's status.
func (w *world) published(name string) *v1.Service {
	w.Helper()
	return w.serviceThat(name, "is published", func(s *v1.Service) error {
		if len(s.Status.LoadBalancer.Ingress) == 0 {
			return errors.New("no address")
		}
		return nil
	})
}

func (w *world) serviceThat(name, what string, f func(*v1.Service) error) *v1.Service {
	w.Helper()
	var s *v1.Service
	w.eventually("Service "+name+" that "+what, func(ctx context.Context) (err error) {
		if s, err = w.get(ctx, name); err != nil {
			return err
		}
		if err = f(s); err != nil {
			err = fmt.Errorf("%w; status %+v, finalizers %q", err, s.Status, s.Finalizers)
		}
		return err
	})
	return s
}

func (w *world) loadBalancerThat(name, what string, f func(*clusterv1.LoadBalancer) error) *clusterv1.LoadBalancer {
	w.Helper()
	var l *clusterv1.LoadBalancer
	w.eventually("LoadBalancer of "+name+" that "+what, func(ctx context.Context) (err error) {
		if l, err = w.loadBalancer(ctx, name); err != nil {
			return err
		}
		return f(l)
	})
	return l
}

// gone waits until neither the Service nor its LoadBalancer exists.
func (w *world) gone(name string) {
	w.Helper()
	w.eventually("Service "+name+" to go", func(ctx context.Context) error {
		_, err := w.get(ctx, name)
		return absent(err)
	})
	w.lbGone(name)
}

func (w *world) lbGone(name string) {
	w.Helper()
	w.eventually("LoadBalancer of "+name+" to go", func(ctx context.Context) error {
		_, err := w.loadBalancer(ctx, name)
		return absent(err)
	})
}

// lbDeleting waits until the LoadBalancer of a Service is being deleted.
func (w *world) lbDeleting(name string) {
	w.Helper()
	w.loadBalancerThat(name, "is being deleted", func(l *clusterv1.LoadBalancer) error {
		if l.DeletionTimestamp == nil {
			return errors.New("it isn't")
		}
		return nil
	})
}

func absent(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return errors.Join(err, errors.New("it is there"))
}

// released waits until a Service that stays has nothing of ours left.
func (w *world) released(name string) {
	w.Helper()
	w.serviceThat(name, "is released", func(s *v1.Service) error {
		if left(s) {
			return errors.New("something is left")
		}
		return nil
	})
	w.lbGone(name)
}

// says waits for a condition and an event of that reason, and returns the event's note.
func (w *world) says(name, reason string) string {
	w.Helper()
	s := w.serviceThat(name, "says "+reason, func(s *v1.Service) error {
		c := meta.FindStatusCondition(s.Status.Conditions, service.ConditionProgrammed)
		if c == nil || c.Reason != reason {
			return errors.New("it says something else")
		}
		return nil
	})
	note := ""
	w.eventually("an event "+reason, func(ctx context.Context) error {
		for _, e := range w.events(ctx, s) {
			if e.Reason == reason {
				note = e.Note
				return nil
			}
		}
		return errors.New("none")
	})
	return note
}

func (w *world) events(ctx context.Context, s *v1.Service) []eventsv1.Event {
	list := &eventsv1.EventList{}
	if err := w.tenant.api.List(ctx, list, client.InNamespace(w.namespace)); err != nil {
		return nil
	}
	var out []eventsv1.Event
	for _, e := range list.Items {
		if e.Regarding.UID == s.UID {
			out = append(out, e)
		}
	}
	return out
}

// tally counts the agent's writes on both sides.
type tally struct {
	w           *world
	hub, tenant int64
}

func (w *world) count() *tally {
	w.Helper()
	t := &tally{w: w}
	t.writes()
	return t
}

// writes returns those since the last call, but for its Leases.
func (t *tally) writes() []testkit.Write {
	t.w.Helper()
	var out []testkit.Write
	for _, side := range []struct {
		p      plane
		offset *int64
		user   string
	}{
		{t.w.hub, &t.hub, "system:serviceaccount:" + t.w.hubNamespace + ":fairlead-agent"},
		{t.w.tenant, &t.tenant, "system:serviceaccount:fairlead-system:fairlead-agent"},
	} {
		writes, next, err := side.p.Writes(*side.offset)
		t.w.must(err)
		*side.offset = next
		for _, x := range writes {
			if x.User == side.user && x.Resource != "leases" {
				out = append(out, x)
			}
		}
	}
	return out
}

func show(writes []testkit.Write) string {
	text := ""
	for _, x := range writes {
		text += fmt.Sprintf("\n%s %s %s %d", x.Verb, x.Resource, x.Name, x.StatusCode)
	}
	return text
}
