package survival

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/fleet"
	"fairlead.dev/fairlead/internal/testkit"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// blindProxy: the checks of one proxy reach no node, while its clients' packets do. It sends on to all of them, takes none of
// them from the other proxy, and un-programmes nothing; a Service that comes is published.
func blindProxy(t *testing.T, w *world) {
	in := hostOf(w.Proxies[0].Process)
	t.Cleanup(func() { _ = in.nft("delete table inet survival") }) // again, where a claim fails before
	w.window(t, w.all(), [2]int{held, held}, func() {
		must(t, in.nft("table inet survival { chain out { type filter hook output priority -10; ip daddr 10.20.0.0/16 drop; ip6 daddr fd00:20::/32 drop; }; }"))
		for _, tenant := range w.Tenants {
			for _, node := range tenant.Nodes() {
				w.awaitUnhealthy(t, tenant, node.Name, 1)
			}
		}
		throughout(t, 5*time.Second, "all stays Programmed", w.programmed)
		makeService(t, w.Tenants[0], "meanwhile", "")
		awaitAnswers(t, w.Tenants[0], awaitAddress(t, w.Tenants[0], "meanwhile"), w.all()...)
		must(t, in.nft("delete table inet survival"))
		for _, tenant := range w.Tenants {
			for _, node := range tenant.Nodes() {
				w.awaitState(t, tenant, node.Name, "", "")
			}
		}
	})
	deleteService(t, w.Tenants[0], "meanwhile")
}

// hangingNode: packets to a node vanish, while its Node says Ready. What goes there is lost until two checks have failed, and
// nothing after; connections that are open elsewhere stay.
func hangingNode(t *testing.T, w *world) {
	tenant := w.Tenants[0]
	node := tenant.Nodes()[1]
	in := nodesOf(t, tenant)
	t.Cleanup(func() { _ = in.nft("delete table inet survival") })
	var hung time.Time
	reports := w.measure(t, w.all(), [2]int{held, held}, func() {
		hung = time.Now()
		must(t, in.nft(fmt.Sprintf("table inet survival { chain in { type filter hook input priority -10; ip daddr %s drop; }; }", node.Address)))
		pause(t, noticed)
		w.awaitUnhealthy(t, tenant, node.Name, len(w.Proxies))
	})
	w.onlyBetween(t, &reports[0], hung, hung.Add(noticed))
	for _, lost := range reports[0].Lost {
		if !strings.Contains(lost, "timeout") {
			t.Errorf("lost otherwise than by silence: %s", lost)
		}
	}
	w.nothingFailed(t, &reports[1])
	w.window(t, w.all(), [2]int{held, held}, func() {
		must(t, in.nft("delete table inet survival"))
		w.awaitState(t, tenant, node.Name, "", "")
	})
}

// stoppedNode: a node hangs, so that its kernel accepts connections and nobody answers. What goes there is lost until two
// checks have failed, and nothing after.
func stoppedNode(t *testing.T, w *world) {
	tenant := w.Tenants[0]
	name, relays := w.anotherNode(t, tenant)
	w.awaitUse(t, tenant, name)
	var stopped time.Time
	reports := w.measure(t, w.all(), [2]int{0, held}, func() {
		stopped = time.Now()
		for _, r := range relays {
			r.Cut()
		}
		pause(t, noticed)
		w.awaitUnhealthy(t, tenant, name, len(w.Proxies))
	})
	w.onlyBetween(t, &reports[0], stopped, stopped.Add(noticed))
	w.nothingFailed(t, &reports[1])
	w.window(t, w.all(), [2]int{held, held}, func() {
		for _, r := range relays {
			r.Mend()
		}
		w.awaitState(t, tenant, name, "", "")
	})
	must(t, tenant.API.Delete(t.Context(), &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	w.awaitNoTarget(t, tenant, name)
}

// awaitUse waits until each proxy has sent connections to a node.
func (w *world) awaitUse(t *testing.T, tenant *fleet.Tenant, node string) {
	t.Helper()
	eventually(t, soon, "each proxy to use "+node, func(ctx context.Context) error {
		for _, p := range w.Proxies {
			if err := answers(ctx, tenant, w.web[0], w.all()...); err != nil {
				return err
			}
			n, err := p.Connects(ctx, tenant.Name(), node)
			if err == nil && n < 3 {
				err = fmt.Errorf("%s has sent it %.0f connections", p.Name, n)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// awaitUnhealthy waits until the hub says that so many proxies find a node so.
func (w *world) awaitUnhealthy(t *testing.T, tenant *fleet.Tenant, node string, proxies int) {
	t.Helper()
	prefix := fmt.Sprintf("Found so by %d of ", proxies)
	eventually(t, soon, fmt.Sprintf("%s of %s to be unhealthy for %d proxies", node, tenant.Name(), proxies), func(ctx context.Context) error {
		m, err := w.Member(ctx, tenant, node)
		if err == nil && (m.State != "unhealthy" || !strings.HasPrefix(m.Message, prefix)) {
			err = fmt.Errorf("it is %q: %s", m.State, m.Message)
		}
		return err
	})
}

func (w *world) awaitNoTarget(t *testing.T, tenant *fleet.Tenant, node string) {
	t.Helper()
	eventually(t, soon, node+" to be no target any more", func(ctx context.Context) error {
		is, err := w.isTarget(ctx, tenant, node)
		if err == nil && is {
			err = errors.New("it is one")
		}
		return err
	})
}

// anotherNode gives a tenant on loopback one more Node, which passes connections for the Service web, and health checks, on to its
// first one. What it listens on can be cut: then its kernel accepts connections, and nobody answers.
func (w *world) anotherNode(t *testing.T, tenant *fleet.Tenant) (string, []*fleet.Relay) {
	t.Helper()
	first := tenant.Nodes()[0].Address
	b := first.As4()
	b[3] = 9
	address := netip.AddrFrom4(b)
	web := &v1.Service{}
	must(t, tenant.API.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "web"}, web))
	var relays []*fleet.Relay
	for _, port := range []uint16{uint16(web.Spec.Ports[0].NodePort), 10256} {
		relays = append(relays, startRelay(t, netip.AddrPortFrom(address, port), netip.AddrPortFrom(first, port)))
	}
	const name = "node-9"
	registerNode(t, tenant, name, address)
	return name, relays
}

// host is the network namespace of a process.
type host int

// hostOf a process that runs.
func hostOf(p *testkit.Process) host { return host(p.PID()) }

// nodesOf is where a tenant's nodes are.
func nodesOf(t *testing.T, tenant *fleet.Tenant) host {
	t.Helper()
	for _, p := range tenant.Processes() {
		if strings.HasSuffix(p.Name(), " nodes") {
			return hostOf(p)
		}
	}
	t.Fatalf("%s has no nodes", tenant.Name())
	return 0
}

// Enter is testkit.Host's.
func (h host) Enter() error {
	f, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", int(h)))
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.Setns(int(f.Fd()), unix.CLONE_NEWNET)
}

// Dial is testkit.Host's.
func (h host) Dial(ctx context.Context, d net.Dialer, network, address string) (c net.Conn, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and the thread ends with this goroutine
		if err = h.Enter(); err == nil {
			c, err = d.DialContext(ctx, network, address)
		}
	}()
	<-done
	return c, err
}

func (h host) dial(ctx context.Context, network, address string) (net.Conn, error) {
	return h.Dial(ctx, net.Dialer{}, network, address)
}

// nft runs a command of nft there.
func (h host) nft(command string) error {
	p, err := testkit.StartProcess(testkit.Command{Name: "nft " + command, Path: "nft", Args: []string{command}, Host: h})
	if err != nil {
		return err
	}
	return p.Wait(context.Background())
}
