package providertest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/provider"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// play is one story, in a namespace of its own.
type play struct {
	*stage
	t         *testing.T
	namespace string
}

func (g *stage) play(t *testing.T) *play {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "story-"}}
	if err := g.api.Create(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	return &play{stage: g, t: t, namespace: ns.Name}
}

func (p *play) create(objects ...client.Object) {
	p.t.Helper()
	for _, o := range objects {
		if err := p.api.Create(p.t.Context(), o); err != nil {
			p.t.Fatalf("creating %T %s: %v", o, o.GetName(), err)
		}
	}
}

// change writes what f changes of an object, whoever else writes it meanwhile.
func change[T client.Object](p *play, o T, f func(T)) {
	p.t.Helper()
	eventually(p.t, p.Patience, "a write of "+o.GetName(), func(ctx context.Context) error {
		if err := p.api.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
			return err
		}
		f(o)
		return p.api.Update(ctx, o)
	})
}

// object returns a new one of the provider's kind, and a LoadBalancer that refers to it, with an endpoint if there is one.
func (p *play) object(name string, e *clusterv1.Endpoint) (provider.Object, *clusterv1.LoadBalancer) {
	o := p.New()
	o.SetNamespace(p.namespace)
	o.SetName(name)
	gvk, err := p.api.GroupVersionKindFor(o)
	if err != nil {
		p.t.Fatal(err)
	}
	port := int32(6443)
	if e != nil {
		port = e.Port
	}
	return o, &clusterv1.LoadBalancer{
		ObjectMeta: objectMeta(p.namespace, name),
		Spec: clusterv1.LoadBalancerSpec{
			Endpoint:          e,
			InfrastructureRef: &clusterv1.ObjectReference{APIGroup: gvk.Group, Kind: gvk.Kind, Name: name},
			Selector:          &metav1.LabelSelector{MatchLabels: map[string]string{"story": name}},
			Ports:             []clusterv1.Port{{Port: port, TargetPort: p.TargetPort, Protocol: clusterv1.ProtocolTCP}},
			DrainTimeout:      &metav1.Duration{Duration: 2 * time.Second}, // for technologies that don't count connections
		},
	}
}

// group is a TargetGroup that the LoadBalancer of a name sends to.
func (p *play) group(name string, addresses ...string) *v1alpha1.TargetGroup {
	g := &v1alpha1.TargetGroup{ObjectMeta: objectMeta(p.namespace, name)}
	g.Labels = map[string]string{"story": name}
	for i, a := range addresses {
		g.Spec.Targets = append(g.Spec.Targets, v1alpha1.Target{Name: fmt.Sprintf("m%d", i), UID: fmt.Sprintf("uid-%d", i), Addresses: []string{a}})
	}
	return g
}

// made creates a load balancer with these members, and waits until it is there and they are active.
func (p *play) made(name string, members ...string) (provider.Object, *clusterv1.LoadBalancer, *v1alpha1.TargetGroup) {
	p.t.Helper()
	e := p.Endpoint()
	o, l := p.object(name, &e)
	g := p.group(name, members...)
	p.create(g, l, o)
	wants := []string{"Ready=True"}
	if len(members) > 0 {
		wants = append(wants, "Degraded=False")
	}
	p.waitFor(o, wants...)
	for i := range members {
		p.state(o, fmt.Sprintf("m%d", i), "active")
	}
	return o, l, g
}

// wait reads an object until it is right.
func (p *play) wait(o provider.Object, what string, right func() error) {
	p.t.Helper()
	eventually(p.t, p.Patience, fmt.Sprintf("%s: %s", o.GetName(), what), func(ctx context.Context) error {
		if err := p.api.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
			return err
		}
		return right()
	})
}

// waitFor waits for conditions of an object's present generation, as Type=Status or Type=Status/Reason.
func (p *play) waitFor(o provider.Object, wants ...string) {
	p.t.Helper()
	p.wait(o, strings.Join(wants, ", "), func() error {
		for _, want := range wants {
			if err := is(o, want); err != nil {
				return err
			}
		}
		return nil
	})
}

// state waits until a target is in a state; "": until it isn't there.
func (p *play) state(o provider.Object, target, want string) {
	p.t.Helper()
	p.wait(o, fmt.Sprintf("target %s to be %q", target, want), func() error {
		_, status := o.Contract()
		got := ""
		for _, t := range status.Targets {
			if t.Name == target {
				got = t.State
			}
		}
		active := false
		for _, a := range status.ActiveTargets {
			active = active || a == target
		}
		if got != want {
			return fmt.Errorf("it is %q of %v", got, status.Targets)
		}
		if active != (want == "active") {
			return fmt.Errorf("activeTargets are %v", status.ActiveTargets)
		}
		return nil
	})
}

// targetIs waits until a target is in a state for a reason.
func (p *play) targetIs(o provider.Object, target, state, reason string) {
	p.t.Helper()
	p.wait(o, fmt.Sprintf("target %s to be %s, %s", target, state, reason), func() error {
		_, status := o.Contract()
		for _, t := range status.Targets {
			if t.Name == target && t.State == state && t.Reason == reason {
				return nil
			}
		}
		return fmt.Errorf("there are %v", status.Targets)
	})
}

// ref of what is outside.
func ref(o provider.Object) provider.Ref {
	return provider.Ref{ID: contractOf(o).ID, Owner: string(o.GetUID()), Object: o}
}

// outside waits until the members outside are these, each address with its phase after a colon.
func (p *play) outside(o provider.Object, want ...string) {
	p.t.Helper()
	eventually(p.t, p.Patience, fmt.Sprintf("members %v outside", want), func(ctx context.Context) error {
		if err := p.api.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
			return err
		}
		s, err := p.faults.Provider.Describe(ctx, ref(o))
		if err != nil {
			return err
		}
		got := map[string]bool{}
		for _, m := range s.Members {
			got[m.Address+":"+string(m.Health)] = true
		}
		for _, w := range want {
			if !got[w] {
				return fmt.Errorf("there are %v", s.Members)
			}
		}
		if len(got) != len(want) {
			return fmt.Errorf("there are %v", s.Members)
		}
		return nil
	})
}

// absent waits until there is nothing outside, and no object.
func (p *play) absent(o provider.Object) {
	p.t.Helper()
	was := ref(o)
	eventually(p.t, p.Patience, o.GetName()+" to be gone", func(ctx context.Context) error {
		if err := isGone(ctx, p.api, o); err != nil {
			return err
		}
		_, err := p.faults.Provider.Describe(ctx, was)
		if !errors.Is(err, provider.ErrNotFound) {
			return fmt.Errorf("outside: %v, and not ErrNotFound", err)
		}
		return nil
	})
}

func (p *play) delete(o client.Object) {
	p.t.Helper()
	if err := p.api.Delete(p.t.Context(), o); err != nil {
		p.t.Fatalf("deleting %s: %v", o.GetName(), err)
	}
}

// event waits for one about an object.
func (p *play) event(o provider.Object, reason string) {
	p.t.Helper()
	eventually(p.t, p.Patience, "an event "+reason, func(ctx context.Context) error {
		all := &eventsv1.EventList{}
		if err := p.api.List(ctx, all, client.InNamespace(p.namespace)); err != nil {
			return err
		}
		for _, e := range all.Items {
			if e.Reason == reason && e.Regarding.Name == o.GetName() {
				return nil
			}
		}
		return fmt.Errorf("there are %d others", len(all.Items))
	})
}
