package demo

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/fleet"
	"fairlead.dev/fairlead/internal/testkit"
	"fairlead.dev/fairlead/internal/traffic"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	namespace = "default"
	// webPort is the port of the examples' Services.
	webPort = 8080
	// soon bounds what should take a moment; it is never a claim, those have bounds of their own.
	soon = time.Minute
	look = 20 * time.Millisecond
)

// newService is a Service of type LoadBalancer over the example's Pods.
func newService(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Service",
		"metadata": map[string]any{"name": name, "namespace": namespace},
		"spec": map[string]any{
			"type":     "LoadBalancer",
			"selector": map[string]any{"app": "web"},
			"ports":    []any{map[string]any{"name": "http", "port": int64(webPort), "targetPort": int64(8080)}},
		},
	}}
}

// elsewhere has a Service ask for an address that no other one gets by itself, so that one which is freed meanwhile is refused.
func (s *story) elsewhere(o *unstructured.Unstructured) *unstructured.Unstructured {
	o.SetAnnotations(map[string]string{v1alpha1.AnnotationAddresses: s.served(98).String()})
	return o
}

// served is an address of the examples' pool.
func (s *story) served(last byte) netip.Addr {
	b := s.Network.Served().Addr().As4()
	b[3] = last
	return netip.AddrFrom4(b)
}

func service(ctx context.Context, t *fleet.Tenant, name string) (*v1.Service, error) {
	s := &v1.Service{}
	return s, t.API.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, s)
}

// addressOf returns the address in a Service's status, or an error if there is none.
func addressOf(s *v1.Service) (netip.Addr, error) {
	for _, i := range s.Status.LoadBalancer.Ingress {
		return netip.ParseAddr(i.IP)
	}
	return netip.Addr{}, fmt.Errorf("service %s has no address", s.Name)
}

// awaitAddress waits until the address is in the Service's status.
func awaitAddress(ctx context.Context, t *fleet.Tenant, name string) (netip.Addr, error) {
	ctx, cancel := context.WithTimeout(ctx, soon)
	defer cancel()
	address := netip.Addr{}
	err := testkit.Poll(ctx, look, fmt.Sprintf("%s's Service %s to get an address", t.Name(), name), func(ctx context.Context) error {
		s, err := service(ctx, t, name)
		if err == nil {
			address, err = addressOf(s)
		}
		return err
	})
	return address, err
}

// setType turns a Service into another type than LoadBalancer, as `kubectl patch` does.
func setType(ctx context.Context, t *fleet.Tenant, name string, to v1.ServiceType) error {
	s := &v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	return t.API.Patch(ctx, s, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"type":%q,"loadBalancerClass":null}}`, to)))
}

// giveUp has a Service give its address up. It keeps its node ports: who still sends there is answered.
func giveUp(ctx context.Context, t *fleet.Tenant, name string) error {
	return setType(ctx, t, name, v1.ServiceTypeNodePort)
}

func deleteService(ctx context.Context, t *fleet.Tenant, name string) error {
	return t.API.Delete(ctx, &v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}})
}

// complaint is what a tenant's user reads on a Service that is not served as it should be.
type complaint struct{ condition, event string }

// awaitComplaint waits until a condition of the Service and an event on it give that reason, and a
// message that names the fix.
func awaitComplaint(ctx context.Context, t *fleet.Tenant, name, reason, fix string) (complaint, error) {
	ctx, cancel := context.WithTimeout(ctx, soon)
	defer cancel()
	found := complaint{}
	err := testkit.Poll(ctx, look, fmt.Sprintf("a condition and an event with reason %s on %s's Service %s", reason, t.Name(), name), func(ctx context.Context) error {
		s, err := service(ctx, t, name)
		if err != nil {
			return err
		}
		found = complaint{}
		for _, c := range s.Status.Conditions {
			if c.Reason == reason && strings.Contains(c.Message, fix) {
				found.condition = c.Message
			}
		}
		events := &v1.EventList{}
		if err := t.API.List(ctx, events, client.InNamespace(namespace), client.MatchingFieldsSelector{Selector: fields.SelectorFromSet(fields.Set{
			"involvedObject.kind": "Service", "involvedObject.name": name,
		})}); err != nil {
			return err
		}
		for _, e := range events.Items {
			if e.Reason == reason && strings.Contains(e.Message, fix) && e.InvolvedObject.UID == s.UID {
				found.event = e.Message
			}
		}
		switch {
		case found.condition == "":
			return fmt.Errorf("its conditions are %v", s.Status.Conditions)
		case found.event == "":
			return errors.New("it has no such event")
		}
		return nil
	})
	return found, err
}

// ask makes one request.
func ask(ctx context.Context, w traffic.Way) (traffic.Answer, error) { return w.Ask(ctx, "/") }

// firstAnswers makes one request through each proxy once every node knows the Services there, without a second try, and judges who answers.
func (s *story) firstAnswers(ctx context.Context, t *fleet.Tenant, a netip.Addr, port uint16) error {
	if err := s.awaitNodePorts(ctx, t, a); err != nil {
		return err
	}
	return s.answersAt(ctx, t, a, port, s.Proxies...)
}

// answers makes one request to the examples' port through each of these proxies, and judges who answers.
func (s *story) answers(ctx context.Context, t *fleet.Tenant, a netip.Addr, proxies ...*fleet.Proxy) error {
	return s.answersAt(ctx, t, a, webPort, proxies...)
}

func (s *story) answersAt(ctx context.Context, t *fleet.Tenant, a netip.Addr, port uint16, proxies ...*fleet.Proxy) error {
	allow := t.Pods.Allow("web")
	for _, p := range proxies {
		began := time.Now()
		answer, err := ask(ctx, p.Way(a, port))
		s.judged.Add(1)
		if err != nil {
			return fmt.Errorf("a request to %s:%d through %s: %w", a, port, p.Name, err)
		}
		if why := allow(answer.Identity, began); why != "" {
			return fmt.Errorf("a request to %s:%d through %s: %s", a, port, p.Name, why)
		}
	}
	return nil
}

// awaitRefusal waits until each proxy refuses.
func (s *story) awaitRefusal(ctx context.Context, a netip.Addr, port uint16) error {
	ctx, cancel := context.WithTimeout(ctx, soon)
	defer cancel()
	return testkit.Poll(ctx, look, fmt.Sprintf("%s:%d to refuse", a, port), func(ctx context.Context) error {
		for _, p := range s.Proxies {
			if _, err := ask(ctx, p.Way(a, port)); traffic.KindOf(err) != traffic.FailureRefused {
				return fmt.Errorf("%s: %w", p.Name, orAnswered(err))
			}
		}
		return nil
	})
}

// judgeRefusal asks through each proxy again and again until the moment of the claim
// has passed by half a second, and returns when the last request was answered. A
// request begun later than within after the call must be refused.
func (s *story) judgeRefusal(ctx context.Context, a netip.Addr, port uint16, call time.Time, within time.Duration) (time.Duration, error) {
	last := time.Duration(0)
	for until := call.Add(within + 500*time.Millisecond); ; {
		for _, p := range s.Proxies {
			begun := time.Since(call)
			_, err := ask(ctx, p.Way(a, port))
			if traffic.KindOf(err) == traffic.FailureRefused {
				continue
			}
			if begun > within {
				return 0, fmt.Errorf("%s:%d through %s: a request %s after the call was not refused (%w)", a, port, p.Name, begun.Round(time.Millisecond), orAnswered(err))
			}
			last = begun
		}
		if time.Now().After(until) {
			return last, nil
		}
		if err := pause(ctx, 5*time.Millisecond); err != nil {
			return 0, err
		}
	}
}

var errAnswered = errors.New("it was answered")

func orAnswered(err error) error {
	if err == nil {
		return errAnswered
	}
	return err
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// throughout looks again and again, for that long, that something holds.
func throughout(ctx context.Context, long time.Duration, holds func(context.Context) error) error {
	for began := time.Now(); ; {
		if err := holds(ctx); err != nil {
			return fmt.Errorf("after %s: %w", time.Since(began).Round(time.Millisecond), err)
		}
		if time.Since(began) >= long {
			return nil
		}
		if err := pause(ctx, look); err != nil {
			return err
		}
	}
}
