package controller_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/app"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// byPort: LoadBalancers share the one address of a pool, each with its own ports; who asks for one that is taken waits.
func byPort(h *hub) {
	h.manager(app.LeaderElection{})
	pool := h.newPool("203.0.113.9/32")
	pool.Spec.Granularity = v1alpha1.GranularityPort
	h.create(pool, h.newClass())
	h.tenant()
	h.create(h.newTargetGroup("10.0.0.1"))
	p := h.proxy("1")
	p.catchUp()
	web := h.loadBalancer("web", 80, 443)
	h.waitFor(web, "AddressGranted=True")
	dns := h.loadBalancer("dns", 53)
	h.waitFor(dns, "AddressGranted=True")
	if addressOf(web) != "203.0.113.9" || addressOf(dns) != "203.0.113.9" || len(web.Status.Addresses) != 1 {
		h.t.Errorf("web has %+v, dns %+v", web.Status.Addresses, dns.Status.Addresses)
	}
	p.catchUp()
	h.waitFor(web, "Programmed=True", "Degraded=False")
	clash := h.loadBalancer("clash", 443)
	h.waitFor(clash, "AddressGranted=False/PortInUse", "Ready=False/PortInUse")

	// A port that is given up is the other's once it is proven free; the holder's others are served on.
	h.change(web, func(o client.Object) {
		l := o.(*clusterv1.LoadBalancer)
		l.Spec.Ports = l.Spec.Ports[:1]
	})
	given := &v1alpha1.Address{ObjectMeta: metav1.ObjectMeta{Name: "203.0.113.9.tcp.443"}}
	wait(h, given, "Releasing", isReleasing)
	h.waitFor(clash, "AddressGranted=False/PortInUse")
	p.catchUp()
	h.waitFor(clash, "AddressGranted=True")
	wait(h, given, "granted to the one that waited", func(a *v1alpha1.Address) error {
		if a.Spec.Phase != v1alpha1.AddressGranted || len(a.Spec.Holders) != 1 || a.Spec.Holders[0].Name != "clash" {
			return fmt.Errorf("%+v", a.Spec)
		}
		return nil
	})
	p.catchUp()
	h.waitFor(web, "Programmed=True")
	h.waitFor(clash, "Programmed=True")

	// What is granted stays so when its range goes, and the pool says so.
	h.change(pool, func(o client.Object) { o.(*v1alpha1.AddressPool).Spec.Ranges = []string{"203.0.113.10/32"} })
	wait(h, pool, "in use beyond its ranges", func(p *v1alpha1.AddressPool) error {
		for _, c := range p.Status.Conditions {
			if c.Type == v1alpha1.ConditionReady && c.Status == metav1.ConditionTrue && strings.Contains(c.Message, "3 grants") {
				return nil
			}
		}
		return fmt.Errorf("%+v", p.Status)
	})
	h.waitFor(web, "AddressGranted=True", "Programmed=True")
	if addressOf(web) != "203.0.113.9" {
		h.t.Errorf("web moved to %s", addressOf(web))
	}
}

// onHosts: real proxies serve a port on their hosts' own addresses. One that joins is shown once it serves; one that leaves takes
// nothing of the others away.
func onHosts(h *hub) {
	h.manager(app.LeaderElection{})
	pool := &v1alpha1.AddressPool{ObjectMeta: metav1.ObjectMeta{Name: h.name}}
	pool.Spec.ProxyHosts = &v1alpha1.ProxyHostsSource{Pool: h.name, Ports: "20000-20009"}
	h.create(pool, h.newClass())
	h.tenant(func(t *v1alpha1.Tenant) { t.Spec.TargetCIDRs = []string{"127.0.0.1/32"} })
	h.create(h.newTargetGroup("127.0.0.1"))
	target := h.greeter()
	one, two := h.at(201), h.at(202)
	want := func(name string, port int32) *clusterv1.LoadBalancer {
		l := h.newLoadBalancer(name, port)
		l.Spec.Ports[0].TargetPort = int32(target.Port())
		h.create(l)
		return l
	}
	web := want("web", 20001)
	h.waitFor(web, "AddressGranted=True", "Programmed=False/NoProxies")
	h.runProxy("one", one)
	h.waitFor(web, "Programmed=True", "Ready=True", "Degraded=False")
	h.showsAt(web, one)
	open := h.dial(one, 20001)

	clash := want("clash", 20001)
	h.waitFor(clash, "AddressGranted=False/PortInUse")
	low := want("low", 80)
	h.waitFor(low, "AddressGranted=False/PortNotPermitted")

	leave := h.runProxy("two", two)
	h.showsAt(web, one, two)
	h.dial(two, 20001)
	h.waitFor(web, "Programmed=True", "Ready=True")

	leave()
	h.delete(&v1alpha1.Proxy{ObjectMeta: metav1.ObjectMeta{Name: h.name + "-two"}})
	h.showsAt(web, one)
	h.waitFor(web, "Programmed=True", "Ready=True")
	if err := say(open); err != nil {
		h.t.Errorf("a connection that none of this concerns: %v", err)
	}

	h.delete(web)
	h.gone(web)
	if err := open.Close(); err != nil {
		h.t.Error(err)
	}
	h.waitFor(clash, "AddressGranted=True", "Programmed=True", "Ready=True")
	h.dial(one, 20001)
}

// at is an address of this host's that only this test uses.
func (h *hub) at(n byte) netip.Addr {
	a := h.control.Subnet().Addr().As4()
	a[3] = n
	return netip.AddrFrom4(a)
}

// runProxy runs a real proxy on a host with these own addresses until the test ends, or the returned function is called.
func (h *hub) runProxy(name string, own ...netip.Addr) (stop func()) {
	h.t.Helper()
	name = h.name + "-" + name
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.ProxyNamespace, Name: name}}
	h.create(account)
	file, err := h.control.ServiceAccountKubeconfig(h.t.Context(), account.Namespace, account.Name)
	if err != nil {
		h.t.Fatal(err)
	}
	var addresses []string
	for _, a := range own {
		addresses = append(addresses, a.String())
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- app.RunProxy(ctx, app.ProxyOptions{
			Kubeconfig: file, Name: name, Pool: h.name, Addresses: addresses, Dataplane: "builtin",
			ShutdownTimeout: time.Second, Logger: slog.New(slog.NewTextHandler(&h.log, nil)),
		})
	}()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			h.t.Errorf("proxy %s: %v", name, err)
		}
	}
	h.t.Cleanup(stop)
	return stop
}

// showsAt waits until a LoadBalancer's status shows these addresses.
func (h *hub) showsAt(l *clusterv1.LoadBalancer, want ...netip.Addr) {
	h.t.Helper()
	wait(h, l, fmt.Sprintf("shown at %v", want), func(l *clusterv1.LoadBalancer) error {
		var got []string
		for _, a := range l.Status.Addresses {
			got = append(got, a.Value)
		}
		if !slices.EqualFunc(got, want, func(a string, b netip.Addr) bool { return a == b.String() }) {
			return fmt.Errorf("shown at %v", got)
		}
		return nil
	})
}

// greeter answers each line.
func (h *hub) greeter() netip.AddrPort {
	h.t.Helper()
	at, err := h.greet("127.0.0.1:0")
	if err != nil {
		h.t.Fatal(err)
	}
	return at
}

// greet answers each line at an address.
func (h *hub) greet(at string) (netip.AddrPort, error) {
	l, err := net.Listen("tcp", at)
	if err != nil {
		return netip.AddrPort{}, err
	}
	h.t.Cleanup(func() {
		if err := l.Close(); err != nil {
			h.t.Error(err)
		}
	})
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				for in := bufio.NewScanner(c); in.Scan(); {
					if _, err := fmt.Fprintln(c, "hello"); err != nil {
						return
					}
				}
			}()
		}
	}()
	return l.Addr().(*net.TCPAddr).AddrPort(), nil
}

// dial connects and is greeted. The connection ends with the test, if not before.
func (h *hub) dial(a netip.Addr, port uint16) net.Conn {
	h.t.Helper()
	var c net.Conn
	h.eventually(fmt.Sprintf("a greeting at %s:%d", a, port), func(context.Context) (err error) {
		c, err = h.tries(a, port)
		return err
	})
	h.t.Cleanup(func() {
		if err := c.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			h.t.Error(err)
		}
	})
	return c
}

// say sends a line and waits for the answer.
func say(c net.Conn) error {
	if err := c.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return err
	}
	if _, err := fmt.Fprintln(c, "hi"); err != nil {
		return err
	}
	answer, err := bufio.NewReader(c).ReadString('\n')
	if err == nil && answer != "hello\n" {
		err = fmt.Errorf("the answer is %q", answer)
	}
	return err
}
