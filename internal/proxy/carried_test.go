package proxy

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/lb"
)

// verdictsOf are those that the Program which runs has of the shop's member, one for each frontend.
func (w *world) verdictsOf(address string) string {
	w.dp.mu.Lock()
	defer w.dp.mu.Unlock()
	t := w.dp.program.Tenants["shop"]
	var out []string
	for _, f := range t.Frontends {
		p := t.Pools[f.Pool]
		out = append(out, fmt.Sprintf("%s %s", p.Check, w.dp.program.Health.Of(p.Check, netip.MustParseAddr(address))))
	}
	return strings.Join(out, ", ")
}

func (w *world) hasVerdicts(want string) {
	w.t.Helper()
	if got := w.verdictsOf("10.0.0.1"); got != want {
		w.t.Errorf("10.0.0.1: %s; want %s", got, want)
	}
}

func checkedBy(port int32, kind clusterv1.HealthCheckType) *clusterv1.HealthCheck {
	return &clusterv1.HealthCheck{Type: kind, Port: port}
}

// say gives the probe of a check's name a verdict.
func (c *fakeChecker) say(check string, v lb.Verdict) {
	c.mu.Lock()
	next := lb.Health{}
	for known, of := range c.verdicts {
		if known.String() != check {
			next[known] = of
		}
	}
	for _, p := range c.probes {
		if p.Check.String() == check {
			next[p.Check] = lb.Verdicts{p.Address: v}
		}
	}
	c.verdicts = next
	c.mu.Unlock()
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

// forget has nothing be known of a check's probes.
func (c *fakeChecker) forget(check string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	next := lb.Health{}
	for known, of := range c.verdicts {
		if known.String() != check {
			next[known] = of
		}
	}
	c.verdicts = next
}

// The nodes of a tenant of two Services are checked at kube-proxy's health, then at their ports, and at kube-proxy's health again.
func TestAnotherWayOfCheckingStartsFromWhatWasFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "")
		defer func() { w.stop() }()
		l, a := loadBalancer("shop", "api", "192.0.2.1")
		m, b := loadBalancer("shop", "web", "192.0.2.2")
		m.Spec.Ports[0].TargetPort = 9090
		g := targetGroup("shop", node1())
		g.Spec.HealthCheck = checkedBy(10256, clusterv1.HealthCheckHTTP)
		by := func(c *clusterv1.HealthCheck) {
			g = g.DeepCopy()
			g.Spec.HealthCheck = c
			g.Generation++
			w.set(g)
			settle(time.Millisecond)
		}
		w.list(l, a, m, b, class(), g)
		settle(time.Second)
		w.checker.say("HTTP:10256/", lb.Unhealthy)
		settle(time.Second)
		w.hasVerdicts("HTTP:10256/ Unhealthy, HTTP:10256/ Unhealthy")

		by(checkedBy(0, clusterv1.HealthCheckTCP))
		w.hasVerdicts("TCP:8080 Unhealthy, TCP:9090 Unhealthy")
		settle(time.Hour) // however long the first result takes
		w.hasVerdicts("TCP:8080 Unhealthy, TCP:9090 Unhealthy")
		w.checker.say("TCP:9090", lb.Healthy)
		settle(time.Millisecond)
		w.hasVerdicts("TCP:8080 Unhealthy, TCP:9090 Healthy")

		w.checker.forget("HTTP:10256/")
		by(checkedBy(10256, clusterv1.HealthCheckHTTP))
		w.hasVerdicts("HTTP:10256/ Unchecked, HTTP:10256/ Unchecked") // A port that works says that the node does.

		by(checkedBy(0, clusterv1.HealthCheckTCP))
		w.checker.say("TCP:8080", lb.Unhealthy)
		w.checker.say("TCP:9090", lb.Unhealthy)
		settle(time.Millisecond)
		by(checkedBy(10256, clusterv1.HealthCheckHTTP))
		w.hasVerdicts("HTTP:10256/ Unhealthy, HTTP:10256/ Unhealthy")
		w.checker.say("HTTP:10256/", lb.Healthy)
		settle(time.Millisecond)
		w.hasVerdicts("HTTP:10256/ Healthy, HTTP:10256/ Healthy")
	})
}

func TestAnotherPortStartsFromWhatWasFoundAtTheFormer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		w := newWorld(t, dir)
		defer func() { w.stop() }()
		l, a := loadBalancer("shop", "web", "192.0.2.1")
		g := targetGroup("shop", node1())
		w.list(l, a, class(), g)
		settle(time.Second)
		w.checker.find(lb.Unhealthy)
		settle(time.Second)
		to := func(port int32) {
			l = l.DeepCopy()
			l.Spec.Ports[0].TargetPort = port
			l.Generation++
			w.set(l)
			settle(time.Millisecond)
		}
		to(9090)
		w.hasVerdicts("TCP:9090 Unhealthy")

		settle(time.Second)
		w.stop()
		w.hub.leave()
		w.anew(dir)
		settle(time.Second)
		w.hasVerdicts("TCP:9090 Unhealthy") // over a restart, too

		w.hub.comeBack()
		w.list(l, a, class(), g)
		settle(time.Second)
		w.checker.find(lb.Healthy)
		settle(time.Millisecond)
		to(9091)
		w.hasVerdicts("TCP:9091 Unchecked")
	})
}

// What was carried over goes with its probe.
func TestWhatIsCarriedOverIsForgottenWithItsProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "")
		defer w.stop()
		l, a := loadBalancer("shop", "web", "192.0.2.1")
		w.list(l, a, class(), targetGroup("shop", node1()))
		settle(time.Second)
		w.checker.find(lb.Unhealthy)
		settle(time.Second)
		to := func(port int32, targets ...v1alpha1.Target) {
			l = l.DeepCopy()
			l.Spec.Ports[0].TargetPort = port
			l.Generation++
			w.set(l)
			g := targetGroup("shop", targets...)
			g.Generation = l.Generation
			w.set(g)
			settle(time.Millisecond)
		}
		to(9090, node1())
		w.hasVerdicts("TCP:9090 Unhealthy")
		to(9090)
		to(9090, node1())
		w.hasVerdicts("TCP:9090 Unchecked")
	})
}

// A Machine has its address before its API server listens: until a check has found it there, others take the connections.
func TestAMemberThatComesWaitsForItsFirstCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "")
		defer func() { w.stop() }()
		l, a := loadBalancer("shop", "api", "192.0.2.1")
		g := targetGroup("shop", node1())
		come := func(address string) {
			g = g.DeepCopy()
			g.Spec.Targets = append(g.Spec.Targets, v1alpha1.Target{Name: "at-" + address, UID: "at-" + address, Addresses: []string{address}})
			g.Generation++
			w.set(g)
			settle(time.Millisecond)
		}
		w.list(l, a, class(), g)
		settle(time.Second)
		come("10.0.0.2")
		if got := w.verdictsOf("10.0.0.2"); got != "TCP:8080 Unchecked" { // nobody else is known to serve
			t.Error(got)
		}
		w.checker.find(lb.Healthy)
		settle(time.Millisecond)
		come("10.0.0.3")
		settle(time.Hour) // however long the first result takes
		if got := w.verdictsOf("10.0.0.3"); got != "TCP:8080 Unhealthy" {
			t.Error(got)
		}
		w.hasVerdicts("TCP:8080 Healthy")
		w.checker.find(lb.Healthy)
		settle(time.Millisecond)
		if got := w.verdictsOf("10.0.0.3"); got != "TCP:8080 Healthy" {
			t.Error(got)
		}
	})
}
