package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/config/rbac"
	"fairlead.dev/fairlead/internal/cli"
	"fairlead.dev/fairlead/internal/fleet"
	"fairlead.dev/fairlead/internal/testkit"
	"fairlead.dev/fairlead/internal/testkit/kubetest"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"
)

// soon bounds what should take a moment; it is never a claim.
const soon = time.Minute

// site is a real fleet, and the program as kubectl finds it.
type site struct {
	*fleet.Fleet
	plugin, completion string
	// mine is asked about; other is another tenant, with a Service that mine must not hear of.
	mine, other *fleet.Tenant
}

// secret is the name of the other tenant's Service.
const secret = "payroll"

// The commands on a real fleet: hub, manager, two tenants with their agents, two proxies.
func TestOnAFleet(t *testing.T) {
	s := startSite(t)
	for _, test := range []struct {
		name string
		run  func(*testing.T, *site)
	}{
		{"check finds no trouble", testCheckWell},
		{"explain finds all well", testExplainWell},
		{"a tenant hears of nobody else", testTenantsView},
		{"names are completed", testCompletion},
		{"check finds a right that lacks", testCheckRights},
		{"a node drains", testDrainNode},
		{"a target drains", testDrainTarget},
		{"a drain that leaves nobody is refused", testDrainRefused},
		{"an agent that stands still is named", testDrainWithoutAgent},
		{"a proxy that is silent is named", testSilentProxy},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, s) })
	}
}

func startSite(t *testing.T) *site {
	t.Helper()
	dir := t.TempDir()
	s := &site{plugin: filepath.Join(dir, "kubectl-fairlead"), completion: filepath.Join(dir, "kubectl_complete-fairlead")}
	root, err := testkit.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	self := filepath.Join(dir, "fairlead")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", self, "./cmd/fairlead")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building fairlead: %s\n%s", err, out)
	}
	for _, link := range []string{s.plugin, s.completion} {
		if err := os.Symlink("fairlead", link); err != nil {
			t.Fatal(err)
		}
	}
	s.Fleet, err = fleet.Start(t.Context(), fleet.Options{Self: self, Tenants: 2, Say: func(format string, args ...any) { fmt.Fprintf(t.Output(), format+"\n", args...) }})
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("logs are in %s", s.Dir)
		} else if err := s.Remove(); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	s.mine, s.other = s.Tenants[0], s.Tenants[1]
	web, err := s.Network.Example("web.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.mine.Apply(t.Context(), web...); err != nil {
		t.Fatal(err)
	}
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: secret},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Selector: map[string]string{"app": "web"},
			Ports: []corev1.ServicePort{{Name: "http", Port: 9443}}},
	}
	if err := s.other.API.Create(t.Context(), service); err != nil {
		t.Fatal(err)
	}
	s.address(t, s.mine, "web")
	s.address(t, s.other, secret)
	return s
}

// address waits until a Service has one.
func (s *site) address(t *testing.T, tenant *fleet.Tenant, name string) netip.Addr {
	t.Helper()
	var a netip.Addr
	kubetest.Eventually(t, soon, "the address of Service "+name, func(ctx context.Context) error {
		got := &corev1.Service{}
		if err := tenant.API.Get(ctx, types.NamespacedName{Namespace: "default", Name: name}, got); err != nil {
			return err
		}
		if len(got.Status.LoadBalancer.Ingress) == 0 {
			return errors.New("it has none")
		}
		var err error
		a, err = netip.ParseAddr(got.Status.LoadBalancer.Ingress[0].IP)
		return err
	})
	return a
}

// run runs the program, and returns what it printed and its exit code.
func (s *site) run(t *testing.T, args ...string) (string, int) {
	t.Helper()
	return finish(t, exec.CommandContext(t.Context(), s.plugin, args...))
}

func finish(t *testing.T, c *exec.Cmd) (string, int) {
	t.Helper()
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	err := c.Run()
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) {
		t.Fatal(err)
	}
	return out.String(), c.ProcessState.ExitCode()
}

// hub are the arguments of the hub's operator.
func (s *site) hub(args ...string) []string { return append(args, "--kubeconfig", s.Hub.Kubeconfig()) }

// cluster adds those that name my cluster.
func (s *site) cluster(args ...string) []string {
	return append(s.hub(args...), "--tenant", s.mine.Name(), "--tenant-kubeconfig", s.mine.Kubeconfig())
}

// eventually waits until the program ends with a code and says all of that.
func (s *site) eventually(t *testing.T, args []string, code int, says ...string) {
	t.Helper()
	kubetest.Eventually(t, soon, strings.Join(args, " "), func(context.Context) error {
		out, got := s.run(t, args...)
		missing := slices.DeleteFunc(slices.Clone(says), func(x string) bool { return strings.Contains(out, x) })
		if got != code || len(missing) > 0 {
			return fmt.Errorf("exit code %d, want %d; it doesn't say %q in\n%s", got, code, missing, out)
		}
		return nil
	})
}

// answer reads the program's JSON.
func answer[T any](t *testing.T, out string) T {
	t.Helper()
	var v T
	d := json.NewDecoder(strings.NewReader(out))
	d.DisallowUnknownFields()
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%v in\n%s", err, out)
	}
	return v
}

func testCheckWell(t *testing.T, s *site) {
	s.eventually(t, s.cluster("check"), 0, "No trouble; 1 warning", "Proxy edge-1: live", "Tenant "+s.other.Name()+": its agent is at work", "it is bound to this cluster", "no fault found with 3 targets")
	out, _ := s.run(t, s.cluster("check", "-o", "json")...)
	r := answer[cli.Report](t, out)
	lease := &coordinationv1.Lease{}
	if err := s.Hub.API.Get(t.Context(), types.NamespacedName{Namespace: v1alpha1.SystemNamespace, Name: "fairlead-manager"}, lease); err != nil || lease.Annotations[v1alpha1.AnnotationVersion] == "" {
		t.Errorf("the manager doesn't say its version: %v, %v", lease.Annotations, err)
	}
	areas := map[string]int{}
	for _, c := range r.Checks {
		areas[c.Area]++
		// The fleet's API servers run without priority and fairness.
		if c.State != cli.OK && !(c.State == cli.Warning && strings.HasPrefix(c.Object, "PriorityLevelConfiguration")) {
			t.Errorf("%+v", c)
		}
	}
	for _, area := range []string{"hub", "kinds", "roles", "versions", "manager", "proxies", "agents", "nodes", "tenant"} {
		if areas[area] == 0 {
			t.Errorf("nothing was looked at of %s", area)
		}
	}
	// A person who may do nothing is told so, and isn't told that all is well.
	nobody, err := s.Hub.UserKubeconfig("nobody")
	if err != nil {
		t.Fatal(err)
	}
	if out, code := s.run(t, "check", "--kubeconfig", nobody); code != 2 || !strings.Contains(out, "you may not list LoadBalancers") {
		t.Errorf("%d\n%s", code, out)
	}
	// The other tenant's cluster isn't the one that it is bound to.
	args := append(s.hub("check"), "--tenant", s.mine.Name(), "--tenant-kubeconfig", s.other.Kubeconfig())
	s.eventually(t, args, 1, "it is bound to cluster", "Give the kubeconfig of its own cluster", "Trouble: 1 of")
	// My cluster lacks what an agent with --management needs; the hub has all of it, and is none that may have one.
	s.eventually(t, s.cluster("check", "--management"), 1, "it isn't the hub", "Cluster, Machine: this cluster doesn", "ClusterRole fairlead-management-endpoints: it is missing", "clusterendpoints.cluster.x-k8s.io: it is missing", "config/rbac/management")
	args = append(s.hub("check"), "--management", "--tenant", s.mine.Name(), "--tenant-kubeconfig", s.Hub.Kubeconfig())
	s.eventually(t, args, 1, "it is the hub itself", "leads: it renewed its Lease", "Run its agent without --management.")
}

func testExplainWell(t *testing.T, s *site) {
	node, address := s.mine.Nodes()[0].Name, s.address(t, s.mine, "web").String()
	for _, ask := range []struct {
		args []string
		kind string
		says []string
	}{
		{s.cluster("explain", "service", "web"), "Service", []string{"Served."}},
		{s.cluster("explain", "node", node), "Node", []string{"addresses " + s.mine.Nodes()[0].Address.String(), "Service default/web", "It gets new connections."}},
		{s.hub("explain", "address", address), "Address", []string{"granted to " + s.mine.Name() + "/web-", "edge-2: live", "Served."}},
		{s.hub("explain", "proxy", "edge-1"), "Proxy", []string{"data plane builtin", "it follows this hub", "It serves what the hub says."}},
	} {
		s.eventually(t, ask.args, 0, ask.says...)
		for _, form := range []string{"json", "yaml"} {
			out, code := s.run(t, append(ask.args, "-o", form)...)
			b, err := yaml.YAMLToJSON([]byte(out))
			if err != nil {
				t.Fatal(err)
			}
			if e := answer[cli.Explanation](t, string(b)); e.Kind != ask.kind || !e.Served || len(e.Rungs) == 0 || code != 0 {
				t.Errorf("%v: %d %+v", ask.args, code, e)
			}
		}
	}
	for _, ask := range [][]string{
		s.cluster("explain", "node", "node-x"), s.hub("explain", "address", "203.0.113.9"), s.hub("explain", "proxy", "edge-9"),
	} {
		if out, code := s.run(t, ask...); code != 1 || !strings.Contains(out, "→ ") {
			t.Errorf("%v: %d\n%s", ask, code, out)
		}
	}
}

// A tenant asks with its own identity in the hub, of its own and of what another has.
func testTenantsView(t *testing.T, s *site) {
	own, err := s.Hub.ServiceAccountKubeconfig(t.Context(), s.mine.Name(), v1alpha1.AgentServiceAccount)
	if err != nil {
		t.Fatal(err)
	}
	theirs := s.address(t, s.other, secret).String()
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "wanting", Annotations: map[string]string{v1alpha1.AnnotationAddresses: theirs}},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Selector: map[string]string{"app": "web"},
			Ports: []corev1.ServicePort{{Name: "http", Port: 9443}}},
	}
	if err := s.mine.API.Create(t.Context(), service); err != nil {
		t.Fatal(err)
	}
	mine := func(args ...string) []string {
		return append(args, "--kubeconfig", own, "--hub-namespace", s.mine.Name())
	}
	s.eventually(t, mine("explain", "service", "wanting"), 1, "AddressInUse", "held by another tenant")
	s.eventually(t, mine("explain", "address", theirs), 1, "AddressInUse", "held by another tenant")
	for _, ask := range []struct {
		args []string
		code int
	}{
		{mine("explain", "service", "web"), 0},
		{mine("explain", "service", "wanting"), 1},
		{mine("explain", "service", secret), 1},
		{mine("explain", "node", s.mine.Nodes()[0].Name), 0},
		{mine("explain", "address", s.address(t, s.mine, "web").String()), 0},
		{mine("explain", "address", theirs), 1},
		{mine("drain", "node", s.mine.Nodes()[0].Name, "--dry-run"), 0},
		{[]string{"explain", "proxy", "edge-1", "--kubeconfig", own}, 2},
		{[]string{"explain", "address", theirs, "--kubeconfig", own}, 2},
		{[]string{"explain", "service", secret, "--hub-namespace", s.other.Name(), "--kubeconfig", own}, 2},
		{[]string{"status", "--kubeconfig", own}, 2},
		{[]string{"check", "--kubeconfig", own}, 2},
	} {
		for _, form := range []string{"", "json"} {
			args := ask.args
			if form != "" {
				args = append(args, "-o", form)
			}
			out, code := s.run(t, args...)
			if code != ask.code {
				t.Errorf("%v: exit code %d\n%s", args, code, out)
			}
			// What the tenant typed itself may come back.
			told := out
			for _, a := range args {
				if a == secret || a == s.other.Name() {
					told = strings.ReplaceAll(strings.ReplaceAll(told, secret, ""), s.other.Name(), "")
				}
			}
			if strings.Contains(told, secret) || strings.Contains(told, s.other.Name()) {
				t.Errorf("%v tells of another tenant:\n%s", args, out)
			}
		}
	}
	if err := s.mine.API.Delete(t.Context(), service); err != nil {
		t.Fatal(err)
	}
}

func testCompletion(t *testing.T, s *site) {
	node, address := s.mine.Nodes()[0].Name, s.address(t, s.mine, "web").String()
	for want, args := range map[string][]string{
		node:          {"explain", "node", "--tenant", s.mine.Name(), "--kubeconfig", s.Hub.Kubeconfig(), ""},
		address:       {"explain", "address", "--kubeconfig", s.Hub.Kubeconfig(), ""},
		"edge-1":      {"explain", "proxy", "--kubeconfig", s.Hub.Kubeconfig(), ""},
		"web":         {"explain", "service", "--tenant", s.mine.Name(), "--kubeconfig", s.Hub.Kubeconfig(), ""},
		"nodes-0":     {"drain", "target", "-n", s.mine.Name(), "--kubeconfig", s.Hub.Kubeconfig(), ""},
		s.mine.Name(): {"check", "--kubeconfig", s.Hub.Kubeconfig(), "--tenant", ""},
	} {
		out, code := finish(t, exec.CommandContext(t.Context(), s.completion, args...))
		if lines := strings.Split(out, "\n"); code != 0 || !slices.Contains(lines, want) || !slices.Contains(lines, ":4") {
			t.Errorf("%v: %d, %q is not among\n%s", args, code, want, out)
		}
	}
}

// A right is taken from the proxies, and check names it, with the way to give it back.
func testCheckRights(t *testing.T, s *site) {
	role := &rbacv1.ClusterRole{}
	if err := s.Hub.API.Get(t.Context(), types.NamespacedName{Name: "fairlead-proxy"}, role); err != nil {
		t.Fatal(err)
	}
	role.Rules = slices.DeleteFunc(role.Rules, func(r rbacv1.PolicyRule) bool { return slices.Contains(r.Resources, "namespaces") })
	if err := s.Hub.API.Update(t.Context(), role); err != nil {
		t.Fatal(err)
	}
	s.eventually(t, s.hub("check"), 1, "may not get namespaces kube-system", "→ kubectl apply -k config/rbac/hub", "ClusterRole fairlead-proxy: it is not as this version brings it")
	after := &rbacv1.ClusterRole{}
	if err := s.Hub.API.Get(t.Context(), types.NamespacedName{Name: "fairlead-proxy"}, after); err != nil {
		t.Fatal(err)
	}
	if after.ResourceVersion != role.ResourceVersion {
		t.Error("check has written a role")
	}
	if err := rbac.InstallHub(t.Context(), s.Hub.RESTConfig()); err != nil {
		t.Fatal(err)
	}
	s.eventually(t, s.hub("check"), 0, "No trouble; 1 warning")
}
