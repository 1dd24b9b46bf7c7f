package install_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/internal/fleet"
	"fairlead.dev/fairlead/internal/testkit"
	"fairlead.dev/fairlead/internal/testkit/kubetest"
	"fairlead.dev/fairlead/internal/testkit/netns"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// testUnit has the unit of the data plane builtin serve a port below 1024 on a host of its own, and be upgraded, killed and taken away as
// docs/running-proxies.md says.
func testUnit(t *testing.T, hub *cluster) {
	const name, own, member, assigned = "metal-1", "192.0.2.20", "192.0.2.30", "198.51.100.7"
	network := netns.New()
	t.Cleanup(network.Close)
	ns := network.Namespace(name)
	ns.Address("lo", own+"/32", member+"/32")
	if err := network.Err(); err != nil {
		t.Fatal(err)
	}
	toHub, err := ns.Listen("tcp", hub.APIServerAddress().String())
	if err != nil {
		t.Fatal(err)
	}
	relay := fleet.NewRelay(toHub, hub.APIServerAddress())
	t.Cleanup(relay.Close)
	serveEcho(t, ns, member+":8080")

	host := newPlainHost(t, name, ns)
	program, err := os.ReadFile(fairlead)
	if err != nil {
		t.Fatal(err)
	}
	for _, version := range []string{"1.4", "1.5", "1.6"} {
		host.file(t, "opt/fairlead/"+version+"/fairlead", program, 0o755, 0)
	}
	kubeconfig, err := os.ReadFile(hub.account(t, "fairlead-proxies", name))
	if err != nil {
		t.Fatal(err)
	}
	host.file(t, "etc/fairlead/hub.kubeconfig", kubeconfig, 0o640, host.user)
	host.file(t, "etc/fairlead/proxy.env", []byte("POOL=metal\nADDRESS="+own+"\n"), 0o644, 0)
	u := readUnit(t, "fairlead-proxy@.service")

	for _, text := range []string{
		`{apiVersion: fairlead.dev/v1alpha1, kind: AddressPool, metadata: {name: metal}, spec: {proxyHosts: {pool: metal, ports: 1-1023}, use: {namespaceSelector: {matchLabels: {its: metal}}}}}`,
		`{apiVersion: fairlead.dev/v1alpha1, kind: LoadBalancerClass, metadata: {name: metal}, spec: {proxy: {pool: metal}, addressPools: [metal]}}`,
		`{apiVersion: fairlead.dev/v1alpha1, kind: AddressPool, metadata: {name: put}, spec: {ranges: [` + assigned + `/32], use: {namespaceSelector: {matchLabels: {its: metal}}}}}`,
		`{apiVersion: fairlead.dev/v1alpha1, kind: LoadBalancerClass, metadata: {name: put}, spec: {proxy: {pool: metal, assignAddresses: true}, addressPools: [put]}}`,
		`{apiVersion: v1, kind: Namespace, metadata: {name: metal, labels: {its: metal}}}`,
		`{apiVersion: fairlead.dev/v1alpha1, kind: TargetGroup, metadata: {name: web, namespace: metal, labels: {app: web}}, spec: {targets: [{name: a, uid: a, addresses: [` + member + `]}]}}`,
	} {
		hub.create(t, text)
	}
	old := host.start(t, u, "1.4")
	hub.create(t, `{apiVersion: cluster.x-k8s.io/v1beta1, kind: LoadBalancer, metadata: {name: web, namespace: metal}, spec: {role: Workload, className: metal, selector: {matchLabels: {app: web}}, ports: [{name: http, port: 80, targetPort: 8080}]}}`)
	hub.programmed(t, "web")
	if got, want := status(t, old, "Uid"), fmt.Sprint(host.user); got != want {
		t.Errorf("it runs as user %s, want %s", got, want)
	}
	if got := status(t, old, "CapEff"); got != "0000000000000400" || status(t, old, "CapBnd") != got || status(t, old, "NoNewPrivs") != "1" {
		t.Errorf("it has the capabilities %s, want CAP_NET_BIND_SERVICE alone", got)
	}
	since := began(t.Context(), t, ns)
	open := dialEcho(t, ns, own+":80")
	open.says(t, "before")

	// The next version takes over. The connection goes on in the old one, which ends with it.
	second := host.start(t, u, "1.5")
	kubetest.Eventually(t, soon, "the next version to be ready, and show that", func(ctx context.Context) error {
		if now := began(ctx, t, ns); now == 0 || now == since {
			return fmt.Errorf("who shows metrics has begun at %v", now)
		}
		return nil
	})
	open.says(t, "meanwhile")
	dialEcho(t, ns, own+":80").says(t, "of the next")
	if !old.Running() {
		t.Error("the old version has ended before its last connection")
	}
	if err := open.Close(); err != nil {
		t.Fatal(err)
	}
	if err := old.Wait(within(t)); err != nil {
		t.Errorf("systemd would start the old version again: %v", err)
	}

	// It is killed, and started again with what it left.
	if err := second.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := second.Start(); err != nil {
		t.Fatal(err)
	}
	kubetest.Eventually(t, soon, "it to serve again", func(ctx context.Context) error {
		c, err := ns.Dial(ctx, net.Dialer{}, "tcp", own+":80")
		if err == nil {
			err = c.Close()
		}
		return err
	})

	// Addresses are put on the host with one capability more, as the unit's comment says; without it nothing else is lost.
	hub.create(t, `{apiVersion: cluster.x-k8s.io/v1beta1, kind: LoadBalancer, metadata: {name: put, namespace: metal}, spec: {role: Workload, className: put, selector: {matchLabels: {app: web}}, ports: [{name: http, port: 443, targetPort: 8080}]}}`)
	hub.loadBalancerThat(t, "put", func(l *clusterv1.LoadBalancer) error {
		if p := l.Status.Ports; len(p) != 1 || !strings.Contains(p[0].Message, "CAP_NET_ADMIN") {
			return fmt.Errorf("nothing says that the proxy lacks CAP_NET_ADMIN: %+v", l.Status)
		}
		return nil
	})
	for _, key := range []string{"AmbientCapabilities", "CapabilityBoundingSet"} {
		u[key] += " CAP_NET_ADMIN"
	}
	third := host.start(t, u, "1.6")
	hub.programmed(t, "put")
	dialEcho(t, ns, assigned+":443").says(t, "at an address that was put there")
	if err := second.Wait(within(t)); err != nil {
		t.Error(err)
	}

	leave := []string{"/opt/fairlead/1.6/fairlead", "proxy", "leave", "--kubeconfig=/etc/fairlead/hub.kubeconfig", "--state-dir=/var/lib/fairlead", "--timeout=1s"}
	root := unit{"UMask": "0022", "StateDirectory": "fairlead"}
	if err := host.run(t, root, leave...).Wait(within(t)); err == nil || !strings.Contains(err.Error(), "run this as its user") {
		t.Errorf("root is told %v", err)
	}
	if err := host.run(t, u, leave...).Wait(within(t)); err != nil {
		t.Errorf("it can't leave: %v", err)
	}
	if err := third.Wait(within(t)); err != nil {
		t.Errorf("systemd would start again what has left: %v", err)
	}
	if left, err := ns.Addresses(); err != nil || len(left) != 2 {
		t.Errorf("the host has %v, %v", left, err)
	}
}

// within bounds a wait.
func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	t.Cleanup(cancel)
	return ctx
}

// programmed waits until a LoadBalancer of the host's is served.
func (c *cluster) programmed(t *testing.T, name string) {
	t.Helper()
	c.loadBalancerThat(t, name, func(l *clusterv1.LoadBalancer) error {
		if !meta.IsStatusConditionTrue(l.Status.Conditions, clusterv1.ConditionProgrammed) {
			return fmt.Errorf("its status is %+v", l.Status)
		}
		for _, p := range l.Status.Ports {
			if p.Error != "" {
				return fmt.Errorf("port %d: %s: %s", p.Port, p.Error, p.Message)
			}
		}
		return nil
	})
}

func (c *cluster) loadBalancerThat(t *testing.T, name string, is func(*clusterv1.LoadBalancer) error) {
	t.Helper()
	l := &clusterv1.LoadBalancer{}
	kubetest.Eventually(t, soon, "LoadBalancer "+name, func(ctx context.Context) error {
		if err := c.api.Get(ctx, client.ObjectKey{Namespace: "metal", Name: name}, l); err != nil {
			return err
		}
		return is(l)
	})
}

// status is what the kernel says of a process.
func status(t *testing.T, p *testkit.Process, key string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("/proc", fmt.Sprint(p.PID()), "status"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if value, ok := strings.CutPrefix(line, key+":"); ok {
			return strings.Fields(value)[0]
		}
	}
	t.Fatalf("no %s in %s", key, b)
	return ""
}

// began is when the process began that shows metrics in a namespace, where it is ready; 0: there is none.
func began(ctx context.Context, t *testing.T, ns *netns.Namespace) float64 {
	t.Helper()
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		return ns.Dial(ctx, net.Dialer{}, network, address)
	}}}
	var body []byte
	for _, path := range []string{"/readyz", "/metrics"} {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1:9443"+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := c.Do(req)
		if err != nil {
			return 0
		}
		body, err = io.ReadAll(res.Body)
		if err = errors.Join(err, res.Body.Close()); err != nil || res.StatusCode != http.StatusOK {
			return 0
		}
	}
	shown := exposition{}
	shown.add(t, body)
	return shown.value("process_start_time_seconds", nil)
}

// serveEcho says again what it is told, at an address of a namespace.
func serveEcho(t *testing.T, ns *netns.Namespace, address string) {
	t.Helper()
	l, err := ns.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = io.Copy(c, c) // until the client has no more to say
			}()
		}
	}()
}

// echo is a connection to what serveEcho serves.
type echo struct{ net.Conn }

func dialEcho(t *testing.T, ns *netns.Namespace, address string) echo {
	t.Helper()
	c, err := ns.Dial(within(t), net.Dialer{}, "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return echo{c}
}

func (e echo) says(t *testing.T, what string) {
	t.Helper()
	deadline, _ := within(t).Deadline()
	if err := e.SetDeadline(deadline); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(e, what); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	got := make([]byte, len(what))
	if _, err := io.ReadFull(e, got); err != nil || string(got) != what {
		t.Fatalf("%s: got %q, %v", what, got, err)
	}
}
