package testkit_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	apps "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.dev/fairlead/internal/testkit"
	"fairlead.dev/fairlead/internal/testkit/kubetest"
)

func quantity(s string) resource.Quantity { return resource.MustParse(s) }

func contains(err error, text string) bool { return strings.Contains(err.Error(), text) }

func deployment(name string, replicas int32) *apps.Deployment {
	labels := map[string]string{"app": name}
	d := &apps.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	d.Spec.Replicas = &replicas
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	d.Spec.Template.Labels = labels
	d.Spec.Template.Spec.Containers = []v1.Container{{Name: "echo", Image: "echo", Ports: []v1.ContainerPort{{ContainerPort: 8080}}}}
	return d
}

func service(name, app string, policy v1.ServiceExternalTrafficPolicy) *v1.Service {
	s := &v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	s.Spec.Type = v1.ServiceTypeLoadBalancer
	s.Spec.Selector = map[string]string{"app": app}
	s.Spec.Ports = []v1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromInt32(8080)}}
	s.Spec.ExternalTrafficPolicy = policy
	return s
}

// ask sends one request on a connection of its own.
func ask(ctx context.Context, at netip.AddrPort) (testkit.Answer, error) {
	var a testkit.Answer
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+at.String()+"/x", nil)
	if err != nil {
		return a, err
	}
	req.Close = true
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return a, err
	}
	defer res.Body.Close()
	return a, json.NewDecoder(res.Body).Decode(&a)
}

// spread asks at an address until want Pods have answered, and returns their nodes.
func spread(t *testing.T, at netip.AddrPort, want int) map[string]string {
	t.Helper()
	nodes := map[string]string{}
	kubetest.Eventually(t, 30*time.Second, fmt.Sprintf("%d pods at %s", want, at), func(ctx context.Context) error {
		a, err := ask(ctx, at)
		if err != nil {
			return err
		}
		if len(nodes) < want {
			nodes[a.Pod] = a.Node
		}
		if len(nodes) < want {
			return fmt.Errorf("%d so far", len(nodes))
		}
		return nil
	})
	return nodes
}

func refused(t *testing.T, at netip.AddrPort) {
	t.Helper()
	kubetest.Eventually(t, 10*time.Second, at.String()+" to refuse", func(ctx context.Context) error {
		a, err := ask(ctx, at)
		if err == nil {
			return fmt.Errorf("%s answered", a.Pod)
		}
		if !errors.Is(err, syscall.ECONNREFUSED) {
			return err
		}
		return nil
	})
}

func TestHollowNodes(t *testing.T) {
	t.Parallel()
	c := kubetest.Start(t, testkit.Options{Name: "hollow"})
	kubetest.StartNodes(t, c, "node-1", "node-2", "node-3")
	admin := newClient(t, c.Kubeconfig())
	create := func(objs ...client.Object) {
		for _, o := range objs {
			if err := admin.Create(t.Context(), o); err != nil {
				t.Fatal(err)
			}
		}
	}
	cluster := service("cluster", "web", v1.ServiceExternalTrafficPolicyCluster)
	local := service("local", "one", v1.ServiceExternalTrafficPolicyLocal)
	create(deployment("web", 6), deployment("one", 1), cluster, local)
	nodes := c.Nodes()
	at := func(n testkit.NodeSpec, port int32) netip.AddrPort {
		return netip.AddrPortFrom(n.Address, uint16(port))
	}
	port := cluster.Spec.Ports[0].NodePort

	t.Run("each node port answers and spreads over all pods", func(t *testing.T) {
		for _, n := range nodes {
			on := map[string]bool{}
			for _, node := range spread(t, at(n, port), 6) {
				on[node] = true
			}
			if len(on) != 3 {
				t.Errorf("pods on %d nodes", len(on))
			}
		}
	})

	t.Run("the pod sees who asks and what for", func(t *testing.T) {
		a, err := ask(t.Context(), at(nodes[0], port))
		if err != nil {
			t.Fatal(err)
		}
		clientAt, err := netip.ParseAddrPort(a.Client)
		if err != nil || clientAt.Addr().String() != "127.0.0.1" {
			t.Errorf("client %q", a.Client)
		}
		ip, err := netip.ParseAddr(a.PodIP)
		if err != nil || ip.IsLoopback() {
			t.Errorf("pod address %q", a.PodIP)
		}
		if a.Cluster != "hollow" || a.Namespace != "default" || a.Port != 8080 || a.Path != "/x" {
			t.Errorf("%+v", a)
		}
	})

	t.Run("policy Local stays on its node and says so", func(t *testing.T) {
		pods := &v1.PodList{}
		kubetest.Eventually(t, 30*time.Second, "the pod", func(ctx context.Context) error {
			if err := admin.List(ctx, pods, client.MatchingLabels{"app": "one"}); err != nil {
				return err
			}
			if len(pods.Items) != 1 || pods.Items[0].Status.Phase != v1.PodRunning {
				return errors.New("not running")
			}
			return nil
		})
		for _, n := range nodes {
			health := "http://" + at(n, local.Spec.HealthCheckNodePort).String()
			if n.Name == pods.Items[0].Spec.NodeName {
				spread(t, at(n, local.Spec.Ports[0].NodePort), 1)
				status(t, health, http.StatusOK)
			} else {
				refused(t, at(n, local.Spec.Ports[0].NodePort))
				status(t, health, http.StatusServiceUnavailable)
			}
		}
	})

	t.Run("a dead node refuses, keeps open connections and returns", func(t *testing.T) {
		dead := nodes[1]
		held, lines := hold(t, at(dead, port))
		if err := c.KillNode(t.Context(), dead.Name); err != nil {
			t.Fatal(err)
		}
		refused(t, at(dead, port))
		refused(t, at(dead, 10256))
		refused(t, at(dead, local.Spec.HealthCheckNodePort))
		if _, err := io.WriteString(held, "still here\n"); err != nil {
			t.Fatal(err)
		}
		if line, err := lines.ReadString('\n'); err != nil || line != "still here\n" {
			t.Errorf("held connection: %q, %v", line, err)
		}
		spread(t, at(nodes[0], port), 6)
		if err := c.ReviveNode(t.Context(), dead.Name); err != nil {
			t.Fatal(err)
		}
		spread(t, at(dead, port), 6)
		status(t, "http://"+at(dead, 10256).String()+"/healthz", http.StatusOK)
	})

	t.Run("the autoscaler's taint makes healthz fail", func(t *testing.T) {
		node := &v1.Node{}
		if err := admin.Get(t.Context(), client.ObjectKey{Name: "node-3"}, node); err != nil {
			t.Fatal(err)
		}
		base := node.DeepCopy()
		node.Spec.Taints = append(node.Spec.Taints, v1.Taint{Key: "ToBeDeletedByClusterAutoscaler", Effect: v1.TaintEffectNoSchedule})
		if err := admin.Patch(t.Context(), node, client.MergeFrom(base)); err != nil {
			t.Fatal(err)
		}
		status(t, "http://"+at(nodes[2], 10256).String()+"/healthz", http.StatusServiceUnavailable)
	})

	t.Run("scaling down fails no request, scaling to none closes the ports", func(t *testing.T) {
		scale(t, admin, "web", 1)
		kubetest.Eventually(t, 30*time.Second, "one pod", func(ctx context.Context) error {
			if _, err := ask(ctx, at(nodes[0], port)); err != nil {
				t.Fatalf("request while scaling down: %v", err)
			}
			return pods(ctx, admin, "web", 1)
		})
		scale(t, admin, "web", 0)
		for _, n := range nodes {
			refused(t, at(n, port))
		}
		kubetest.Eventually(t, 30*time.Second, "no pod", func(ctx context.Context) error { return pods(ctx, admin, "web", 0) })
	})

	t.Run("a deleted service frees its port for another", func(t *testing.T) {
		scale(t, admin, "web", 1)
		spread(t, at(nodes[0], port), 1)
		heir := service("heir", "one", v1.ServiceExternalTrafficPolicyCluster)
		heir.Spec.Ports[0].NodePort = port
		if err := admin.Delete(t.Context(), cluster); err != nil {
			t.Fatal(err)
		}
		create(heir)
		kubetest.Eventually(t, 30*time.Second, "the heir", func(ctx context.Context) error {
			a, err := ask(ctx, at(nodes[0], port))
			if err == nil && !strings.HasPrefix(a.Pod, "one-") {
				err = fmt.Errorf("%s answered", a.Pod)
			}
			return err
		})
	})
}

// A node that is dead for long is NotReady, and so are its Pods, until it is back.
func TestDeadNodeTurnsNotReadyAndRecovers(t *testing.T) {
	t.Parallel()
	// Above the 10 s between two heartbeats; the check runs every 5 s.
	c := kubetest.Start(t, testkit.Options{Name: "lifecycle", ControllerFlags: []string{"--node-monitor-grace-period=12s"}})
	kubetest.StartNodes(t, c, "node-1", "node-2")
	admin := newClient(t, c.Kubeconfig())
	svc := service("web", "web", v1.ServiceExternalTrafficPolicyCluster)
	for _, o := range []client.Object{deployment("web", 2), svc} {
		if err := admin.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	at := netip.AddrPortFrom(c.Nodes()[0].Address, uint16(svc.Spec.Ports[0].NodePort))
	spread(t, at, 2)
	if err := c.KillNode(t.Context(), "node-2"); err != nil {
		t.Fatal(err)
	}
	kubetest.Eventually(t, time.Minute, "node-2 to be NotReady", func(ctx context.Context) error {
		return nodeReady(ctx, admin, "node-2", v1.ConditionUnknown)
	})
	kubetest.Eventually(t, 30*time.Second, "20 answers in a row from node-1 alone", func(ctx context.Context) error {
		for range 20 {
			if a, err := ask(ctx, at); err != nil || a.Node != "node-1" {
				return fmt.Errorf("%s answered, %v", a.Node, err)
			}
		}
		return nil
	})
	if err := nodeReady(t.Context(), admin, "node-1", v1.ConditionTrue); err != nil {
		t.Error(err)
	}
	if err := c.ReviveNode(t.Context(), "node-2"); err != nil {
		t.Fatal(err)
	}
	kubetest.Eventually(t, 30*time.Second, "node-2 to be Ready", func(ctx context.Context) error {
		return nodeReady(ctx, admin, "node-2", v1.ConditionTrue)
	})
	spread(t, at, 2)
}

func nodeReady(ctx context.Context, c client.Client, name string, want v1.ConditionStatus) error {
	n := &v1.Node{}
	if err := c.Get(ctx, client.ObjectKey{Name: name}, n); err != nil {
		return err
	}
	for _, condition := range n.Status.Conditions {
		if condition.Type == v1.NodeReady && condition.Status == want {
			return nil
		}
	}
	return fmt.Errorf("conditions %v", n.Status.Conditions)
}

// hold opens a connection that the Pod keeps, past the first line.
func hold(t *testing.T, at netip.AddrPort) (net.Conn, *bufio.Reader) {
	t.Helper()
	conn, err := net.Dial("tcp", at.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if _, err := io.WriteString(conn, "GET /hold HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(conn)
	res, err := http.ReadResponse(lines, nil)
	if err != nil || res.StatusCode != http.StatusSwitchingProtocols {
		t.Fatal(res, err)
	}
	var a testkit.Answer
	line, err := lines.ReadBytes('\n')
	if err != nil || json.Unmarshal(line, &a) != nil || a.Pod == "" {
		t.Fatalf("first line %q: %v", line, err)
	}
	return conn, lines
}

func status(t *testing.T, url string, want int) {
	t.Helper()
	kubetest.Eventually(t, 10*time.Second, fmt.Sprintf("%d from %s", want, url), func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		defer res.Body.Close()
		if res.StatusCode != want {
			return errors.New(res.Status)
		}
		return nil
	})
}

func scale(t *testing.T, c client.Client, name string, replicas int32) {
	t.Helper()
	d := &apps.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	base := d.DeepCopy()
	d.Spec.Replicas = ptr.To(replicas)
	if err := c.Patch(t.Context(), d, client.MergeFrom(base)); err != nil {
		t.Fatal(err)
	}
}

func pods(ctx context.Context, c client.Client, app string, want int) error {
	list := &v1.PodList{}
	if err := c.List(ctx, list, client.MatchingLabels{"app": app}); err != nil {
		return err
	}
	if len(list.Items) != want {
		return fmt.Errorf("%d pods", len(list.Items))
	}
	return nil
}
