package survival

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/fleet"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// byPort bounds the time until nodes are checked at their ports: three rounds of questions over 20 s, and whatever comes before.
const byPort = time.Minute

// nodesWithoutKubeProxy: a tenant's nodes are others now, at whose health port nobody listens, as without kube-proxy. All fail their
// check, and are used all the same, until the agent has them checked at the Service's port. Then one's port closes: it is left out.
func nodesWithoutKubeProxy(t *testing.T, w *world) {
	tenant := w.Tenants[0]
	web := &v1.Service{}
	must(t, tenant.API.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "web"}, web))
	first := tenant.Nodes()[0].Address
	var listeners []net.Listener
	var ports []netip.AddrPort
	open := func(at netip.AddrPort) net.Listener {
		l, err := net.Listen("tcp", at.String())
		must(t, err)
		t.Cleanup(fleet.NewRelay(l, netip.AddrPortFrom(first, at.Port())).Close)
		return l
	}
	names := []string{"node-8", "node-9"}
	for i := range names {
		b := first.As4()
		b[3] = byte(8 + i)
		at := netip.AddrPortFrom(netip.AddrFrom4(b), uint16(web.Spec.Ports[0].NodePort))
		ports, listeners = append(ports, at), append(listeners, open(at))
	}
	others := tenant.Nodes()
	w.window(t, w.all(), [2]int{0, held}, func() {
		for i, name := range names {
			registerNode(t, tenant, name, ports[i].Addr())
		}
		for _, n := range others {
			labelNode(t, tenant, n.Name, v1.LabelNodeExcludeBalancers, "true")
		}
		eventually(t, byPort, "the nodes of "+tenant.Name()+" to be checked at their ports", func(ctx context.Context) error {
			g, err := w.NodesGroup(ctx, tenant)
			if err == nil && (g.CheckedByPort() == "" || len(g.Spec.Targets) != len(names)) {
				err = fmt.Errorf("%d, checked by %+v", len(g.Spec.Targets), g.Spec.HealthCheck)
			}
			return err
		})
		for _, name := range names {
			w.awaitState(t, tenant, name, "", "")
			w.awaitUse(t, tenant, name)
		}
	})
	w.window(t, w.all(), [2]int{0, held}, func() {
		must(t, listeners[1].Close())
		w.awaitUnhealthy(t, tenant, names[1], len(w.Proxies))
		m, err := w.Member(t.Context(), tenant, names[1])
		must(t, err)
		if by := fmt.Sprintf("TCP:%d", ports[1].Port()); !strings.Contains(m.Message, by) {
			t.Errorf("it is found so otherwise than by %s: %s", by, m.Message)
		}
		w.awaitState(t, tenant, names[0], "", "")
	})
	w.window(t, w.all(), [2]int{0, held}, func() {
		open(ports[1])
		w.awaitState(t, tenant, names[1], "", "")
		for _, n := range others {
			labelNode(t, tenant, n.Name, v1.LabelNodeExcludeBalancers, nil)
			w.awaitUse(t, tenant, n.Name)
		}
		for _, name := range names {
			must(t, tenant.API.Delete(t.Context(), &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}))
			w.awaitNoTarget(t, tenant, name)
		}
	})
}

// registerNode gives a tenant a Node that nobody runs Pods on.
func registerNode(t *testing.T, tenant *fleet.Tenant, name string, address netip.Addr) {
	t.Helper()
	must(t, tenant.API.Create(t.Context(), &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       v1.NodeSpec{Unschedulable: true},
		Status:     v1.NodeStatus{Addresses: []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: address.String()}}},
	}))
}
