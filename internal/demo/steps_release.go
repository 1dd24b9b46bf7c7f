package demo

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/fleet"
	"fairlead.dev/fairlead/internal/testkit"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// refusedWithin is how soon after the call the address of a Service that is
// deleted, or no LoadBalancer any more, refuses.
const refusedWithin = time.Second

// serve makes a Service and waits until it answers through each proxy.
func (s *story) serve(ctx context.Context, t *fleet.Tenant, name string) (netip.Addr, error) {
	if err := t.Apply(ctx, newService(name)); err != nil {
		return netip.Addr{}, err
	}
	a, err := awaitAddress(ctx, t, name)
	if err != nil {
		return a, err
	}
	return a, s.firstAnswers(ctx, t, a, webPort)
}

// deleted: the address refuses within a second after the call, through each proxy,
// and the Service goes.
func deleted(ctx context.Context, s *story) (string, error) {
	t := s.Tenants[0]
	a, err := s.serve(ctx, t, "deleted")
	if err != nil {
		return "", err
	}
	if err := deleteService(ctx, t, "deleted"); err != nil {
		return "", err
	}
	last, err := s.judgeRefusal(ctx, a, webPort, time.Now(), refusedWithin)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, soon)
	defer cancel()
	err = testkit.Poll(ctx, look, "the Service to be gone", func(ctx context.Context) error {
		if _, err := service(ctx, t, "deleted"); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is still there (%w)", err)
		}
		return nil
	})
	return fmt.Sprintf("last request answered %s after the call, then refused through %s", last.Round(time.Millisecond), s.proxyNames()), err
}

// clusterIP: the same where the Service stays and is no LoadBalancer any more; its status forgets the address.
func clusterIP(ctx context.Context, s *story) (string, error) {
	t := s.Tenants[0]
	a, err := s.serve(ctx, t, "turned")
	if err != nil {
		return "", err
	}
	if err := setType(ctx, t, "turned", v1.ServiceTypeClusterIP); err != nil {
		return "", err
	}
	last, err := s.judgeRefusal(ctx, a, webPort, time.Now(), refusedWithin)
	if err != nil {
		return "", err
	}
	waiting, cancel := context.WithTimeout(ctx, soon)
	defer cancel()
	err = testkit.Poll(waiting, look, "the Service to forget its address and our finalizer", func(ctx context.Context) error {
		service, err := service(ctx, t, "turned")
		if err != nil {
			return err
		}
		if len(service.Status.LoadBalancer.Ingress) > 0 || len(service.Finalizers) > 0 {
			return fmt.Errorf("it has %v and finalizers %v", service.Status.LoadBalancer.Ingress, service.Finalizers)
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("last request answered %s after the call, then refused through %s; status and finalizer gone", last.Round(time.Millisecond), s.proxyNames()),
		deleteService(ctx, t, "turned")
}

func (s *story) scarce() (*unstructured.Unstructured, error) {
	objects, err := s.Network.Example("scarce.yaml")
	if err != nil {
		return nil, err
	}
	return objects[0], nil
}

// fillScarce gives the one address of the pool scarce to the first tenant, and has the second wait for it.
func (s *story) fillScarce(ctx context.Context) (netip.Addr, complaint, error) {
	service, err := s.scarce()
	if err != nil {
		return netip.Addr{}, complaint{}, err
	}
	holder, waits := s.Tenants[0], s.Tenants[1]
	if err := holder.Apply(ctx, service.DeepCopy()); err != nil {
		return netip.Addr{}, complaint{}, err
	}
	a, err := awaitAddress(ctx, holder, "scarce")
	if err != nil {
		return a, complaint{}, err
	}
	if err := waits.Apply(ctx, service.DeepCopy()); err != nil {
		return a, complaint{}, err
	}
	c, err := awaitComplaint(ctx, waits, "scarce", "PoolExhausted", "extend the pool")
	return a, c, err
}

// poolEmpty: a Service that gets no address says why, and what to do.
func poolEmpty(ctx context.Context, s *story) (string, error) {
	_, c, err := s.fillScarce(ctx)
	return fmt.Sprintf("event and condition PoolExhausted: %q", c.event), err
}

// waiter: the address of a deleted Service goes to the one that waits for it
// only after every proxy has said that it is gone: a stopped proxy keeps it until it runs again.
func waiter(ctx context.Context, s *story) (string, error) {
	const observed = 5 * time.Second
	a, _, err := s.fillScarce(ctx)
	if err != nil {
		return "", err
	}
	holder, waits := s.Tenants[0], s.Tenants[1]
	running, stopped := s.Proxies[0], s.Proxies[1]
	if err := stopped.Process.Pause(); err != nil {
		return "", err
	}
	defer func() { _ = stopped.Process.Resume() }() // again, where a claim fails before
	if err := deleteService(ctx, holder, "scarce"); err != nil {
		return "", err
	}
	if err := s.awaitGone(ctx, holder, a, running); err != nil {
		return "", err
	}
	for until := time.Now().Add(observed); time.Now().Before(until); {
		service, err := service(ctx, waits, "scarce")
		if err != nil {
			return "", err
		}
		if got, err := addressOf(service); err == nil {
			return "", fmt.Errorf("%s got %s while %s was stopped and had not said that it is gone", waits.Name(), got, stopped.Name)
		}
		if err := s.IsReleasing(ctx, holder, a); err != nil {
			return "", fmt.Errorf("while %s was stopped: %w", stopped.Name, err)
		}
		if err := pause(ctx, look); err != nil {
			return "", err
		}
	}
	if err := stopped.Process.Resume(); err != nil {
		return "", err
	}
	resumed := time.Now()
	got, err := awaitAddress(ctx, waits, "scarce")
	if err != nil {
		return "", err
	}
	took := time.Since(resumed)
	if got != a {
		return "", fmt.Errorf("%s got %s, not %s", waits.Name(), got, a)
	}
	if err := s.firstAnswers(ctx, waits, a, webPort); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s: %s said Gone, %s stopped: kept for %s, Releasing; %s after SIGCONT it is %s's, first request answered through %s",
		a, running.Name, stopped.Name, observed, took.Round(time.Millisecond), waits.Name(), s.proxyNames()), s.emptyScarce(ctx, a)
}

// emptyScarce deletes who has the one address of the pool scarce, and who waits for it, and waits until nobody has it.
func (s *story) emptyScarce(ctx context.Context, a netip.Addr) error {
	for _, t := range s.Tenants {
		if err := client.IgnoreNotFound(deleteService(ctx, t, "scarce")); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, soon)
	defer cancel()
	return testkit.Poll(ctx, look, a.String()+" to be free", func(ctx context.Context) error {
		if _, err := s.Ledger(ctx, a); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the ledger still has it (%w)", orThere(err))
		}
		for _, t := range s.Tenants {
			if _, err := service(ctx, t, "scarce"); !apierrors.IsNotFound(err) {
				return fmt.Errorf("%s still has the Service (%w)", t.Name(), orThere(err))
			}
		}
		return nil
	})
}

var errThere = errors.New("it is there")

func orThere(err error) error {
	if err == nil {
		return errThere
	}
	return err
}

// awaitGone waits until a proxy has reported a tenant's address Gone.
func (s *story) awaitGone(ctx context.Context, t *fleet.Tenant, a netip.Addr, p *fleet.Proxy) error {
	ctx, cancel := context.WithTimeout(ctx, soon)
	defer cancel()
	return testkit.Poll(ctx, look, fmt.Sprintf("%s to report %s Gone", p.Name, a), func(ctx context.Context) error {
		r := &v1alpha1.ProxyReport{}
		if err := s.Hub.API.Get(ctx, client.ObjectKey{Namespace: t.Name(), Name: p.Name}, r); err != nil {
			return err
		}
		for _, entry := range r.Addresses {
			if entry.Name == a.String() && entry.State == v1alpha1.ReportedGone {
				return nil
			}
		}
		return errors.New("its report does not have it")
	})
}
