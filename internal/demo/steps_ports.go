package demo

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"fairlead.dev/fairlead/internal/fleet"
	"fairlead.dev/fairlead/internal/testkit"
	"fairlead.dev/fairlead/internal/traffic"
)

// Ports of examples/dns.yaml.
const (
	dnsPort     = 5353
	metricsPort = 9153
)

// serveExample applies an example to a tenant whose Pods of app dns run, and returns the addresses that its Service gets.
func (s *story) serveExample(ctx context.Context, t *fleet.Tenant, example, name string, addresses int) ([]netip.Addr, error) {
	for _, example := range []string{"dns.yaml", example} {
		objects, err := s.Network.Example(example)
		if err != nil {
			return nil, err
		}
		if err := t.Apply(ctx, objects...); err != nil {
			return nil, err
		}
	}
	if err := awaitReplicas(ctx, t, "dns", 3); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, soon)
	defer cancel()
	var got []netip.Addr
	err := testkit.Poll(ctx, look, fmt.Sprintf("%d addresses in the status of %s's Service %s", addresses, t.Name(), name), func(ctx context.Context) error {
		o, err := service(ctx, t, name)
		if err != nil {
			return err
		}
		got = nil
		for _, i := range o.Status.LoadBalancer.Ingress {
			if len(i.Ports) != len(o.Spec.Ports) {
				return fmt.Errorf("%s lists %d ports, the Service has %d", i.IP, len(i.Ports), len(o.Spec.Ports))
			}
			for _, p := range i.Ports {
				if p.Error != nil {
					return fmt.Errorf("%s/%d: %s", p.Protocol, p.Port, *p.Error)
				}
			}
			a, err := netip.ParseAddr(i.IP)
			if err != nil {
				return err
			}
			got = append(got, a)
		}
		if len(got) != addresses {
			return fmt.Errorf("there are %v", got)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return got, s.awaitEndpoints(ctx, t, name)
}

// askPort makes requests to a port through each proxy, which Pods of that app must answer.
func (s *story) askPort(ctx context.Context, t *fleet.Tenant, app string, a netip.Addr, port uint16, requests int) error {
	for _, p := range s.Proxies {
		if _, err := s.ask(ctx, t, app, p.Way(a, port), requests); err != nil {
			return err
		}
	}
	return nil
}

// twoPorts: each port of a Service is served, and those of the same number keep apart by protocol.
func twoPorts(ctx context.Context, s *story) (string, error) {
	const requests = 100
	t := s.Tenants[0]
	addresses, err := s.serveExample(ctx, t, "dns.yaml", "dns", 1)
	if err != nil {
		return "", err
	}
	for _, port := range []uint16{dnsPort, metricsPort} {
		if err := s.askPort(ctx, t, "dns", addresses[0], port, requests); err != nil {
			return "", err
		}
	}
	if _, err := s.askFlows(ctx, t, addresses[0], 1); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s: TCP/%d, TCP/%d and UDP/%d answer through %s", addresses[0], dnsPort, metricsPort, dnsPort, s.proxyNames()), nil
}

// udp: flows reach all Pods, each flow stays with its Pod, and when that ends the flow goes on with another.
func udp(ctx context.Context, s *story) (string, error) {
	const flows = 100
	t := s.Tenants[0]
	addresses, err := s.serveExample(ctx, t, "dns.yaml", "dns", 1)
	if err != nil {
		return "", err
	}
	shares, err := s.askFlows(ctx, t, addresses[0], flows)
	if err != nil {
		return "", err
	}
	moved, err := s.moveFlows(ctx, t, addresses[0])
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d flows of 3 datagrams each: %s; after scaling to 1 Pod, %s", flows, shares, moved), nil
}

// askFlows opens flows through each proxy, and has each answered three times by one Pod.
func (s *story) askFlows(ctx context.Context, t *fleet.Tenant, a netip.Addr, flows int) (string, error) {
	pods := t.Pods.Running("dns")
	lines := []string{}
	for _, p := range s.Proxies {
		count := map[string]int{}
		for range flows {
			pod, err := s.askFlow(ctx, t, p.Way(a, dnsPort))
			if err != nil {
				return "", err
			}
			count[pod]++
		}
		shares := []string{}
		for _, pod := range pods {
			if flows >= 100 && count[pod] < flows/len(pods)/3 {
				return "", fmt.Errorf("%s through %s: Pod %s got %d of %d flows", t.Name(), p.Name, pod, count[pod], flows)
			}
			shares = append(shares, fmt.Sprint(count[pod]))
		}
		lines = append(lines, p.Name+" "+strings.Join(shares, "/"))
	}
	return strings.Join(lines, ", "), nil
}

func (s *story) askFlow(ctx context.Context, t *fleet.Tenant, w traffic.Way) (pod string, err error) {
	f, err := w.Open(ctx)
	if err != nil {
		return "", err
	}
	defer f.Close()
	for i := range 3 {
		got, err := s.askDatagram(ctx, t, f, w, fmt.Sprintf("datagram %d", i))
		if err != nil {
			return "", err
		}
		if pod != "" && got != pod {
			return "", fmt.Errorf("%s through %s: a flow went from Pod %s to %s, which both run", t.Name(), w.Name, pod, got)
		}
		pod = got
	}
	return pod, nil
}

func (s *story) askDatagram(ctx context.Context, t *fleet.Tenant, f *traffic.Flow, w traffic.Way, text string) (pod string, err error) {
	begun := time.Now()
	a, err := f.Ask(ctx, text)
	s.judged.Add(1)
	if err != nil {
		return "", fmt.Errorf("%s at UDP %s through %s: %w", t.Name(), w.Address, w.Name, err)
	}
	if why := t.Pods.Allow("dns")(a.Identity, begun); why != "" {
		return "", fmt.Errorf("%s at UDP %s through %s: %s", t.Name(), w.Address, w.Name, why)
	}
	return a.Pod, nil
}

// moveFlows keeps flows open through each proxy while all Pods but one end: each datagram is answered, in the end by that Pod.
func (s *story) moveFlows(ctx context.Context, t *fleet.Tenant, a netip.Addr) (string, error) {
	const flows = 10
	type open struct {
		*traffic.Flow
		traffic.Way
	}
	var all []open
	for _, p := range s.Proxies {
		for range flows {
			w := p.Way(a, dnsPort)
			f, err := w.Open(ctx)
			if err != nil {
				return "", err
			}
			defer f.Close()
			all = append(all, open{f, w})
		}
	}
	scaled := make(chan error, 1)
	go func() { scaled <- scale(ctx, t, "dns", 1) }()
	asked := 0
	for settled := (time.Time{}); settled.IsZero() || time.Since(settled) < time.Second; {
		if settled.IsZero() {
			select {
			case err := <-scaled:
				if err != nil {
					return "", err
				}
				settled = time.Now()
			default:
			}
		}
		for _, f := range all {
			if _, err := s.askDatagram(ctx, t, f.Flow, f.Way, fmt.Sprintf("datagram %d", asked)); err != nil {
				return "", err
			}
			asked++
		}
		if err := pause(ctx, look); err != nil {
			return "", err
		}
	}
	left := t.Pods.Running("dns")
	for _, f := range all {
		pod, err := s.askDatagram(ctx, t, f.Flow, f.Way, "last")
		if err != nil {
			return "", err
		}
		if len(left) != 1 || pod != left[0] {
			return "", fmt.Errorf("%s answers a flow, of %v that run", pod, left)
		}
	}
	return fmt.Sprintf("%d flows that were open went on, 0 of %d datagrams lost", len(all), asked+len(all)), nil
}

// ipv6: a Service that requires both families gets an address of each, and both are served, TCP and UDP.
func ipv6(ctx context.Context, s *story) (string, error) {
	const requests = 100
	t := s.Tenants[1]
	addresses, err := s.serveExample(ctx, t, "dual-stack.yaml", "both", 2)
	if err != nil {
		return "", err
	}
	if !addresses[0].Is6() || !addresses[1].Is4() {
		return "", fmt.Errorf("its addresses are %v, and it names IPv6 first", addresses)
	}
	for _, a := range addresses {
		if err := s.askPort(ctx, t, "dns", a, dnsPort, requests); err != nil {
			return "", err
		}
		if _, err := s.askFlows(ctx, t, a, requests); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("%s and %s: TCP and UDP answer through %s", addresses[0], addresses[1], s.proxyNames()), deleteService(ctx, t, "both")
}

// clientAddress: in a class that keeps it, Pods see the client's own address, by TCP and UDP, in both families.
func clientAddress(ctx context.Context, s *story) (string, error) {
	t := s.Tenants[0]
	addresses, err := s.serveExample(ctx, t, "client-address.yaml", "seen", 2)
	if err != nil {
		return "", err
	}
	lines := []string{}
	for _, a := range addresses {
		for _, p := range s.Proxies {
			w := p.Way(a, dnsPort)
			seen, err := s.seenAs(ctx, t, w)
			if err != nil {
				return "", err
			}
			lines = append(lines, fmt.Sprintf("%s through %s", seen, p.Name))
		}
	}
	return "Pods see " + strings.Join(lines, ", "), deleteService(ctx, t, "seen")
}

// seenAs is the client's address, which is the one that the Pods saw.
func (s *story) seenAs(ctx context.Context, t *fleet.Tenant, w traffic.Way) (netip.Addr, error) {
	conn, err := w.Dial(ctx, "tcp", w.Address.String())
	if err != nil {
		return netip.Addr{}, err
	}
	defer conn.Close()
	own, err := netip.ParseAddrPort(conn.LocalAddr().String())
	if err != nil {
		return netip.Addr{}, err
	}
	answer, err := ask(ctx, w)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("%s through %s: %w", t.Name(), w.Name, err)
	}
	f, err := w.Open(ctx)
	if err != nil {
		return netip.Addr{}, err
	}
	defer f.Close()
	datagram, err := f.Ask(ctx, "who am I?")
	if err != nil {
		return netip.Addr{}, fmt.Errorf("%s at UDP %s through %s: %w", t.Name(), w.Address, w.Name, err)
	}
	for _, saw := range []string{answer.Client, datagram.Client} {
		if seen, err := netip.ParseAddrPort(saw); err != nil || seen.Addr().Unmap() != own.Addr() {
			return netip.Addr{}, fmt.Errorf("a Pod saw %s through %s, its client is %s", saw, w.Name, own.Addr())
		}
	}
	return own.Addr(), nil
}
