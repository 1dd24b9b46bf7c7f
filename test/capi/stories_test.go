package capi_test

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/internal/member"
	"fairlead.dev/fairlead/internal/testkit/kubetest"
	capiv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

var all = flag.Bool("all", false, "tell all stories of all control planes")

const (
	// quiet is how many requests are made before a story begins: all must be answered, or what is judged is this machine.
	quiet = 50
	// atOnce is what a member that dies without a warning may cost: as much as is sent in that time. Only stories that are all told, for their
	// figures, are held to it: beside much else it takes longer, and no more than thrice that.
	atOnce = 2 * time.Second
	// promptly is how soon after its load balancer is served a control plane's endpoint is published, where all stories are told.
	promptly = time.Second
)

// world is a control plane behind a load balancer of ours.
type world struct {
	number int // from 1
	plane  dataPlane
	members
}

// members is how a control plane's Machines are members of its load balancer.
type members int

const (
	// held until whoever serves has stopped.
	held members = iota
	// drained when they are deleted, while nobody waits for it.
	drained
	// written by the test: one is taken out when it is gone.
	written
)

func (w world) String() string {
	if w.members == held {
		return w.plane.name + "/hooks"
	}
	return w.plane.name + "/none"
}

// worlds are those that stories are told of.
func worlds() []world {
	told := []world{{1, dataPlanes[0], held}, {2, dataPlanes[1], held}, {3, dataPlanes[0], written}, {4, foo, held}, {5, foo, drained}, {6, service, held}, {7, service, written}}
	if *all {
		told = append(told, world{8, dataPlanes[1], written})
	}
	return told
}

// start has a world's control plane be there, with three members.
func (w world) start(h *hub) *cluster {
	h.t.Helper()
	namespace := strings.ReplaceAll(w.String(), "/", "-")
	machines := netip.MustParsePrefix(fmt.Sprintf(cmp.Or(w.plane.machines, "127.77.%d.0/24"), w.number))
	var c *cluster
	if w.members == written {
		h.tenant(namespace, machines, w.plane)
		c = h.startCluster(machines, overWrittenMembers(namespace, w.plane), w.members, func(ctx context.Context, all []capiv1.Machine) error {
			return h.writeMembers(ctx, namespace, all)
		})
	} else {
		h.operators(namespace, fmt.Sprintf("127.79.%d.0/24", w.number), w.plane)
		l := overHeldMembers(namespace)
		l.Spec.DrainTimeout.Duration = cmp.Or(w.plane.leaves, l.Spec.DrainTimeout.Duration)
		if w.members == drained {
			l.Spec.MachineHooks = &clusterv1.MachineHooks{Type: clusterv1.HookNone}
		}
		c = h.startCluster(machines, l, w.members, nil)
	}
	c.scale(3)
	return c
}

// story is what happens to a control plane of three members, which has three in the end.
type story struct {
	name string
	// in is the world that it is told of, or each, unless all are told. "" leaves it out.
	in   string
	tell func(*cluster, *visitor)
	// only are the worlds that it can be told of; nil: any.
	only func(world) bool
	// dies says that a member does, without a warning.
	dies bool
}

const each = "each"

// of says that the story is told of a world.
func (s story) of(w world) bool {
	if s.only != nil && !s.only(w) {
		return false
	}
	return *all || s.in == each || s.in == w.String()
}

// asks says that whoever serves a world asks its members whether they can, and not only whether they take connections.
func asks(w world) bool { return w.plane.serve == nil }

// notices says that whoever serves a world asks its members at all.
func notices(w world) bool { return w.plane.name != service.name }

func one(name string) func(world) bool { return func(w world) bool { return w.String() == name } }

// stories are those that disturb one control plane: they are told of several at once. In the first, something is lost without hooks.
var stories = []story{
	{name: "rolled out to another version", in: each, tell: rolledOut},
	{name: "scaled from 3 to 1 to 3", in: "builtin/hooks", tell: func(c *cluster, _ *visitor) { c.scale(1); c.scale(3) }},
	{name: "a Machine is deleted", tell: func(c *cluster, v *visitor) { c.replaced(c.leaves(v), 3) }},
	{name: "a Machine is deleted, and held before its infrastructure goes", tell: heldLater, only: one("builtin/hooks")},
	{name: "a well Machine is remediated", in: "builtin/hooks", tell: remediatedWell},
	{name: "a member crashes, and is remediated", in: "nftables/hooks", tell: remediated, only: notices, dies: true},
	{name: "a member hangs, and is restarted", in: "nftables/hooks", tell: restarted, only: asks, dies: true},
}

// hubStories disturb the hub.
var hubStories = []story{
	{name: "a Machine is deleted, and the manager killed meanwhile", in: "builtin/hooks", tell: managerKilled},
	{name: "a Machine is deleted, and the hub's API server restarted meanwhile", in: "nftables/hooks", tell: hubRestarted},
	{name: "a Machine is deleted while the proxy hangs, which it waits for", tell: blocked, only: one("nftables/hooks")},
	{name: "a Machine is deleted while the proxy hangs, and goes after maxWait", tell: released, only: one("nftables/hooks")},
}

// What becomes of a control plane of Cluster API's own costs its clients nothing, where its Machines are held.
func TestStories(t *testing.T) {
	h := newHub(t)
	startFooCloud(t)
	h.startFooProvider()
	h.startKubeProxy()
	told := worlds()
	clusters := make([]*cluster, len(told))
	table := newTable()
	tell := func(t *testing.T, w world, c *cluster, s story) {
		if s.of(w) {
			t.Run(s.name, func(t *testing.T) { table.add(w, s, c.in(t).told(s)) })
		}
	}
	t.Run("side by side", func(t *testing.T) {
		t.Run("an external control plane", func(t *testing.T) {
			t.Parallel()
			externalControlPlane(h.in(t))
		})
		t.Run("control planes that a provider's cloud runs", func(t *testing.T) {
			t.Parallel()
			managedControlPlanes(h.in(t))
		})
		t.Run("Nodes of the hub", func(t *testing.T) {
			t.Parallel()
			nodes(h.in(t))
		})
		for i, w := range told {
			t.Run(w.String(), func(t *testing.T) {
				t.Parallel()
				clusters[i] = w.start(h.in(t))
				table.endpoint(w, clusters[i])
				for _, s := range stories {
					tell(t, w, clusters[i], s)
				}
			})
		}
	})
	if t.Failed() {
		t.FailNow() // what would follow needs all that is there now
	}
	for i, w := range told {
		t.Run(w.String(), func(t *testing.T) {
			for _, s := range hubStories {
				tell(t, w, clusters[i], s)
			}
		})
	}
	t.Run("deleted", func(t *testing.T) {
		for i, w := range told[2:] {
			t.Run(w.String(), func(t *testing.T) {
				t.Parallel()
				c := clusters[i+2].in(t)
				if w.members != written {
					c.delete()
					c.has(0)
				}
				c.deleteLoadBalancer()
			})
		}
	})
	// Its proxy serves nothing else now, so all that it serves moves with it.
	t.Run("moved to another hub", func(t *testing.T) { clusters[0].in(t).moved(told[0]) })
	t.Run("left by managers", func(t *testing.T) { clusters[1].in(t).left() })
	t.Logf("what becomes of a control plane\n%s", table)
}

// bound is what a figure is held to.
func bound(figure time.Duration) time.Duration {
	if *all {
		return figure
	}
	return 3 * figure
}

// told tells a story of a control plane while it is visited, and judges what was lost.
func (c *cluster) told(s story) lost {
	c.t.Helper()
	c.whole()
	v := c.visited()
	v.more(quiet)
	if v.failed() > 0 {
		c.t.Fatalf("requests fail before anything is changed: %s", v)
	}
	s.tell(c, v)
	c.whole()
	before := map[string]int{}
	for _, m := range c.machines() {
		before[m.Name] = v.of(m.Name)
	}
	kubetest.Eventually(c.t, soon, "each Machine to answer", func(context.Context) error {
		for name, answers := range before {
			if v.of(name) == answers {
				return fmt.Errorf("%s answers nothing", name)
			}
		}
		return nil
	})
	v.leave()
	l := v.lost()
	c.t.Logf("%s: %s", c.namespace, v)
	switch {
	case c.members == held && v.unexcused() > 0:
		c.t.Errorf("%d requests were lost", v.unexcused())
	case c.members == held && s.dies && l.worth() > bound(atOnce):
		c.t.Errorf("the requests of %s were lost", l.worth())
	case c.members != held && s.name == stories[0].name && l.failed == 0:
		c.t.Error("no request was lost without hooks: then nothing is proved by a control plane that loses none with them")
	}
	return l
}

// whole waits until a control plane has three members, and traffic goes to each, and nowhere else.
func (c *cluster) whole() {
	c.t.Helper()
	c.settle(3)
	if c.members != written {
		c.has(3)
	}
}

func rolledOut(c *cluster, _ *visitor) {
	old := c.machines()
	c.rollOut(next, 3)
	for _, m := range c.machines() {
		if slices.ContainsFunc(old, func(o capiv1.Machine) bool { return o.UID == m.UID }) {
			c.t.Errorf("Machine %s has not been replaced", m.Name)
		}
	}
}

// leaves deletes a Machine that a client's watch is held with. Where Machines are held it returns while the watch holds that one up.
func (c *cluster) leaves(v *visitor) *capiv1.Machine {
	c.t.Helper()
	m := c.machine(v.watchedMember())
	if err := c.hub.api.Delete(c.t.Context(), m); err != nil {
		c.t.Fatal(err)
	}
	if c.members == held {
		kubetest.Eventually(c.t, soon, nameOf(m)+" to be drained", func(ctx context.Context) error { return c.drained(ctx, m.Name) })
	}
	return m
}

func managerKilled(c *cluster, v *visitor) {
	m := c.leaves(v)
	if err := c.hub.manager.Kill(); err != nil {
		c.t.Fatal(err)
	}
	c.replaced(m, 3)
}

func hubRestarted(c *cluster, v *visitor) {
	m := c.leaves(v)
	if err := c.hub.StopAPIServer(c.t.Context()); err != nil {
		c.t.Fatal(err)
	}
	v.more(3 * quiet / 2)
	if err := c.hub.StartAPIServer(c.t.Context()); err != nil {
		c.t.Fatal(err)
	}
	c.replaced(m, 3)
}

// noticed waits until it is known that a member has died without a warning. What was begun before may be lost, and nothing after a moment more.
func (c *cluster) noticed(v *visitor, machine string) {
	c.t.Helper()
	if c.members != written {
		wait(c.t, c.hub.api, c.loadBalancer, soon, machine+" to be unhealthy", func(l *clusterv1.LoadBalancer) error {
			for _, t := range l.Status.Targets {
				if t.Name == machine && t.State == string(member.Unhealthy) {
					return nil
				}
			}
			return fmt.Errorf("its targets are %+v", l.Status.Targets)
		})
	}
	v.more(quiet)
	v.excuse()
	v.more(2 * quiet)
}

func remediated(c *cluster, v *visitor) {
	check := c.healthCheck()
	c.hub.create(check)
	m := c.machine(v.watchedMember())
	c.front(m.Name).crash()
	c.noticed(v, m.Name)
	c.patch(m, `{"metadata":{"annotations":{"`+capiv1.RemediateMachineAnnotation+`":""}}}`)
	c.replaced(m, 3)
	if err := c.hub.api.Delete(c.t.Context(), check); err != nil {
		c.t.Fatal(err)
	}
}

// remediatedWell has somebody ask for the remediation of a Machine whose API server is well. Where Machines are held it waits for the watch that
// is held with it, as any other does.
func remediatedWell(c *cluster, v *visitor) {
	check := c.healthCheck()
	c.hub.create(check)
	m := c.machine(v.watchedMember())
	c.patch(m, `{"metadata":{"annotations":{"`+capiv1.RemediateMachineAnnotation+`":""}}}`)
	if c.members == held {
		kubetest.Eventually(c.t, soon, nameOf(m)+" to be drained", func(ctx context.Context) error { return c.drained(ctx, m.Name) })
		if has := c.machine(m.Name); !member.Hooked(has.Annotations, c.loadBalancer.Name) {
			c.t.Errorf("Machine %s isn't held: %v, %v", m.Name, has.Annotations, whatIsWrong(has.Status.Conditions))
		}
	}
	c.replaced(m, 3)
	if err := c.hub.api.Delete(c.t.Context(), check); err != nil {
		c.t.Fatal(err)
	}
}

func restarted(c *cluster, v *visitor) {
	m := v.watchedMember()
	c.front(m).hang()
	c.noticed(v, m)
	c.cloud.start(m)
}
