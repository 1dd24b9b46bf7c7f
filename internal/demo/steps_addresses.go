package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/fleet"
	"fairlead.dev/fairlead/internal/testkit"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// quota: a tenant that has as many addresses as it may waits for the next one, is told what to do, and gets it when it gives one up.
func quota(ctx context.Context, s *story) (string, error) {
	t := s.Tenants[0] // the other one gets an address in the step beside
	if _, err := s.serve(ctx, t, "within"); err != nil {
		return "", err
	}
	held, err := s.holds(ctx, t)
	if err != nil {
		return "", err
	}
	if err := s.setQuota(ctx, t, map[string]any{"addresses": held}); err != nil {
		return "", err
	}
	if err := t.Apply(ctx, newService("over")); err != nil {
		return "", err
	}
	c, err := awaitComplaint(ctx, t, "over", "QuotaExceeded", "delete a LoadBalancer, or ask the hub's operator for a larger spec.quota.addresses")
	if err != nil {
		return "", err
	}
	if err := hasNone(ctx, t, "over"); err != nil {
		return "", err
	}
	released := time.Now()
	if err := deleteService(ctx, t, "within"); err != nil {
		return "", err
	}
	a, err := awaitAddress(ctx, t, "over")
	if err != nil {
		return "", err
	}
	took := time.Since(released)
	if err := s.firstAnswers(ctx, t, a, webPort); err != nil {
		return "", err
	}
	now, err := s.holds(ctx, t)
	if err != nil {
		return "", err
	}
	if now > held {
		return "", fmt.Errorf("%s holds %d addresses, and may hold %d", t.Name(), now, held)
	}
	if err := s.setQuota(ctx, t, nil); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s has %d addresses and may have no more: %q; %s is its own %s after it deletes a Service", t.Name(), held, c.event, a, took.Round(time.Millisecond)),
		s.gone(ctx, t, "over")
}

// holds is how many addresses the ledger has for a tenant.
func (s *story) holds(ctx context.Context, t *fleet.Tenant) (n int64, err error) {
	list := &v1alpha1.AddressList{}
	if err := s.Hub.API.List(ctx, list); err != nil {
		return 0, err
	}
	for _, a := range list.Items {
		for _, h := range a.Spec.Holders {
			if h.Namespace == t.Name() {
				n++
			}
		}
	}
	return n, nil
}

func (s *story) setQuota(ctx context.Context, t *fleet.Tenant, quota map[string]any) error {
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"quota": quota}})
	if err != nil {
		return err
	}
	o := &v1alpha1.Tenant{ObjectMeta: metav1.ObjectMeta{Name: t.Name()}}
	if err := s.Hub.API.Patch(ctx, o, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return fmt.Errorf("setting the quota of Tenant %s: %w", t.Name(), err)
	}
	return nil
}

// wantedAddress: an address that is asked for is granted where it is free and may be asked for. Else the Service says why not and what to
// do, and gets another once it asks for none.
func wantedAddress(ctx context.Context, s *story) (string, error) {
	t, other := s.Tenants[1], s.Tenants[0]
	free, taken, scarce, outside := s.served(77), s.web[0], s.served(200), netip.MustParseAddr("192.0.2.9")
	inScarce, err := s.scarce()
	if err != nil {
		return "", err
	}
	inScarce.SetName("wants-scarce")
	for _, o := range []*unstructured.Unstructured{
		wanting(newService("wants-free"), free), wanting(newService("wants-taken"), taken), wanting(inScarce, scarce), wanting(newService("wants-outside"), outside),
	} {
		if err := t.Apply(ctx, o); err != nil {
			return "", err
		}
	}
	refusals := []string{}
	for _, r := range []struct{ name, reason, fix string }{
		{"wants-taken", "AddressInUse", "want another, or none"},
		{"wants-scarce", "AddressNotRequestable", "ask the hub's operator to set requestable"},
		{"wants-outside", "AddressNotInPool", "want another, or none"},
	} {
		c, err := awaitComplaint(ctx, t, r.name, r.reason, r.fix)
		if err == nil {
			err = namesNobody(c, other)
		}
		if err == nil {
			err = hasNone(ctx, t, r.name)
		}
		if err != nil {
			return "", err
		}
		refusals = append(refusals, fmt.Sprintf("%s: %q", r.reason, c.event))
	}
	got, err := awaitAddress(ctx, t, "wants-free")
	if err != nil {
		return "", err
	}
	if got != free {
		return "", fmt.Errorf("%s got %s, and wants %s, which nobody has", t.Name(), got, free)
	}
	if err := t.Apply(ctx, newService("wants-taken")); err != nil {
		return "", err
	}
	instead, err := awaitAddress(ctx, t, "wants-taken")
	if err != nil {
		return "", err
	}
	if instead == taken {
		return "", fmt.Errorf("%s got %s, which is %s's", t.Name(), taken, other.Name())
	}
	for _, a := range []netip.Addr{got, instead} {
		if err := s.firstAnswers(ctx, t, a, webPort); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("%s is granted; %s; without its wish it gets %s", free, strings.Join(refusals, "; "), instead),
		s.gone(ctx, t, "wants-free", "wants-taken", "wants-scarce", "wants-outside")
}

// wanting has a Service ask for an address.
func wanting(o *unstructured.Unstructured, a netip.Addr) *unstructured.Unstructured {
	o.SetAnnotations(map[string]string{v1alpha1.AnnotationAddresses: a.String()})
	return o
}

// namesNobody is an error if a tenant reads another's name.
func namesNobody(c complaint, other *fleet.Tenant) error {
	for _, text := range []string{c.condition, c.event} {
		if strings.Contains(text, other.Name()) {
			return fmt.Errorf("a tenant is told of another: %q", text)
		}
	}
	return nil
}

// hasNone is an error if a Service has an address.
func hasNone(ctx context.Context, t *fleet.Tenant, name string) error {
	o, err := service(ctx, t, name)
	if err != nil {
		return err
	}
	if a, err := addressOf(o); err == nil {
		return fmt.Errorf("%s's Service %s got %s", t.Name(), name, a)
	}
	return nil
}

// gone deletes Services and waits until nothing is left of them in their cluster.
func (s *story) gone(ctx context.Context, t *fleet.Tenant, names ...string) error {
	for _, name := range names {
		if err := deleteService(ctx, t, name); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, soon)
	defer cancel()
	return testkit.Poll(ctx, look, "Services "+strings.Join(names, ", ")+" to be gone", func(ctx context.Context) error {
		for _, name := range names {
			if _, err := service(ctx, t, name); !apierrors.IsNotFound(err) {
				return fmt.Errorf("%s is still there (%w)", name, orThere(err))
			}
		}
		return nil
	})
}

// oneAddress: two tenants want the same port of one address. The first has it; the second is told so without learning whose it is, has
// another port of that address meanwhile, and gets the port when the first is gone.
func oneAddress(ctx context.Context, s *story) (string, error) {
	const beside = 8081
	first, second, a := s.Tenants[0], s.Tenants[1], s.served(210)
	objects, err := s.Network.Example("shared.yaml")
	if err != nil {
		return "", err
	}
	if err := s.Hub.Apply(ctx, objects...); err != nil {
		return "", err
	}
	if err := first.Apply(ctx, sharing("entry", webPort, a)); err != nil {
		return "", err
	}
	if err := s.awaitEntry(ctx, first, "entry", a, webPort); err != nil {
		return "", err
	}
	if err := second.Apply(ctx, sharing("entry", webPort, a), sharing("beside", beside, a)); err != nil {
		return "", err
	}
	c, err := awaitComplaint(ctx, second, "entry", "PortInUse", "another port")
	if err == nil {
		err = namesNobody(c, first)
	}
	if err == nil {
		err = hasNone(ctx, second, "entry")
	}
	if err != nil {
		return "", err
	}
	if err := s.awaitEntry(ctx, second, "beside", a, beside); err != nil {
		return "", err
	}
	if err := s.answers(ctx, first, a, s.Proxies...); err != nil {
		return "", err
	}
	left := time.Now()
	if err := deleteService(ctx, first, "entry"); err != nil {
		return "", err
	}
	if err := s.awaitEntry(ctx, second, "entry", a, webPort); err != nil {
		return "", err
	}
	took := time.Since(left)
	return fmt.Sprintf("%s:%d is %s's; %s reads %q, and has :%d meanwhile; %s after the first is gone it has both",
		a, webPort, first.Name(), second.Name(), c.event, beside, took.Round(time.Millisecond)), s.gone(ctx, second, "entry", "beside")
}

// sharing is a Service that asks for a port of an address of the pool shared.
func sharing(name string, port uint16, a netip.Addr) *unstructured.Unstructured {
	o := wanting(newService(name), a)
	spec := o.Object["spec"].(map[string]any)
	spec["loadBalancerClass"] = "fairlead.dev/shared"
	spec["ports"] = []any{map[string]any{"name": "http", "port": int64(port), "targetPort": int64(8080)}}
	return o
}

// awaitEntry waits until a Service has that address, and judges that its Pods answer at that port through each proxy.
func (s *story) awaitEntry(ctx context.Context, t *fleet.Tenant, name string, a netip.Addr, port uint16) error {
	got, err := awaitAddress(ctx, t, name)
	if err != nil {
		return err
	}
	if got != a {
		return fmt.Errorf("%s's Service %s got %s, and wants %s", t.Name(), name, got, a)
	}
	return s.firstAnswers(ctx, t, a, port)
}
