package providers_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"testing"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/examples/foo-provider/api"
	"fairlead.dev/fairlead/examples/foo-provider/balancer"
	"fairlead.dev/fairlead/examples/foo-provider/foo"
	"fairlead.dev/fairlead/internal/member"
	"fairlead.dev/fairlead/internal/testkit"
	"fairlead.dev/fairlead/internal/testkit/kubetest"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// newMachine makes a Machine of a Cluster at one of the hub's addresses, held by Cluster API's finalizer.
func (h *hub) newMachine(t *testing.T, namespace, cluster, name string, n byte) *unstructured.Unstructured {
	t.Helper()
	m := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"clusterName": cluster, "bootstrap": map[string]any{"dataSecretName": "none"},
		"infrastructureRef": map[string]any{"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "DevMachine", "name": name},
	}}}
	m.SetAPIVersion("cluster.x-k8s.io/v1beta2")
	m.SetKind("Machine")
	m.SetNamespace(namespace)
	m.SetName(name)
	m.SetLabels(map[string]string{clusterv1.ClusterNameLabel: cluster, member.ControlPlaneLabel: ""})
	m.SetFinalizers([]string{"machine.cluster.x-k8s.io"})
	h.create(t, m)
	kubetest.Eventually(t, patience, "Machine "+name+" to have an address", func(ctx context.Context) error {
		if err := h.api.Get(ctx, client.ObjectKeyFromObject(m), m); err != nil {
			return err
		}
		m.Object["status"] = map[string]any{"addresses": []any{map[string]any{"type": "InternalIP", "address": h.host(n).String()}}}
		return h.api.Status().Update(ctx, m)
	})
	return m
}

// machinesBehind: a Cluster gets the endpoint that the provider chose. A Machine behind a FooLoadBalancer keeps its hook until the provider calls it removed, whoever is killed meanwhile, and a client that
// connects all the time notices nothing.
func machinesBehind(t *testing.T, h *hub, control string, controller *testkit.Process) {
	const name = "behind"
	h.namespace(t, name)
	f := &front{hub: h, t: t, control: control}
	f.set(balancer.Settings{ApplyDelay: "500ms"})
	t.Cleanup(func() { f.set(balancer.Settings{ApplyDelay: "0s"}) })
	listeners := map[string]net.Listener{"a": serve(t, h.host(252)), "b": serve(t, h.host(253))}
	l := lbOf(name, name, func(s *clusterv1.LoadBalancerSpec) {
		s.ClassName, s.ClusterName, s.Role = name, "prod", clusterv1.RoleControlPlane
		s.Selector.MatchLabels = map[string]string{clusterv1.ClusterNameLabel: "prod"}
	})
	cluster := prod(name)
	h.create(t, cluster, fooTemplate(name), fooClass(name), l)
	wait(t, h, cluster, "to have the provider's endpoint, with no Machine yet", func(c *unstructured.Unstructured) error {
		at, _, err := unstructured.NestedMap(c.Object, "spec", "controlPlaneEndpoint")
		if err == nil && (at["host"] == nil || at["port"] != int64(7443)) {
			err = fmt.Errorf("it has %v", at)
		}
		return err
	})
	leaves, stays := h.newMachine(t, name, "prod", "a", 252), h.newMachine(t, name, "prod", "b", 253)
	active := func(names ...string) {
		t.Helper()
		wait(t, h, l, fmt.Sprint(names, " to be active"), func(l *clusterv1.LoadBalancer) error {
			if !slices.Equal(l.Status.ActiveTargets, names) {
				return fmt.Errorf("there are %+v, conditions %+v", l.Status.Targets, l.Status.Conditions)
			}
			return nil
		})
	}
	active("a", "b")
	f.foo = fooLB(name, name)
	says := func(machine, state string) {
		t.Helper()
		wait(t, h, f.foo, machine+" to be "+state, func(o *api.FooLoadBalancer) error {
			for _, x := range o.Status.Targets {
				if x.Name == machine && x.State == state {
					return nil
				}
			}
			return fmt.Errorf("there are %+v", o.Status.Targets)
		})
	}
	says("a", "active")
	stop := connect(t, *f.foo.Spec.Endpoint)
	if err := h.api.Delete(t.Context(), leaves); err != nil {
		t.Fatal(err)
	}
	kill(t, h.manager)
	says("a", "removing")
	began := time.Now()
	kill(t, controller)
	hooked := func(m *unstructured.Unstructured) (bool, error) {
		err := h.api.Get(t.Context(), client.ObjectKeyFromObject(m), m)
		return member.Hooked(m.GetAnnotations(), name), err
	}
	if has, err := hooked(leaves); err != nil || !has {
		t.Errorf("it is on its way out, and its hook is there: %t, %v", has, err)
	}
	kill(t, h.manager)
	kubetest.Eventually(t, patience, "the hook of a to be lifted", func(context.Context) error {
		if has, err := hooked(leaves); err != nil || has {
			return errors.Join(err, fmt.Errorf("it has %v", leaves.GetAnnotations()))
		}
		return nil
	})
	if took := time.Since(began); took < foo.Settle {
		t.Errorf("its hook was lifted after %s: it settles for %s", took, foo.Settle)
	}
	if err := listeners["a"].Close(); err != nil {
		t.Fatal(err)
	}
	active("b")
	change(t, h, leaves, func(m *unstructured.Unstructured) { m.SetFinalizers(nil) })
	good, bad := stop()
	if len(bad) > 0 || good == 0 {
		t.Errorf("%d connections were served, and %d lost: %v", good, len(bad), errors.Join(bad...))
	}
	if err := h.api.Delete(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	h.gone(t, l)
	h.gone(t, f.foo)
	if has, err := hooked(stays); err != nil || has {
		t.Errorf("the LoadBalancer is gone, and the hook of b is there: %t, %v", has, err)
	}
	change(t, h, stays, func(m *unstructured.Unstructured) { m.SetFinalizers(nil) })
}
