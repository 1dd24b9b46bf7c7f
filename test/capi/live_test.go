package capi_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/internal/member"
	"fairlead.dev/fairlead/internal/testkit/kubetest"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	capiv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// shortWait is the maxWait of stories in which it passes.
	shortWait = 5 * time.Second
	// managerMetrics is where the hub's manager serves its own.
	managerMetrics = "127.0.0.1:9400"
)

// hooks has Machines be held in another way, and for another time. It returns what has them be held as before.
func (c *cluster) hooks(kind clusterv1.HookType, wait time.Duration, then clusterv1.OnMaxWait, drain time.Duration) (before func()) {
	c.t.Helper()
	patch := func(kind clusterv1.HookType, wait time.Duration, then clusterv1.OnMaxWait, drain time.Duration) {
		c.t.Helper()
		text := fmt.Sprintf(`{"spec":{"drainTimeout":%q,"machineHooks":{"type":%q,"maxWait":%q,"onMaxWait":%q}}}`, drain, kind, wait, then)
		if err := c.hub.api.Patch(c.t.Context(), c.loadBalancer, client.RawPatch(types.MergePatchType, []byte(text))); err != nil {
			c.t.Fatal(err)
		}
		key := member.HookKey(kind, c.loadBalancer.Name)
		kubetest.Eventually(c.t, soon, "hook "+key+" of each Machine", func(context.Context) error {
			for _, m := range c.machines() {
				if _, has := m.Annotations[key]; !has {
					return fmt.Errorf("Machine %s has %v", m.Name, m.Annotations)
				}
			}
			return nil
		})
	}
	patch(kind, wait, then, drain)
	return func() { patch(clusterv1.HookPreDrain, 4*patience, clusterv1.OnMaxWaitRelease, watchesEnd) }
}

// waits waits until Cluster API says that it waits with a Machine's deletion, for a reason, and for our hook.
func (c *cluster) waits(m *capiv1.Machine, reason string) {
	c.t.Helper()
	wait(c.t, c.hub.api, m, soon, reason, func(m *capiv1.Machine) error {
		at := meta.FindStatusCondition(m.Status.Conditions, capiv1.MachineDeletingCondition)
		if at == nil || at.Reason != reason {
			return fmt.Errorf("it says %+v", at)
		}
		if !member.Hooked(m.Annotations, c.loadBalancer.Name) {
			return errors.New("it isn't held")
		}
		return nil
	})
}

// heldLater: with PreTerminate a Machine's Node is drained at once, and its infrastructure stays until proxies have stopped.
func heldLater(c *cluster, v *visitor) {
	before := c.hooks(clusterv1.HookPreTerminate, 4*patience, clusterv1.OnMaxWaitRelease, 5*watchesEnd)
	m := c.leaves(v)
	c.waits(m, capiv1.MachineDeletingWaitingForPreTerminateHookReason)
	c.replaced(m, 3)
	before()
}

// stuck has the proxy hang, and a Machine be deleted. It returns once the Machine has been held for longer than maxWait says, or let go.
func (c *cluster) stuck(v *visitor, then clusterv1.OnMaxWait) (m *capiv1.Machine, resume, before func()) {
	c.t.Helper()
	before = c.hooks(clusterv1.HookPreDrain, shortWait, then, watchesEnd)
	proxy := c.hub.proxies["nftables"]
	if err := proxy.Pause(); err != nil {
		c.t.Fatal(err)
	}
	resume = func() {
		if err := proxy.Resume(); err != nil {
			c.t.Fatal(err)
		}
	}
	c.t.Cleanup(resume)
	return c.leaves(v), resume, before
}

// blocked: with Block a Machine is held for as long as a proxy hangs, and serves; it goes when the proxy is back.
func blocked(c *cluster, v *visitor) {
	m, resume, before := c.stuck(v, clusterv1.OnMaxWaitBlock)
	kubetest.Eventually(c.t, soon, nameOf(m)+" to be held for longer than maxWait", func(ctx context.Context) error {
		held, err := gauge(ctx, managerMetrics, "fairlead_held_machine_oldest_seconds")
		if err == nil && held < 2*shortWait.Seconds() {
			err = fmt.Errorf("it is held for %g s", held)
		}
		return err
	})
	answers := v.of(m.Name)
	v.more(quiet)
	if v.of(m.Name) == answers {
		c.t.Errorf("%s answers nothing while it is held", nameOf(m))
	}
	c.waits(m, capiv1.MachineDeletingWaitingForPreDrainHookReason)
	resume()
	c.replaced(m, 3)
	before()
}

// released: with Release a Machine goes after maxWait though a proxy hangs, which sends to it until it is back. What is lost until then is excused.
func released(c *cluster, v *visitor) {
	m, resume, before := c.stuck(v, clusterv1.OnMaxWaitRelease)
	c.gone(m)
	resume()
	c.settle(3)
	before()
	c.whole()
	v.excuse()
	v.more(quiet)
}

// left: once managers are gone for good, their command lets Machines go, and Cluster API deletes them.
func (c *cluster) left() {
	c.t.Helper()
	c.whole()
	c.hub.stopManager()
	leave := exec.CommandContext(c.t.Context(), c.hub.program, "manager", "leave", "--kubeconfig="+c.hub.Kubeconfig())
	out, err := leave.CombinedOutput()
	c.t.Logf("%s\n%s", leave, out)
	if err != nil {
		c.t.Fatal(err)
	}
	for _, m := range c.machines() {
		if member.HookedByAny(m.Annotations) {
			c.t.Errorf("%s has %v", nameOf(&m), m.Annotations)
		}
	}
	c.delete()
}

// gauge is a metric without labels, of whoever serves metrics there.
func gauge(ctx context.Context, at, name string) (float64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+at+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	for lines.Scan() {
		if value, found := strings.CutPrefix(lines.Text(), name+" "); found {
			return strconv.ParseFloat(value, 64)
		}
	}
	return 0, errors.Join(fmt.Errorf("%s has no %s", at, name), lines.Err())
}
