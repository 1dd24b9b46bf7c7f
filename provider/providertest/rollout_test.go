package providertest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"testing"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/examples/foo-provider/api"
	"fairlead.dev/fairlead/examples/foo-provider/balancer"
	"fairlead.dev/fairlead/internal/testkit"
	"fairlead.dev/fairlead/internal/testkit/kubetest"
	"fairlead.dev/fairlead/provider"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const patience = time.Minute

// rollout replaces one machine after another behind a load balancer that applies members late. Each is stopped as soon as
// it is called removed, and a client that connects all the time notices nothing.
func rollout(t *testing.T, hub *testkit.ControlPlane, cloud *balancer.Cloud) {
	cloud.SetApplyDelay(time.Second)
	defer cloud.SetApplyDelay(0)
	scheme := runtime.NewScheme()
	if err := errors.Join(provider.AddToScheme(scheme), api.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(hub.RESTConfig(), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	e := clusterv1.Endpoint{Host: host(hub, 199).String(), Port: 7443}
	meta := metav1.ObjectMeta{Namespace: "default", Name: "rollout", Labels: map[string]string{"story": "rollout"}}
	foo := &api.FooLoadBalancer{ObjectMeta: meta}
	group := &v1alpha1.TargetGroup{ObjectMeta: meta}
	machines := map[string]net.Listener{}
	add := func(n byte) {
		a := host(hub, n)
		machines[a.String()] = serve(t, a)
		group.Spec.Targets = append(group.Spec.Targets, v1alpha1.Target{Name: a.String(), UID: a.String(), Addresses: []string{a.String()}})
	}
	add(244)
	add(245)
	for _, o := range []client.Object{foo, group, &clusterv1.LoadBalancer{ObjectMeta: meta, Spec: clusterv1.LoadBalancerSpec{
		Endpoint:          &e,
		InfrastructureRef: &clusterv1.ObjectReference{APIGroup: api.GroupVersion.Group, Kind: "FooLoadBalancer", Name: meta.Name},
		Selector:          &metav1.LabelSelector{MatchLabels: meta.Labels},
		Ports:             []clusterv1.Port{{Port: e.Port, TargetPort: targetPort, Protocol: clusterv1.ProtocolTCP}},
	}}} {
		if err := c.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	is := func(machine, want string) {
		t.Helper()
		kubetest.Eventually(t, patience, machine+" to be "+want, func(ctx context.Context) error {
			if err := c.Get(ctx, client.ObjectKeyFromObject(foo), foo); err != nil {
				return err
			}
			for _, x := range foo.Status.Targets {
				if x.Name == machine && x.State == want {
					return nil
				}
			}
			return fmt.Errorf("there are %v", foo.Status.Targets)
		})
	}
	update := func() {
		t.Helper()
		if err := c.Update(t.Context(), group); err != nil {
			t.Fatal(err)
		}
	}
	is(host(hub, 244).String(), "active")
	is(host(hub, 245).String(), "active")
	stop := connect(t, e)
	for n := byte(244); n < 246; n++ {
		add(n + 2)
		update()
		is(host(hub, n+2).String(), "active")
		old := host(hub, n).String()
		for i := range group.Spec.Targets {
			if group.Spec.Targets[i].Name == old {
				group.Spec.Targets[i].State = v1alpha1.TargetDraining
			}
		}
		update()
		is(old, "removed")
		if err := machines[old].Close(); err != nil {
			t.Fatal(err)
		}
		group.Spec.Targets = group.Spec.Targets[1:]
		update()
	}
	good, bad := stop()
	if len(bad) > 0 || good == 0 {
		t.Errorf("%d connections were served, and %d lost: %v", good, len(bad), errors.Join(bad...))
	}
}

// serve answers each connection at once.
func serve(t *testing.T, a netip.Addr) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(a.String(), strconv.Itoa(targetPort)))
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
				_, _ = io.WriteString(c, "ok") // the client says what it got
			}()
		}
	}()
	return l
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
			if err := once(e); err != nil {
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

func once(e clusterv1.Endpoint) error {
	c, err := net.Dial("tcp", net.JoinHostPort(e.Host, strconv.Itoa(int(e.Port))))
	if err != nil {
		return err
	}
	b, err := io.ReadAll(c)
	if err == nil && string(b) != "ok" {
		err = fmt.Errorf("it answers %q", b)
	}
	return errors.Join(err, c.Close())
}
