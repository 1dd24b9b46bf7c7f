package providers_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"testing"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/examples/foo-provider/api"
	"fairlead.dev/fairlead/examples/foo-provider/balancer"
	"fairlead.dev/fairlead/examples/foo-provider/foo"
	"fairlead.dev/fairlead/internal/testkit"
	"fairlead.dev/fairlead/internal/testkit/kubetest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const targetPort = 9000

// front is a FooLoadBalancer in a namespace of its own, and the machines behind it.
type front struct {
	*hub
	t        *testing.T
	control  string
	endpoint clusterv1.Endpoint
	foo      *api.FooLoadBalancer
	group    *v1alpha1.TargetGroup
	machines map[string]net.Listener
}

// newFront makes one at the hub's n-th address. How late members apply is set at the control address.
func (h *hub) newFront(t *testing.T, control, name string, n byte, delay time.Duration, machines ...byte) *front {
	t.Helper()
	h.namespace(t, name)
	in := metav1.ObjectMeta{Namespace: name, Name: name, Labels: map[string]string{"story": name}}
	f := &front{
		hub: h, t: t, control: control, endpoint: clusterv1.Endpoint{Host: h.host(n).String(), Port: 7443},
		foo: &api.FooLoadBalancer{ObjectMeta: in}, group: &v1alpha1.TargetGroup{ObjectMeta: in}, machines: map[string]net.Listener{},
	}
	f.set(balancer.Settings{ApplyDelay: delay.String()})
	t.Cleanup(func() { f.set(balancer.Settings{ApplyDelay: "0s"}) })
	for _, m := range machines {
		f.add(m)
	}
	h.create(t, f.foo, f.group, &clusterv1.LoadBalancer{ObjectMeta: in, Spec: clusterv1.LoadBalancerSpec{
		Endpoint:          &f.endpoint,
		InfrastructureRef: &clusterv1.ObjectReference{APIGroup: api.GroupVersion.Group, Kind: "FooLoadBalancer", Name: name},
		Selector:          &metav1.LabelSelector{MatchLabels: in.Labels},
		Ports:             []clusterv1.Port{{Port: f.endpoint.Port, TargetPort: targetPort, Protocol: clusterv1.ProtocolTCP}},
	}})
	for _, m := range machines {
		f.is(m, "active")
	}
	return f
}

// set sets the cloud's delay and faults.
func (f *front) set(s balancer.Settings) {
	f.t.Helper()
	b, err := json.Marshal(s)
	if err != nil {
		f.t.Fatal(err)
	}
	// A new cloud takes a moment to listen; and at the end of a test its own context has ended.
	var last error
	for until := time.Now().Add(patience); time.Now().Before(until); <-time.After(20 * time.Millisecond) {
		req, err := http.NewRequest(http.MethodPut, f.control, bytes.NewReader(b))
		if err != nil {
			f.t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if last = err; err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusNoContent {
				return
			}
			last = fmt.Errorf("it answers %s", resp.Status)
		}
	}
	f.t.Fatalf("setting the cloud to %s: %v", b, last)
}

// add has a machine serve, and be a target.
func (f *front) add(n byte) {
	f.t.Helper()
	a := f.host(n).String()
	f.machines[a] = serve(f.t, f.host(n))
	f.group.Spec.Targets = append(f.group.Spec.Targets, v1alpha1.Target{Name: a, UID: a, Addresses: []string{a}})
}

// write writes the targets as f changes them, with what add did.
func (f *front) write(how func(*v1alpha1.TargetGroup)) {
	f.t.Helper()
	targets := f.group.Spec.Targets
	change(f.t, f.hub, f.group, func(g *v1alpha1.TargetGroup) {
		g.Spec.Targets = targets
		how(g)
	})
}

// drains asks a machine out.
func (f *front) drains(n byte) {
	f.t.Helper()
	f.write(func(g *v1alpha1.TargetGroup) {
		for i := range g.Spec.Targets {
			if g.Spec.Targets[i].Name == f.host(n).String() {
				g.Spec.Targets[i].State = v1alpha1.TargetDraining
			}
		}
	})
}

// is waits until a machine is in a state.
func (f *front) is(n byte, want string) {
	f.t.Helper()
	machine := f.host(n).String()
	wait(f.t, f.hub, f.foo, machine+" to be "+want, func(o *api.FooLoadBalancer) error {
		for _, x := range o.Status.Targets {
			if x.Name == machine && x.State == want {
				return nil
			}
		}
		return fmt.Errorf("there are %v, and the conditions %v", o.Status.Targets, o.Status.Conditions)
	})
}

// rollout replaces one machine after another behind a load balancer that applies members late. Each is stopped as soon as
// it is called removed, and a client that connects all the time notices nothing, not even that the controller is killed meanwhile.
func rollout(t *testing.T, h *hub, control string, controller *testkit.Process) {
	f := h.newFront(t, control, "rollout", 199, time.Second, 244, 245)
	id := f.foo.Spec.ID
	stop := connect(t, f.endpoint)
	for n := byte(244); n < 246; n++ {
		f.add(n + 2)
		f.write(func(*v1alpha1.TargetGroup) {})
		kill(t, controller) // before it has seen the new one, or after
		f.is(n+2, "active")
		f.drains(n)
		f.is(n, "removing")
		began := time.Now()
		kill(t, controller)
		f.is(n, "removed")
		if took := time.Since(began); took < foo.Settle {
			t.Errorf("it is called removed after %s: it settles for %s, and a process that starts anew counts anew", took, foo.Settle)
		}
		if err := f.machines[h.host(n).String()].Close(); err != nil {
			t.Fatal(err)
		}
		f.write(func(g *v1alpha1.TargetGroup) { g.Spec.Targets = g.Spec.Targets[1:] })
	}
	good, bad := stop()
	if len(bad) > 0 || good == 0 {
		t.Errorf("%d connections were served, and %d lost: %v", good, len(bad), errors.Join(bad...))
	}
	if f.foo.Spec.ID != id {
		t.Errorf("the load balancer is %s, and was %s: it was torn down", f.foo.Spec.ID, id)
	}
}

// drain has a machine leave that has an open connection. It goes on through the controller's death and the cloud's faults, and the
// machine is removed once the connection has ended.
func drain(t *testing.T, h *hub, control string, controller *testkit.Process) {
	f := h.newFront(t, control, "drain", 197, 100*time.Millisecond, 250, 251)
	id := f.foo.Spec.ID
	open := map[string]net.Conn{} // one through each machine
	kubetest.Eventually(t, patience, "a connection through each machine", func(context.Context) error {
		c, who, err := hold(f.endpoint)
		if err != nil {
			return err
		}
		if open[who] != nil {
			return errors.Join(errors.New("both go to "+who), c.Close())
		}
		open[who] = c
		t.Cleanup(func() { c.Close() }) // again, maybe
		if len(open) < 2 {
			return errors.New("one is there")
		}
		return nil
	})
	leaving := h.host(250).String()
	stop := connect(t, f.endpoint)
	f.drains(250)
	f.is(250, "removing")
	kill(t, controller)
	for _, faults := range []map[string]balancer.Fault{
		{"SetMembers": balancer.Fails, "Ensure": balancer.Fails}, {"Get": balancer.Fails}, {"SetMembers": balancer.Forgets}, {"SetMembers": balancer.Halves, "Delete": balancer.Halves},
	} {
		f.set(balancer.Settings{ApplyDelay: "100ms", Faults: faults})
		if faults["Get"] != "" {
			wait(t, h, f.foo, "to be degraded", func(o *api.FooLoadBalancer) error {
				return errors.Join(is(o.Status.Conditions, "Degraded", metav1.ConditionTrue, "ProviderError"), is(o.Status.Conditions, "Ready", metav1.ConditionTrue, "AsExpected"))
			})
		}
		if err := echo(open[leaving]); err != nil {
			t.Fatalf("with %v, the open connection: %v", faults, err)
		}
	}
	f.set(balancer.Settings{ApplyDelay: "100ms"})
	wait(t, h, f.foo, "to be well, and draining", func(o *api.FooLoadBalancer) error {
		for _, x := range o.Status.Targets {
			if x.Name == leaving && x.State != "removing" {
				return fmt.Errorf("it is %s, with a connection open", x.State)
			}
		}
		return is(o.Status.Conditions, "Degraded", metav1.ConditionFalse, "AsExpected")
	})
	if err := errors.Join(echo(open[leaving]), open[leaving].Close()); err != nil {
		t.Fatal(err)
	}
	f.is(250, "removed")
	if err := f.machines[leaving].Close(); err != nil {
		t.Fatal(err)
	}
	if err := echo(open[h.host(251).String()]); err != nil {
		t.Errorf("the other machine's connection: %v", err)
	}
	good, bad := stop()
	if len(bad) > 0 || good == 0 {
		t.Errorf("%d connections were served, and %d lost: %v", good, len(bad), errors.Join(bad...))
	}
	if f.foo.Spec.ID != id {
		t.Errorf("the load balancer is %s, and was %s: it was torn down", f.foo.Spec.ID, id)
	}
}

// kill ends the controller without a word, and starts it anew.
func kill(t *testing.T, controller *testkit.Process) {
	t.Helper()
	if err := errors.Join(controller.Kill(), controller.Start()); err != nil {
		t.Fatal(err)
	}
}

// serve tells each connection its address, and echoes.
func serve(t *testing.T, a netip.Addr) net.Listener {
	t.Helper()
	return serveAt(t, netip.AddrPortFrom(a, targetPort))
}

func serveAt(t *testing.T, at netip.AddrPort) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", at.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() }) // again, maybe
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return // it was stopped
			}
			go func() {
				defer c.Close()
				if _, err := fmt.Fprintf(c, "%-16s", at.Addr()); err == nil {
					_, _ = io.Copy(c, c) // until the client goes
				}
			}()
		}
	}()
	return l
}

// hold opens a connection, and returns who answers.
func hold(e clusterv1.Endpoint) (net.Conn, string, error) {
	c, err := net.Dial("tcp", net.JoinHostPort(e.Host, fmt.Sprint(e.Port)))
	if err != nil {
		return nil, "", err
	}
	who := make([]byte, 16)
	if _, err := io.ReadFull(c, who); err != nil {
		return nil, "", errors.Join(err, c.Close())
	}
	return c, string(bytes.TrimSpace(who)), nil
}

func echo(c net.Conn) error {
	if _, err := c.Write([]byte("x")); err != nil {
		return err
	}
	if err := c.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	_, err := io.ReadFull(c, make([]byte, 1))
	return err
}

// connect has a client connect all the time, until stop, which says how often that went well, and what went wrong.
func connect(t *testing.T, e clusterv1.Endpoint) (stop func() (int, []error)) {
	ctx, cancel := context.WithCancel(t.Context())
	var work sync.WaitGroup
	var good int
	var bad []error
	work.Go(func() {
		ticker := time.NewTicker(5 * time.Millisecond)
		defer ticker.Stop()
		for ctx.Err() == nil {
			<-ticker.C
			c, _, err := hold(e)
			if err == nil {
				err = errors.Join(echo(c), c.Close())
			}
			if err != nil {
				bad = append(bad, err)
			} else {
				good++
			}
		}
	})
	t.Cleanup(cancel)
	return func() (int, []error) {
		cancel()
		work.Wait()
		return good, bad
	}
}
