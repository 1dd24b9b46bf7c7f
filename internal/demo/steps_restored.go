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
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func tenantRestoredPlot(s *story) []string {
	return []string{
		fmt.Sprintf("the cluster of %s is lost with all that it knew; another one takes its place, and its Deployments and", s.Tenants[0].Name()),
		"Services come back from a backup: same names, new UIDs, new node ports. Expected: each Service has its",
		fmt.Sprintf("address again, which nobody else had meanwhile; its requests fail only until then, those of %s never.", s.Tenants[1].Name()),
	}
}

// tenantRestored: a tenant's cluster is replaced by another one with the objects of a backup. The hub keeps what its Services had until
// they are there again.
func tenantRestored(ctx context.Context, s *story) (string, error) {
	t := s.Tenants[0]
	saved, err := t.Backup(ctx, namespace)
	if err != nil {
		return "", err
	}
	before, err := addressesOf(ctx, t)
	if err != nil {
		return "", err
	}
	balancer, err := s.LoadBalancerOf(ctx, t, "web")
	if err != nil {
		return "", err
	}
	lost, back, held := time.Time{}, time.Time{}, [tenants]int{0, held}
	reports, err := s.measure(ctx, held, func(ctx context.Context) error {
		lost = time.Now()
		if err := s.LoseTenant(ctx, t); err != nil {
			return err
		}
		s.note("another cluster with the same nodes is there; it has no object of the lost one")
		if err := s.RejoinTenant(ctx, t); err != nil {
			return err
		}
		if err := s.awaitHeld(ctx, t); err != nil {
			return err
		}
		s.note("the Tenant is bound to it, and its agent is at work; the hub keeps %d addresses for Services that nobody deleted", len(before))
		if err := t.Apply(ctx, saved...); err != nil {
			return err
		}
		if err := awaitAddresses(ctx, s.Fleet, t, before); err != nil {
			return err
		}
		if _, err := awaitPods(ctx, t, 3); err != nil {
			return err
		}
		if err := s.awaitWhole(ctx, t, before["web"]); err != nil {
			return err
		}
		back = time.Now()
		s.note("the backup is applied: each Service has its address, and web answers through %s", s.proxyNames())
		return nil
	})
	if err != nil {
		return "", err
	}
	if err := errors.Join(s.onlyBetween(&reports[0], lost, back), s.nothingFailed(reports[1])); err != nil {
		return "", err
	}
	now, err := s.LoadBalancerOf(ctx, t, "web")
	if err != nil {
		return "", err
	}
	if now.UID != balancer.UID {
		return "", fmt.Errorf("the hub made another LoadBalancer %s, and keeps what a backup brings back", now.Name)
	}
	return fmt.Sprintf("seen: %d Services, the same addresses; answered again %s after the loss; %s", len(before), back.Sub(lost).Round(time.Millisecond), counts(reports)), nil
}

// addressesOf are those of a tenant's Services, by name.
func addressesOf(ctx context.Context, t *fleet.Tenant) (map[string]netip.Addr, error) {
	list, found := &v1.ServiceList{}, map[string]netip.Addr{}
	if err := t.API.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return nil, err
	}
	for i := range list.Items {
		if a, err := addressOf(&list.Items[i]); err == nil && list.Items[i].DeletionTimestamp == nil {
			found[list.Items[i].Name] = a
		}
	}
	return found, nil
}

// awaitAddresses waits until a tenant's Services have these addresses, and no other.
func awaitAddresses(ctx context.Context, f *fleet.Fleet, t *fleet.Tenant, want map[string]netip.Addr) error {
	for name, a := range want {
		got, err := awaitAddress(ctx, t, name)
		if err != nil {
			return err
		}
		if got != a {
			return fmt.Errorf("%s's Service %s had %s before its cluster was lost, and has %s", t.Name(), name, a, got)
		}
		if err := f.IsGranted(ctx, t, a); err != nil {
			return err
		}
	}
	return nil
}

// awaitHeld waits until the hub says that it keeps what the Service web had, though its cluster has no such Service.
func (s *story) awaitHeld(ctx context.Context, t *fleet.Tenant) error {
	ctx, cancel := context.WithTimeout(ctx, soon)
	defer cancel()
	return testkit.Poll(ctx, look, "the LoadBalancer of web to be held", func(ctx context.Context) error {
		l, err := s.LoadBalancerOf(ctx, t, "web")
		if err == nil && l.Annotations[v1alpha1.AnnotationHeldUntil] == "" {
			err = errors.New("it is not")
		}
		return err
	})
}

// awaitWhole waits until each node answers for a Service, and each proxy does again and again.
func (s *story) awaitWhole(ctx context.Context, t *fleet.Tenant, a netip.Addr) error {
	const inARow = 20
	if err := s.awaitNodePorts(ctx, t, a); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, soon)
	defer cancel()
	return testkit.Poll(ctx, look, a.String()+" to answer whoever asks", func(ctx context.Context) error {
		for range inARow {
			for _, p := range s.Proxies {
				if _, err := ask(ctx, p.Way(a, webPort)); err != nil {
					return fmt.Errorf("%s: %w", p.Name, err)
				}
			}
		}
		return nil
	})
}
