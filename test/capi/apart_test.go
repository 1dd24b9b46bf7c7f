package capi_test

import (
	"errors"
	"net/netip"
	"path/filepath"
	"testing"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/config/crd"
	"fairlead.dev/fairlead/config/rbac"
	"fairlead.dev/fairlead/internal/testkit"
	"fairlead.dev/fairlead/internal/testkit/kubetest"
	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
)

// apartStories are told of a control plane whose Machines are in another cluster than the hub.
var apartStories = []story{
	{name: "rolled out to another version", tell: rolledOut},
	{name: "a member hangs, and is restarted", tell: restarted, dies: true},
	{name: "a Machine is deleted, and the agent killed meanwhile", tell: managerKilled},
}

// A control plane of Cluster API's own costs its clients nothing where Cluster API's management cluster isn't the hub either: an agent there
// holds its Machines until the hub has heard of its proxies that they have stopped.
func TestManagementCluster(t *testing.T) {
	const tenant, namespace = "management", "clusters"
	machines, plane := netip.MustParsePrefix("127.77.60.0/24"), dataPlanes[0]
	ctrllog.SetLogger(logr.Discard()) // else controller-runtime complains, with a stack, that nobody did
	elsewhere := startHub(t, "hub", t.TempDir())
	elsewhere.startFairlead(managerMetrics)
	elsewhere.proxied(plane)
	elsewhere.tenant(tenant, machines, plane)
	here := startHub(t, tenant, "")
	here.installKinds(filepath.Join(root(t), "bin", "capi", "crd"))
	here.startProviders()
	here.startAgent(tenant, elsewhere)
	here.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})

	l := overHeldMembers(namespace)
	l.Spec.ClassName = plane.name
	c := here.startCluster(machines, l, held, nil)
	c.scale(3)
	table, w := newTable(), world{plane: plane}
	for _, s := range apartStories {
		t.Run(s.name, func(t *testing.T) { table.add(w, s, c.in(t).told(s)) })
	}
	c.delete()
	c.deleteLoadBalancer()
	t.Logf("what becomes of a control plane whose load balancer another cluster serves\n%s", table)
}

// startAgent installs our kinds and an agent's rights, and starts one, by which a Tenant of the hub elsewhere is served.
func (h *hub) startAgent(tenant string, elsewhere *hub) {
	h.t.Helper()
	ctx, cfg := h.t.Context(), h.RESTConfig()
	if err := errors.Join(crd.Install(ctx, cfg), rbac.InstallTenant(ctx, cfg), rbac.InstallManagement(ctx, cfg)); err != nil {
		h.t.Fatal(err)
	}
	h.manager = kubetest.StartProcess(h.t, testkit.Command{Name: "agent", Path: h.program, Args: []string{"agent", "--management",
		"--kubeconfig=" + h.account(v1alpha1.SystemNamespace, v1alpha1.AgentServiceAccount), "--tenant=" + tenant,
		"--hub-kubeconfig=" + elsewhere.account(tenant, v1alpha1.AgentServiceAccount)}})
	h.stopManager = h.kept(h.manager)
}
