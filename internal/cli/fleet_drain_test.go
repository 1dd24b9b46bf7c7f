package cli_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/cli"
	"fairlead.dev/fairlead/internal/testkit"
	"fairlead.dev/fairlead/internal/testkit/kubetest"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// held is how many connections are held: enough that no node has none.
const held = 30

// hold opens connections to the Service web through the first proxy, and returns what closes them.
func (s *site) hold(t *testing.T, a netip.Addr) (let func()) {
	t.Helper()
	way := s.Proxies[0].Way(a, 8080)
	var open []net.Conn
	let = func() {
		for _, c := range open {
			_ = c.Close() // or again
		}
	}
	t.Cleanup(let)
	kubetest.Eventually(t, soon, "connections that are answered", func(ctx context.Context) error {
		for len(open) < held {
			c, err := (&net.Dialer{}).DialContext(ctx, "tcp", way.Address.String())
			if err != nil {
				return err
			}
			if err := answered(c); err != nil {
				return errors.Join(err, c.Close())
			}
			open = append(open, c)
		}
		return nil
	})
	return let
}

// answered asks a Pod to hold the connection, and returns once it says that it does.
func answered(c net.Conn) error {
	if err := c.SetReadDeadline(time.Now().Add(soon / 6)); err != nil {
		return err
	}
	if _, err := fmt.Fprint(c, "GET /hold HTTP/1.1\r\nHost: web\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n"); err != nil {
		return err
	}
	r := bufio.NewScanner(c)
	for r.Scan() {
		var said testkit.Answer
		if json.Unmarshal(r.Bytes(), &said) == nil && said.Pod != "" {
			return nil
		}
	}
	return errors.Join(errors.New("nobody answered"), r.Err())
}

// A Node drains while connections to it are open: a dry run changes nothing, the drain waits for them, ends with them, and is undone.
func testDrainNode(t *testing.T, s *site) {
	web := s.address(t, s.mine, "web")
	node := s.mine.Nodes()[1].Name
	marked := func() bool {
		n := &corev1.Node{}
		if err := s.mine.API.Get(t.Context(), types.NamespacedName{Name: node}, n); err != nil {
			t.Fatal(err)
		}
		_, marked := n.Annotations[clusterv1.DisabledAnnotation]
		return marked
	}
	out, code := s.run(t, s.cluster("drain", "node", node, "--dry-run", "-o", "json")...)
	d := answer[cli.Drain](t, out)
	i := slices.IndexFunc(d.LoadBalancers, func(l cli.DrainLine) bool { return l.Origin == "default/web" })
	if code != 0 || d.State != cli.DrainPlanned || i < 0 {
		t.Fatalf("%d\n%s", code, out)
	}
	if l := d.LoadBalancers[i]; l.Before != 3 || l.After != 2 || l.MovesPercent != 33 || l.OpenFor != "5m0s" {
		t.Errorf("%+v", l)
	}
	if marked() {
		t.Fatal("a dry run has changed the Node")
	}
	let := s.hold(t, web)
	// Too short a time, while connections are open: it is said, and the drain goes on.
	if out, code := s.run(t, s.cluster("drain", "node", node, "--timeout", "5s")...); code != 1 || !marked() || !strings.Contains(out, "… Not drained yet") {
		t.Fatalf("%d\n%s", code, out)
	}
	s.eventually(t, s.cluster("explain", "node", node), 1, "… edge-1 has ", " open connection", "edge-2 has let go of it", "--undo", "waiting at drain")
	c := exec.CommandContext(t.Context(), s.plugin, s.cluster("drain", "node", node)...)
	c.Stderr = os.Stderr
	pipe, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	said := ""
	for r := bufio.NewScanner(pipe); r.Scan(); said += r.Text() + "\n" {
		if strings.Contains(r.Text(), "Waiting for proxies: edge-1 has open connections") {
			let()
		}
	}
	if err := c.Wait(); err != nil || !strings.Contains(said, " open connection") || !strings.Contains(said, "✓ Drained: every proxy has let go.") {
		t.Fatalf("%v\n%s", err, said)
	}
	if out, code := s.run(t, s.cluster("drain", "node", node, "--undo")...); code != 0 || !strings.Contains(out, "Told to take connections again") || marked() {
		t.Errorf("%d\n%s", code, out)
	}
	s.eventually(t, s.cluster("explain", "node", node), 0, "It gets new connections.")
}

// databases is a person's group and its LoadBalancer, of targets where my nodes are.
func (s *site) databases(names ...string) (group, balancer *unstructured.Unstructured) {
	targets := []any{}
	for i, n := range s.mine.Nodes() {
		if name := fmt.Sprintf("db-%d", i+1); slices.Contains(names, name) {
			targets = append(targets, map[string]any{"name": name, "uid": name, "addresses": []any{n.Address.String()}})
		}
	}
	group = &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1alpha1.GroupVersion.String(), "kind": "TargetGroup",
		"metadata": map[string]any{"namespace": s.mine.Name(), "name": "databases", "labels": map[string]any{"app": "db"}},
		"spec":     map[string]any{"targets": targets},
	}}
	balancer = &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": clusterv1.GroupVersion.String(), "kind": "LoadBalancer",
		"metadata": map[string]any{"namespace": s.mine.Name(), "name": "db"},
		"spec": map[string]any{
			"selector": map[string]any{"matchLabels": map[string]any{"app": "db"}},
			"ports":    []any{map[string]any{"port": int64(5432), "targetPort": int64(10256)}},
		},
	}}
	return group, balancer
}

// A target of a person's group drains, is applied again as it was, and can be taken out by whoever applies the group.
func testDrainTarget(t *testing.T, s *site) {
	group, balancer := s.databases("db-1", "db-2", "db-3")
	if err := s.Hub.Apply(t.Context(), group, balancer); err != nil {
		t.Fatal(err)
	}
	in := []string{"-n", s.mine.Name()}
	s.eventually(t, append(s.hub("explain", "loadbalancer", "db"), in...), 0, "3 of 3 get connections")
	if out, code := s.run(t, append(s.hub("drain", "target", "databases", "db-2", "--dry-run"), in...)...); code != 0 || !strings.Contains(out, "33%") {
		t.Errorf("%d\n%s", code, out)
	}
	if out, code := s.run(t, append(s.hub("drain", "target", "databases", "db-2"), in...)...); code != 0 || !strings.Contains(out, "✓ Drained") {
		t.Fatalf("%d\n%s", code, out)
	}
	s.eventually(t, append(s.hub("explain", "loadbalancer", "db"), in...), 0, "2 of 3 get connections", "edge-1 has let go of it; edge-2 has let go of it")
	state := func() (v1alpha1.TargetState, bool) {
		g := &v1alpha1.TargetGroup{}
		if err := s.Hub.API.Get(t.Context(), types.NamespacedName{Namespace: s.mine.Name(), Name: "databases"}, g); err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(g.Spec.Targets, func(x v1alpha1.Target) bool { return x.Name == "db-2" })
		if i < 0 {
			return "", false
		}
		return g.Spec.Targets[i].State, true
	}
	group, _ = s.databases("db-1", "db-2", "db-3")
	if err := s.Hub.Apply(t.Context(), group); err != nil {
		t.Fatal(err)
	}
	if got, _ := state(); got != v1alpha1.TargetDraining {
		t.Errorf("an apply of what was there before ended the drain: %s", got)
	}
	if out, code := s.run(t, append(s.hub("drain", "target", "databases", "db-2", "--undo"), in...)...); code != 0 {
		t.Errorf("%d\n%s", code, out)
	}
	if got, _ := state(); got != v1alpha1.TargetServing {
		t.Errorf("undone, it is %s", got)
	}
	if out, code := s.run(t, append(s.hub("drain", "target", "databases", "db-2", "--wait=false"), in...)...); code != 0 {
		t.Errorf("%d\n%s", code, out)
	}
	group, _ = s.databases("db-1", "db-3")
	if err := s.Hub.Apply(t.Context(), group); err != nil {
		t.Errorf("a drained target can't be taken out by who applies the group: %v", err)
	}
	if _, there := state(); there {
		t.Error("a drained target stays though it is no longer applied")
	}
}

// What leaves a LoadBalancer with nobody is refused, and changes nothing; with --force it is done.
func testDrainRefused(t *testing.T, s *site) {
	in := []string{"-n", s.mine.Name()}
	drained := func() bool {
		g := &v1alpha1.TargetGroup{}
		if err := s.Hub.API.Get(t.Context(), types.NamespacedName{Namespace: s.mine.Name(), Name: "databases"}, g); err != nil {
			t.Fatal(err)
		}
		return !slices.ContainsFunc(g.Spec.Targets, func(x v1alpha1.Target) bool { return x.State != v1alpha1.TargetDraining })
	}
	for _, dry := range [][]string{nil, {"--dry-run"}} {
		args := append(append(s.hub("drain", "target", "databases"), in...), dry...)
		if out, code := s.run(t, args...); code != 1 || !strings.Contains(out, "✗ Refused: no member would be left that gets new connections of LoadBalancer "+s.mine.Name()+"/db") || drained() {
			t.Errorf("%v: %d\n%s", args, code, out)
		}
	}
	if out, code := s.run(t, append(s.hub("drain", "target", "databases", "--force"), in...)...); code != 0 || !drained() {
		t.Errorf("%d\n%s", code, out)
	}
	if out, code := s.run(t, append(s.hub("drain", "target", "databases", "--undo"), in...)...); code != 0 || drained() {
		t.Errorf("%d\n%s", code, out)
	}
	for says, args := range map[string][]string{
		"use fairlead drain node " + s.mine.Nodes()[0].Name:       {"drain", "target", "nodes-0", s.mine.Nodes()[0].Name},
		"the group has no such target in spec.targets":            {"drain", "target", "databases", "db-9"},
		"namespace " + s.mine.Name() + " has no TargetGroup none": {"drain", "target", "none"},
	} {
		if out, code := s.run(t, append(s.hub(args...), in...)...); code != 2 || !strings.Contains(out, says) {
			t.Errorf("%v: %d, it doesn't say %q:\n%s", args, code, says, out)
		}
	}
}

// The agent is stopped: a drain says what it waits for, and whom to see to; started again, it goes on.
func testDrainWithoutAgent(t *testing.T, s *site) {
	if err := s.mine.Agent.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	node := s.mine.Nodes()[2].Name
	if out, code := s.run(t, s.cluster("drain", "node", node, "--timeout", "5s")...); code != 1 || !strings.Contains(out, "the agent has yet to write to the hub that it drains") || !strings.Contains(out, "→ See to the tenant's agent") {
		t.Errorf("%d\n%s", code, out)
	}
	if out, code := s.run(t, s.cluster("explain", "node", node)...); code != 1 || !strings.Contains(out, "the agent has yet to write that it is Draining") {
		t.Errorf("%d\n%s", code, out)
	}
	if err := s.mine.Agent.Start(); err != nil {
		t.Fatal(err)
	}
	if out, code := s.run(t, s.cluster("drain", "node", node)...); code != 0 || !strings.Contains(out, "✓ Drained") {
		t.Errorf("%d\n%s", code, out)
	}
	if out, code := s.run(t, s.cluster("drain", "node", node, "--undo")...); code != 0 {
		t.Errorf("%d\n%s", code, out)
	}
}

// A proxy stands still: check and explain name it, and what to do.
func testSilentProxy(t *testing.T, s *site) {
	if err := s.Proxies[1].Process.Pause(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Proxies[1].Process.Resume(); err != nil {
			t.Error(err)
		}
	})
	s.eventually(t, s.hub("check"), 1, "Proxy edge-2: silent", "set spec.fenced", "Trouble: 1 of")
	s.eventually(t, s.hub("explain", "proxy", "edge-2"), 1, "silent: it renewed its Lease", "broken at process")
	s.eventually(t, s.hub("explain", "address", s.address(t, s.mine, "web").String()), 0, "edge-2: silent", "on one proxy")
}
