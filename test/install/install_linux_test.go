package install_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"fairlead.dev/fairlead/internal/testkit"
	"fairlead.dev/fairlead/internal/testkit/kubetest"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	tenantName = "prod-eu"
	proxyName  = "edge-1"
)

// TestInstall installs a hub, a tenant's cluster and a proxy from config/ alone, and has a Service served.
func TestInstall(t *testing.T) {
	hub, tenant := start(t, "hub"), start(t, "tenant")
	forHub, forTenant, forHosts := render(t, "default"), render(t, "agent"), render(t, "proxy")
	hub.apply(t, forHub)
	hub.apply(t, forHosts)
	tenant.apply(t, forTenant)
	managerKey, managerPod := template(t, forHub, "Deployment")
	agentKey, agentPod := template(t, forTenant, "Deployment")
	hosts, proxyPod := template(t, forHosts, "DaemonSet")
	hub.admits(t, managerKey.Namespace, managerPod)
	tenant.admits(t, agentKey.Namespace, agentPod)
	hub.admits(t, hosts.Namespace, proxyPod)
	hub.hasPods(t, managerKey)
	tenant.hasPods(t, agentKey)

	address := func(c *cluster, last byte) netip.Addr {
		a := c.Subnet().Addr().As4()
		a[3] = last
		return netip.AddrFrom4(a)
	}
	// A Pod's own account.
	pod := func(c *cluster, key types.NamespacedName, p corev1.PodTemplateSpec) []string {
		path, err := c.ServiceAccountKubeconfig(t.Context(), key.Namespace, p.Spec.ServiceAccountName)
		if err != nil {
			t.Fatal(err)
		}
		return []string{"KUBECONFIG=" + path}
	}
	managers := []*program{
		runContainer(t, "manager-1", managerPod, address(hub, 201), pod(hub, managerKey, managerPod)),
		runContainer(t, "manager-2", managerPod, address(hub, 202), pod(hub, managerKey, managerPod)),
	}
	if _, err := tenant.StartNodes(t.Context(), []testkit.NodeSpec{{Name: "node-1"}}); err != nil {
		t.Fatal(err)
	}
	served := address(hub, 100)
	hub.create(t, `{apiVersion: fairlead.dev/v1alpha1, kind: AddressPool, metadata: {name: public}, spec: {ranges: [`+served.String()+`/32]}}`)
	hub.create(t, `{apiVersion: fairlead.dev/v1alpha1, kind: LoadBalancerClass, metadata: {name: edge}, spec: {proxy: {pool: edge}, addressPools: [public]}}`)
	hub.create(t, `{apiVersion: fairlead.dev/v1alpha1, kind: Tenant, metadata: {name: `+tenantName+`}, spec: {defaultClass: edge, targetCIDRs: ["`+tenant.Subnet().String()+`"]}}`)
	agentInHub := hub.agentKubeconfig(t)
	agents := []*program{
		runContainer(t, "agent-1", agentPod, address(tenant, 201), pod(tenant, agentKey, agentPod), "/etc/fairlead/hub/kubeconfig", agentInHub),
		runContainer(t, "agent-2", agentPod, address(tenant, 202), pod(tenant, agentKey, agentPod), "/etc/fairlead/hub/kubeconfig", agentInHub),
	}
	// Addresses of the host's loopback: the data plane in the kernel would need a network namespace.
	proxy := runContainer(t, proxyName, proxyPod, address(hub, 203), nil,
		"$(NODE_NAME)", proxyName, "$(HOST_IP)", address(hub, 203).String(), "$(ZONE)", "", "--dataplane=nftables", "--dataplane=builtin",
		"/etc/fairlead/hub.kubeconfig", hub.account(t, "fairlead-proxies", proxyName), "/var/lib/fairlead", t.TempDir())
	all := append(append([]*program{proxy}, managers...), agents...)
	for _, p := range all {
		p.probe(t)
	}

	// What an agent finds when it begins isn't measured: one that leads and has begun says what it makes of a Service.
	tenant.create(t, `{apiVersion: v1, kind: Service, metadata: {name: first, namespace: default}, spec: {type: LoadBalancer, loadBalancerClass: fairlead.dev/nowhere, ports: [{port: 8080}]}}`)
	tenant.serviceThat(t, "first", somethingSaid)

	tenant.create(t, service("web"))
	web := tenant.served(t, "web", 8080)
	if web.Status.LoadBalancer.Ingress[0].IP != served.String() {
		t.Errorf("it is served at %s", web.Status.LoadBalancer.Ingress[0].IP)
	}
	was := client.MergeFrom(web.DeepCopy())
	web.Spec.Ports = append(web.Spec.Ports, corev1.ServicePort{Name: "admin", Port: 9090})
	if err := tenant.api.Patch(t.Context(), web, was); err != nil {
		t.Fatal(err)
	}
	tenant.served(t, "web", 9090)
	// There is one address only.
	tenant.create(t, service("waits"))
	tenant.serviceThat(t, "waits", somethingSaid)

	shown, of := exposition{}, map[string]string{}
	for _, p := range all {
		at := hub
		if strings.HasPrefix(p.name, "agent") {
			at = tenant
		}
		for _, name := range shown.add(t, p.metrics(t, at.reader(t), token(t, at.account(t, "monitoring", "stranger")))) {
			of[name] = p.container.Name
		}
	}
	for _, event := range []string{"created", "changed"} {
		if n := shown.value("fairlead_agent_propagation_seconds_count", map[string]string{"tenant": tenantName, "event": event}); n != 1 {
			t.Errorf("%v Services are measured that were %s, want 1", n, event)
		}
	}
	t.Run("a unit of systemd", func(t *testing.T) { testUnit(t, hub) })
	for _, p := range all {
		p.unhindered(t)
	}
	t.Run("what is asked is shown", func(t *testing.T) { testQueries(t, shown) })
	t.Run("what is shown is documented", func(t *testing.T) { testDocumented(t, shown, of) })
}

func somethingSaid(s *corev1.Service) error {
	if len(s.Status.Conditions) == 0 {
		return errors.New("nothing is said of it")
	}
	return nil
}

func service(name string) string {
	return `{apiVersion: v1, kind: Service, metadata: {name: ` + name + `, namespace: default}, spec: {type: LoadBalancer, selector: {app: web}, ports: [{name: http, port: 8080}]}}`
}

// hasPods checks that a Deployment's Pods were let in; there is no host for them to run on.
func (c *cluster) hasPods(t *testing.T, key types.NamespacedName) {
	t.Helper()
	kubetest.Eventually(t, soon, key.String()+" to have its Pods", func(ctx context.Context) error {
		d := &appsv1.Deployment{}
		if err := c.api.Get(ctx, key, d); err != nil {
			return err
		}
		if d.Status.Replicas != 2 {
			return fmt.Errorf("it has %d: %+v", d.Status.Replicas, d.Status.Conditions)
		}
		return nil
	})
}

// agentKubeconfig is for the identity that the manager makes with the Tenant.
func (c *cluster) agentKubeconfig(t *testing.T) string {
	t.Helper()
	path := ""
	kubetest.Eventually(t, soon, "the agent's identity in the hub", func(ctx context.Context) (err error) {
		path, err = c.ServiceAccountKubeconfig(ctx, tenantName, "fairlead-agent")
		return err
	})
	return path
}

// served waits until a Service is served at a port.
func (c *cluster) served(t *testing.T, name string, port int32) *corev1.Service {
	t.Helper()
	return c.serviceThat(t, name, func(s *corev1.Service) error {
		for _, i := range s.Status.LoadBalancer.Ingress {
			for _, p := range i.Ports {
				if p.Port == port && p.Error == nil && s.Status.Conditions[0].Status == metav1.ConditionTrue {
					return nil
				}
			}
		}
		return fmt.Errorf("its status is %+v", s.Status)
	})
}

func (c *cluster) serviceThat(t *testing.T, name string, is func(*corev1.Service) error) *corev1.Service {
	t.Helper()
	s := &corev1.Service{}
	kubetest.Eventually(t, soon, "Service "+name, func(ctx context.Context) error {
		if err := c.api.Get(ctx, types.NamespacedName{Namespace: "default", Name: name}, s); err != nil {
			return err
		}
		return is(s)
	})
	return s
}

// reader is the token of somebody who may read metrics, by the role that is installed for that.
func (c *cluster) reader(t *testing.T) string {
	t.Helper()
	kubeconfig := c.account(t, "monitoring", "prometheus")
	if err := c.api.Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "prometheus-fairlead"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "fairlead-metrics-reader"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "monitoring", Name: "prometheus"}},
	}); client.IgnoreAlreadyExists(err) != nil {
		t.Fatal(err)
	}
	return token(t, kubeconfig)
}
