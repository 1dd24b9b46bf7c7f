package capi_test

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"fairlead.dev/fairlead/internal/testkit/kubetest"
	capiv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

const (
	// quiet is how many requests are made before anything is changed: all must be answered, or what is judged is this machine.
	quiet = 250
	// next is the version that the control plane is rolled out to. No byte of it runs.
	next = "v1.34.1"
)

// A control plane of Cluster API's own comes up behind one of our load balancers, grows to three members, and is replaced member by member.
func TestRollout(t *testing.T) {
	h := newHub(t)
	t.Run("members that are removed when their Machines are gone", func(t *testing.T) {
		h := h.in(t)
		const namespace = "naive"
		machines := netip.MustParsePrefix("127.77.1.0/24")
		h.tenant(namespace, machines)
		c := h.startCluster(machines, overWrittenMembers(namespace), func(ctx context.Context, all []capiv1.Machine) error {
			return h.writeMembers(ctx, namespace, all)
		})
		v := c.rolledOut()
		if v.failed() == 0 {
			t.Error("no request was lost: then nothing is proved by one that loses none")
		}
		c.delete()
	})
	t.Run("members that are held until the proxy has stopped", func(t *testing.T) {
		h := h.in(t)
		const namespace = "held"
		h.operators(namespace, "127.79.0.0/24")
		l := overHeldMembers(namespace)
		c := h.startCluster(netip.MustParsePrefix("127.77.2.0/24"), l, nil)
		v := c.rolledOut()
		if v.failed() > 0 {
			t.Error("requests were lost")
		}
		c.holds(l, 3)
		c.delete()
		c.holds(l, 0)
		c.deleteLoadBalancer(l)
	})
}

// rolledOut has a control plane of one member grow to three, and be replaced, and returns who visited it meanwhile.
func (c *cluster) rolledOut() *visitor {
	c.t.Helper()
	c.scale(3)
	v := c.visited()
	kubetest.Eventually(c.t, 2*quiet*visitEvery+soon, "visits before anything is changed", func(context.Context) error { return v.has(quiet) })
	if n := v.failed(); n > 0 {
		c.t.Fatalf("requests fail before anything is changed: %s", v)
	}
	old := c.machines()
	c.rollOut(next, 3)
	for _, m := range c.machines() {
		if slices.ContainsFunc(old, func(o capiv1.Machine) bool { return o.UID == m.UID }) {
			c.t.Errorf("Machine %s has not been replaced", m.Name)
		}
	}
	kubetest.Eventually(c.t, soon, "each new Machine to answer", func(context.Context) error {
		for _, m := range c.machines() {
			if v.of(m.Name) == 0 {
				return fmt.Errorf("%s has answered nothing", m.Name)
			}
		}
		return nil
	})
	v.leave()
	c.t.Logf("%s: %s", c.namespace, v)
	return v
}
