package capi_test

import (
	"context"
	"flag"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
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
)

// world is a control plane behind a load balancer of ours.
type world struct {
	number int // from 1
	plane  dataPlane
	// held says that its Machines are held until the proxy has stopped. Else a member is removed when its Machine is gone.
	held bool
}

func (w world) String() string {
	hooks := "hooks"
	if !w.held {
		hooks = "none"
	}
	return w.plane.name + "/" + hooks
}

// worlds are those that stories are told of.
func worlds() []world {
	told := []world{{1, dataPlanes[0], true}, {2, dataPlanes[1], true}, {3, dataPlanes[0], false}}
	if *all {
		told = append(told, world{4, dataPlanes[1], false})
	}
	return told
}

// start brings up a control plane of three members.
func (w world) start(h *hub) *cluster {
	h.t.Helper()
	namespace := strings.ReplaceAll(w.String(), "/", "-")
	machines := netip.MustParsePrefix(fmt.Sprintf("127.77.%d.0/24", w.number))
	var c *cluster
	if w.held {
		h.operators(namespace, fmt.Sprintf("127.79.%d.0/24", w.number), w.plane)
		c = h.startCluster(machines, overHeldMembers(namespace), true, nil)
	} else {
		h.tenant(namespace, machines, w.plane)
		c = h.startCluster(machines, overWrittenMembers(namespace, w.plane), false, func(ctx context.Context, all []capiv1.Machine) error {
			return h.writeMembers(ctx, namespace, all)
		})
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
}

const each = "each"

// of says that the story is told of a world.
func (s story) of(w world) bool { return *all || s.in == each || s.in == w.String() }

// stories are those that disturb one control plane: they are told of several at once. In the first, something is lost without hooks.
var stories = []story{
	{"rolled out to another version", each, rolledOut},
	{"scaled from 3 to 1 to 3", "builtin/hooks", func(c *cluster, _ *visitor) { c.scale(1); c.scale(3) }},
	{"a Machine is deleted", "", func(c *cluster, v *visitor) { c.replaced(c.leaves(v), 3) }},
	{"a member crashes, and is remediated", "nftables/hooks", remediated},
	{"a member hangs, and is restarted", "nftables/hooks", restarted},
}

// hubStories disturb the hub.
var hubStories = []story{
	{"a Machine is deleted, and the manager killed meanwhile", "builtin/hooks", managerKilled},
	{"a Machine is deleted, and the hub's API server restarted meanwhile", "nftables/hooks", hubRestarted},
}

// What becomes of a control plane of Cluster API's own costs its clients nothing, where its Machines are held.
func TestStories(t *testing.T) {
	h := newHub(t)
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
		for i, w := range told {
			t.Run(w.String(), func(t *testing.T) {
				t.Parallel()
				clusters[i] = w.start(h.in(t))
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
		for i, w := range told[1:] {
			t.Run(w.String(), func(t *testing.T) {
				t.Parallel()
				c := clusters[i+1].in(t)
				if w.held {
					c.delete()
					c.holds(0)
				}
				c.deleteLoadBalancer()
			})
		}
	})
	// Its proxy serves nothing else now, so all that it serves moves with it.
	t.Run("moved to another hub", func(t *testing.T) { clusters[0].in(t).moved(told[0]) })
	t.Logf("lost, while a control plane\n%s", table)
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
	case c.held && v.unexcused() > 0:
		c.t.Errorf("%d requests were lost", v.unexcused())
	case !c.held && s.name == stories[0].name && l.failed == 0:
		c.t.Error("no request was lost without hooks: then nothing is proved by a control plane that loses none with them")
	}
	return l
}

// whole waits until a control plane has three members, and traffic goes to each, and nowhere else.
func (c *cluster) whole() {
	c.t.Helper()
	c.settle(3)
	if c.held {
		c.holds(3)
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
	if c.held {
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
	if c.held {
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

func restarted(c *cluster, v *visitor) {
	m := v.watchedMember()
	c.front(m).hang()
	c.noticed(v, m)
	c.cloud.start(m)
}

// table is of what was lost, by story and world.
type table struct{ lines chan string }

func newTable() *table { return &table{make(chan string, 100)} }

func (t *table) add(w world, s story, l lost) {
	t.lines <- fmt.Sprintf("%s\t%s\t%d\t%d\t%s\n", s.name, w, l.sent, l.failed, l.longest.Round(time.Millisecond))
}

// String is the table, once nobody adds to it any more.
func (t *table) String() string {
	close(t.lines)
	lines := []string{}
	for l := range t.lines {
		lines = append(lines, l)
	}
	slices.Sort(lines)
	b := &strings.Builder{}
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "is\tdata plane/hooks\trequests\tfailed\tlongest without an answer\n")
	for _, l := range lines {
		fmt.Fprint(w, l)
	}
	_ = w.Flush() // a Builder takes all
	return b.String()
}
