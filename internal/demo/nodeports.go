package demo

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"fairlead.dev/fairlead/internal/fleet"
	"fairlead.dev/fairlead/internal/testkit"
	"fairlead.dev/fairlead/internal/traffic"
	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// awaitNodePorts waits until each node answers for each Service that has that address. An address can be served before every node's
// kube-proxy knows of the Service; the proxy in Go then tries another node, which a kernel that rewrites packets can't.
func (s *story) awaitNodePorts(ctx context.Context, t *fleet.Tenant, a netip.Addr) error {
	if !s.inKernel {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, soon)
	defer cancel()
	services := &v1.ServiceList{}
	if err := t.API.List(ctx, services, client.InNamespace(namespace)); err != nil {
		return err
	}
	for _, o := range services.Items {
		has := func(i v1.LoadBalancerIngress) bool { return i.IP == a.String() }
		if o.DeletionTimestamp != nil || !slices.ContainsFunc(o.Status.LoadBalancer.Ingress, has) {
			continue
		}
		for _, port := range o.Spec.Ports {
			for _, node := range t.Nodes() {
				w := s.Proxies[0].ToNode(node, uint16(port.NodePort))
				err := testkit.Poll(ctx, look, fmt.Sprintf("%s to answer on %s's nodePort %s/%d", node.Name, o.Name, port.Protocol, port.NodePort), func(ctx context.Context) error {
					return answers(ctx, w, port.Protocol)
				})
				if err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func answers(ctx context.Context, w traffic.Way, protocol v1.Protocol) error {
	if protocol != v1.ProtocolUDP {
		_, err := ask(ctx, w)
		return err
	}
	f, err := w.Open(ctx)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.Ask(ctx, "are you there?")
	return err
}

// awaitEndpoints waits until each node sends to each Pod of app dns by a Service's UDP port: word of a Pod that is ready reaches the
// nodes' kube-proxies a moment later.
func (s *story) awaitEndpoints(ctx context.Context, t *fleet.Tenant, name string) error {
	o, err := service(ctx, t, name)
	if err != nil {
		return err
	}
	a, err := addressOf(o)
	if err != nil {
		return err
	}
	if err := s.awaitNodePorts(ctx, t, a); err != nil {
		return err
	}
	at := slices.IndexFunc(o.Spec.Ports, func(p v1.ServicePort) bool { return p.Protocol == v1.ProtocolUDP })
	ctx, cancel := context.WithTimeout(ctx, soon)
	defer cancel()
	for _, node := range t.Nodes() {
		w, seen := s.Proxies[0].ToNode(node, uint16(o.Spec.Ports[at].NodePort)), map[string]bool{}
		err := testkit.Poll(ctx, time.Millisecond, fmt.Sprintf("%s to know each Pod of %s", node.Name, name), func(ctx context.Context) error {
			f, err := w.Open(ctx)
			if err != nil {
				return err
			}
			defer f.Close()
			a, err := f.Ask(ctx, "who are you?")
			if err != nil {
				return err
			}
			seen[a.Pod] = true
			for _, pod := range t.Pods.Running("dns") {
				if !seen[pod] {
					return fmt.Errorf("%s was never seen", pod)
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
