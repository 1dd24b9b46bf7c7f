package controller_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/app"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// sharing: a real proxy serves two tenants on one address, each at its own ports; who goes takes nothing of the other's along.
func sharing(h *hub) {
	h.manager(app.LeaderElection{})
	at := h.at(203)
	pool := h.newPool(at.String() + "/32")
	pool.Spec.Share = v1alpha1.ShareAny
	h.create(pool, h.newClass())
	other := &hub{t: h.t, control: h.control, api: h.api, name: h.name + "-2"}
	for _, x := range []*hub{h, other} {
		x.tenant(func(t *v1alpha1.Tenant) { t.Spec.TargetCIDRs = []string{"127.0.0.1/32"} })
		x.create(x.newTargetGroup("127.0.0.1"))
	}
	h.runProxy("one", h.at(204))
	tcp, udp := int32(h.greeter().Port()), int32(h.onBoth(h.echo))
	serve := func(x *hub, name string, ports ...clusterv1.Port) *clusterv1.LoadBalancer {
		l := x.newLoadBalancer(name)
		l.Spec.ClassName, l.Spec.Ports, l.Spec.Addresses = h.name, ports, []string{at.String()}
		x.create(l)
		return x.waitFor(l, "AddressGranted=True", "Programmed=True", "Degraded=False")
	}
	mine := serve(h, "mine", clusterv1.Port{Name: "web", Port: 20011, TargetPort: tcp, Protocol: clusterv1.ProtocolTCP})
	theirs := serve(other, "theirs", clusterv1.Port{Name: "web", Port: 20012, TargetPort: tcp, Protocol: clusterv1.ProtocolTCP},
		clusterv1.Port{Name: "dns", Port: 20011, TargetPort: udp, Protocol: clusterv1.ProtocolUDP})
	if addressOf(mine) != at.String() || addressOf(theirs) != at.String() {
		h.t.Errorf("mine has %s, theirs %s", addressOf(mine), addressOf(theirs))
	}
	h.hold(at.String(), fmt.Sprintf("%s/mine TCP/20011, %s/theirs UDP/20011 TCP/20012", h.name, other.name))
	h.dial(at, 20011)
	open := h.dial(at, 20012)
	h.echoes(at, 20011)
	h.delete(mine)
	h.gone(mine)
	h.eventually("the port that was given up to be closed", func(ctx context.Context) error {
		c, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", netip.AddrPortFrom(at, 20011).String())
		if err != nil {
			return nil
		}
		return errors.Join(errors.New("it is open"), c.Close())
	})
	if err := say(open); err != nil {
		h.t.Errorf("a connection of the other tenant: %v", err)
	}
	h.echoes(at, 20011)
	other.waitFor(theirs, "Programmed=True", "Degraded=False")
	if err := open.Close(); err != nil {
		h.t.Error(err)
	}
}

// everyWay: a real proxy serves TCP and UDP at one number on its host's addresses of both families.
func everyWay(h *hub) {
	h.manager(app.LeaderElection{})
	subnet := h.control.Subnet().Addr().As4()
	number := 20000 + (uint16(subnet[1])<<8+uint16(subnet[2]))%9000 // all tests have one ::1, and each its subnet
	pool := &v1alpha1.AddressPool{}
	pool.Name = h.name
	pool.Spec.ProxyHosts = &v1alpha1.ProxyHostsSource{Pool: h.name, Ports: "20000-29999"}
	h.create(pool, h.newClass())
	h.tenant(func(t *v1alpha1.Tenant) { t.Spec.TargetCIDRs = []string{"127.0.0.1/32", "::1/128"} })
	g := h.newTargetGroup("127.0.0.1")
	g.Spec.Targets[0].Addresses = []string{"127.0.0.1", "::1"}
	h.create(g)
	four, six := h.at(205), netip.IPv6Loopback()
	h.runProxy("both", four, six)
	tcp, udp := int32(h.onBoth(h.greet)), int32(h.onBoth(h.echo))
	l := h.newLoadBalancer("web")
	l.Spec.IPFamilyPolicy = clusterv1.RequireDualStack
	l.Spec.Ports = []clusterv1.Port{
		{Name: "web", Port: int32(number), TargetPort: tcp, Protocol: clusterv1.ProtocolTCP},
		{Name: "dns", Port: int32(number), TargetPort: udp, Protocol: clusterv1.ProtocolUDP},
	}
	h.create(l)
	h.waitFor(l, "AddressGranted=True", "Programmed=True", "Ready=True", "Degraded=False")
	h.showsAt(l, four, six)
	for _, a := range []netip.Addr{four, six} {
		h.dial(a, number)
		h.echoes(a, number)
	}
}

// onBoth starts a server at one port of the loopback addresses of both families.
func (h *hub) onBoth(start func(at string) (netip.AddrPort, error)) uint16 {
	h.t.Helper()
	var port uint16
	h.eventually("a port that is free on both", func(context.Context) error {
		at, err := start("127.0.0.1:0")
		if err != nil {
			return err
		}
		port = at.Port()
		_, err = start(netip.AddrPortFrom(netip.IPv6Loopback(), port).String())
		return err
	})
	return port
}

// echo answers each datagram with itself.
func (h *hub) echo(at string) (netip.AddrPort, error) {
	c, err := net.ListenPacket("udp", at)
	if err != nil {
		return netip.AddrPort{}, err
	}
	done := make(chan struct{})
	h.t.Cleanup(func() {
		if err := c.Close(); err != nil {
			h.t.Error(err)
		}
		<-done
	})
	go func() {
		defer close(done)
		buffer := make([]byte, 100)
		for {
			n, from, err := c.ReadFrom(buffer)
			if err == nil {
				_, err = c.WriteTo(buffer[:n], from)
			}
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err != nil {
				h.t.Logf("echoing at %s: %v", c.LocalAddr(), err)
			}
		}
	}()
	return c.LocalAddr().(*net.UDPAddr).AddrPort(), nil
}

// echoes sends a datagram and gets it back.
func (h *hub) echoes(a netip.Addr, port uint16) {
	h.t.Helper()
	h.eventually(fmt.Sprintf("an echo at %s:%d", a, port), func(ctx context.Context) error {
		c, err := (&net.Dialer{}).DialContext(ctx, "udp", netip.AddrPortFrom(a, port).String())
		if err != nil {
			return err
		}
		defer c.Close()
		if err := c.SetDeadline(time.Now().Add(time.Second)); err != nil {
			return err
		}
		if _, err := c.Write([]byte("hi")); err != nil {
			return err
		}
		buffer := make([]byte, 100)
		if n, err := c.Read(buffer); err != nil || string(buffer[:n]) != "hi" {
			return fmt.Errorf("it answers %q: %w", buffer[:n], err)
		}
		return nil
	})
}

// beyond: what a Tenant has beyond its quota of targets is sent nothing, and says so; what was served stays when the quota is lowered.
func beyond(h *hub) {
	h.manager(app.LeaderElection{})
	at := h.at(206)
	h.create(h.newPool(at.String()+"/32"), h.newClass())
	tenant := h.tenant(func(t *v1alpha1.Tenant) { t.Spec.TargetCIDRs = []string{"127.0.0.1/32"} })
	quota := func(n int32) {
		h.t.Helper()
		h.change(tenant, func(o client.Object) { o.(*v1alpha1.Tenant).Spec.Quota = &v1alpha1.TenantQuota{Targets: &n} })
	}
	h.runProxy("one", h.at(207))
	target := int32(h.greeter().Port())
	serve := func(name string, port int32) (*v1alpha1.TargetGroup, *clusterv1.LoadBalancer) {
		g := h.newTargetGroup()
		g.Name, g.Labels = name, map[string]string{"of": name}
		h.create(g) // before the namespace has a ResourceQuota: this hub has no controllers of Kubernetes that would count for it
		l := h.newLoadBalancer(name, port)
		l.Spec.Selector.MatchLabels, l.Spec.Ports[0].TargetPort, l.Spec.Addresses = g.Labels, target, []string{at.String()}
		h.create(l)
		return g, l
	}
	has := func(g *v1alpha1.TargetGroup) {
		h.t.Helper()
		h.change(g, func(o client.Object) {
			o.(*v1alpha1.TargetGroup).Spec.Targets = []v1alpha1.Target{{Name: g.Name, UID: g.Name, Addresses: []string{"127.0.0.1"}}}
		})
	}
	within := func(g *v1alpha1.TargetGroup, accepted string, members string) {
		h.t.Helper()
		wait(h, g, accepted, func(g *v1alpha1.TargetGroup) error {
			if g.Status.Members != members || len(g.Status.WithinQuota)+int(g.Status.BeyondQuota) != 1 {
				return fmt.Errorf("%+v", g.Status)
			}
			return condition(g.Status.Conditions, accepted)
		})
	}
	first, web := serve("first", 20011)
	second, extra := serve("second", 20012)
	quota(1)
	has(first)
	within(first, "Accepted=True", "1/1")
	h.waitFor(web, "Programmed=True", "Degraded=False")
	open := h.dial(at, 20011)
	has(second)
	within(second, "Accepted=False/QuotaExceeded", "0/1")
	h.waitFor(extra, "Programmed=True", "Degraded=True/QuotaExceeded")
	if c, err := h.tries(at, 20012); err == nil {
		h.t.Error(errors.Join(errors.New("what is beyond the quota is sent to"), c.Close()))
	}
	over := func(t *v1alpha1.Tenant) error { return condition(t.Status.Conditions, "Degraded=True/QuotaExceeded") }
	wait(h, tenant, "to have too many", over)

	quota(0)
	wait(h, tenant, "judged by the lower quota", func(t *v1alpha1.Tenant) error {
		if c := meta.FindStatusCondition(t.Status.Conditions, "Degraded"); c == nil || c.ObservedGeneration != t.Generation {
			return fmt.Errorf("%+v", c)
		}
		return over(t)
	})
	within(first, "Accepted=True", "1/1")
	if err := say(open); err != nil {
		h.t.Errorf("a connection to what was served: %v", err)
	}
	h.dial(at, 20011)
	quota(2)
	within(second, "Accepted=True", "1/1")
	h.waitFor(extra, "Programmed=True", "Degraded=False")
	h.dial(at, 20012)
	if err := errors.Join(say(open), open.Close()); err != nil {
		h.t.Errorf("a connection to what was served: %v", err)
	}
}

// tries connects and asks to be greeted, once.
func (h *hub) tries(a netip.Addr, port uint16) (net.Conn, error) {
	c, err := (&net.Dialer{Timeout: time.Second}).DialContext(h.t.Context(), "tcp", netip.AddrPortFrom(a, port).String())
	if err != nil {
		return nil, err
	}
	if err := say(c); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}
