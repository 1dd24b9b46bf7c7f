package demo

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/internal/fleet"
	"fairlead.dev/fairlead/internal/testkit"
	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// hubService: in a class of Services the hub has a Service and its endpoints for a tenant's Service, which gets the address that the hub
// gave. Nothing in this hub serves it; the endpoints are asked as whoever does would. On loopback there are none, and that is said.
func hubService(ctx context.Context, s *story) (string, error) {
	t := s.Tenants[0]
	objects, err := s.Network.Example("hub-service.yaml")
	if err != nil {
		return "", err
	}
	if err := s.Hub.Apply(ctx, objects...); err != nil {
		return "", err
	}
	o := newService("by-hub")
	o.Object["spec"].(map[string]any)["loadBalancerClass"] = "fairlead.dev/hub"
	if err := t.Apply(ctx, o); err != nil {
		return "", err
	}
	a, err := awaitAddress(ctx, t, "by-hub")
	if err != nil {
		return "", err
	}
	balancer, err := s.LoadBalancerOf(ctx, t, "by-hub")
	if err != nil {
		return "", err
	}
	made := client.ObjectKey{Namespace: t.Name(), Name: balancer.Name}
	gave := &v1.Service{}
	if err := s.Hub.API.Get(ctx, made, gave); err != nil {
		return "", fmt.Errorf("reading the hub's Service of by-hub: %w", err)
	}
	if gave.Spec.ClusterIP != a.String() || len(gave.Spec.Selector) > 0 {
		return "", fmt.Errorf("the hub's Service has %s and selector %v, and %s's shows %s", gave.Spec.ClusterIP, gave.Spec.Selector, t.Name(), a)
	}
	if _, err := s.Ledger(ctx, a); !apierrors.IsNotFound(err) {
		return "", fmt.Errorf("the ledger has %s, which is the hub's to give (%w)", a, orThere(err))
	}
	endpoints, err := s.hubEndpoints(ctx, t, made)
	if err != nil {
		return "", err
	}
	if err := deleteService(ctx, t, "by-hub"); err != nil {
		return "", err
	}
	waiting, cancel := context.WithTimeout(ctx, soon)
	defer cancel()
	err = testkit.Poll(waiting, look, "the hub's Service and its slices to be gone", func(ctx context.Context) error {
		if err := s.Hub.API.Get(ctx, made, gave); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the Service is there (%w)", orThere(err))
		}
		slices, err := s.slicesOf(ctx, made)
		if err == nil && len(slices) > 0 {
			err = fmt.Errorf("%d slices are there", len(slices))
		}
		return err
	})
	return fmt.Sprintf("%s is the ClusterIP of the hub's Service %s; %s; both go with %s's Service", a, made, endpoints, t.Name()), err
}

func (s *story) slicesOf(ctx context.Context, service client.ObjectKey) ([]discoveryv1.EndpointSlice, error) {
	list := &discoveryv1.EndpointSliceList{}
	err := s.Hub.API.List(ctx, list, client.InNamespace(service.Namespace), client.MatchingLabels{discoveryv1.LabelServiceName: service.Name})
	return list.Items, err
}

// hubEndpoints waits until the hub's Service has each node of a tenant for an endpoint, and judges their answers; on loopback, until its
// LoadBalancer says that it can have none.
func (s *story) hubEndpoints(ctx context.Context, t *fleet.Tenant, service client.ObjectKey) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, soon)
	defer cancel()
	if t.Nodes()[0].Address.IsLoopback() {
		said := ""
		err := testkit.Poll(ctx, look, "word of endpoints on loopback", func(ctx context.Context) error {
			l := &clusterv1.LoadBalancer{}
			if err := s.Hub.API.Get(ctx, service, l); err != nil {
				return err
			}
			c := meta.FindStatusCondition(l.Status.Conditions, clusterv1.ConditionDegraded)
			if c == nil || !strings.Contains(c.Message, t.Nodes()[0].Address.String()) {
				return fmt.Errorf("its condition is %v", c)
			}
			said = c.Message
			return nil
		})
		return fmt.Sprintf("nodes on loopback are no endpoints: %q", said), err
	}
	var found []netip.AddrPort
	err := testkit.Poll(ctx, look, fmt.Sprintf("the %d nodes of %s as endpoints in the hub", len(t.Nodes()), t.Name()), func(ctx context.Context) error {
		all, err := s.slicesOf(ctx, service)
		found = nil
		for _, slice := range all {
			for _, e := range slice.Endpoints {
				a, err := netip.ParseAddr(e.Addresses[0])
				if err != nil {
					return err
				}
				if a.Is4() && e.Conditions.Ready != nil && *e.Conditions.Ready && len(slice.Ports) == 1 {
					found = append(found, netip.AddrPortFrom(a, uint16(*slice.Ports[0].Port)))
				}
			}
		}
		if err == nil && len(found) != len(t.Nodes()) {
			err = fmt.Errorf("those that are ready are %v", found)
		}
		return err
	})
	if err != nil {
		return "", err
	}
	allow := t.Pods.Allow("web")
	for _, node := range t.Nodes() {
		at := slices.IndexFunc(found, func(a netip.AddrPort) bool { return a.Addr() == node.Address })
		if at < 0 {
			return "", errors.New(node.Name + " is no endpoint in the hub")
		}
		begun, w := time.Now(), s.Proxies[0].ToNode(node, found[at].Port())
		answer, err := ask(ctx, w)
		s.judged.Add(1)
		if err != nil {
			return "", fmt.Errorf("a request to the hub's endpoint %s: %w", found[at], err)
		}
		if why := allow(answer.Identity, begun); why != "" {
			return "", fmt.Errorf("a request to the hub's endpoint %s: %s", found[at], why)
		}
	}
	return fmt.Sprintf("its %d endpoints are ready and answer", len(found)), nil
}
