package agent_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/agent/service"
	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const port81 = `{"spec":{"ports":[{"name":"http","port":81,"targetPort":8080}]}}`

func hasPort81(l *clusterv1.LoadBalancer) error {
	if len(l.Spec.Ports) != 1 || l.Spec.Ports[0].Port != 81 {
		return fmt.Errorf("ports %+v", l.Spec.Ports)
	}
	return nil
}

func TestChangesMadeWhileTheHubIsAwayArrive(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"stays", "changes", "goes", "turns"} {
		w.create(name)
	}
	for _, name := range []string{"stays", "changes", "goes", "turns"} {
		w.says(name, clusterv1.ReasonProgrammed)
	}
	stays, err := w.loadBalancer(t.Context(), "stays")
	w.must(err)
	w.must(w.hub.StopAPIServer(t.Context()))
	w.create("comes")
	w.patch("changes", port81)
	w.delete("goes")
	w.patch("turns", `{"spec":{"type":"ClusterIP"}}`)
	// The tenant's side goes on.
	w.serviceThat("comes", "has its finalizer", func(s *v1.Service) error {
		if !service.Holds(s, service.InStatus) {
			return errors.New("not yet")
		}
		return nil
	})
	w.must(w.hub.StartAPIServer(t.Context()))
	back := time.Now()
	w.published("comes")
	w.loadBalancerThat("changes", "has the other port", hasPort81)
	w.gone("goes")
	w.released("turns")
	t.Logf("all arrived %s after the hub was back", time.Since(back).Round(time.Millisecond))
	if l, err := w.loadBalancer(t.Context(), "stays"); err != nil || l.UID != stays.UID || l.Generation != stays.Generation {
		t.Errorf("what didn't change was touched: %v, generation %d", err, l.Generation)
	}
}

func TestChangesMadeWhileTheTenantIsAwayArrive(t *testing.T) {
	w := newWorld(t)
	w.manager.set(func(m *manager) {
		m.refuse["web"] = refusal{clusterv1.ConditionAddressGranted, clusterv1.ReasonPoolExhausted, "wait"}
	})
	w.create("web")
	w.says("web", clusterv1.ReasonPoolExhausted)
	w.must(w.tenant.StopAPIServer(t.Context()))
	w.manager.set(func(m *manager) { clear(m.refuse) })
	w.loadBalancerThat("web", "has an address", func(l *clusterv1.LoadBalancer) error {
		if len(l.Status.Addresses) == 0 {
			return errors.New("not yet")
		}
		return nil
	})
	w.must(w.tenant.StartAPIServer(t.Context()))
	w.published("web")
	w.says("web", clusterv1.ReasonProgrammed)
}

func TestARestartFindsEverythingAndRepeatsNothing(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"stays", "changes", "goes"} {
		w.create(name)
	}
	for _, name := range []string{"stays", "changes", "goes"} {
		w.says(name, clusterv1.ReasonProgrammed)
	}
	w.stop()
	w.create("comes")
	w.patch("changes", port81)
	w.delete("goes")
	count := w.count()
	w.start()
	w.says("comes", clusterv1.ReasonProgrammed)
	w.loadBalancerThat("changes", "has the other port", hasPort81)
	w.gone("goes")
	for _, x := range count.writes() {
		if x.Name == "stays" || x.Name == w.lbKey("stays").Name || x.Resource == "targetgroups" {
			t.Errorf("%s %s %s", x.Verb, x.Resource, x.Name)
		}
	}
}

func TestTheHubMayComeAfterTheAgent(t *testing.T) {
	w := newWorld(t)
	w.stop()
	w.must(w.hub.StopAPIServer(t.Context()))
	free, err := net.Listen("tcp", "127.0.0.1:0")
	w.must(err)
	w.healthAt = free.Addr().String()
	w.must(free.Close())
	w.start()
	w.create("web")
	w.ready(http.StatusServiceUnavailable)
	w.must(w.hub.StartAPIServer(t.Context()))
	w.published("web")
	w.ready(http.StatusOK)
}

// ready waits for an answer of the agent's /readyz.
func (w *world) ready(want int) {
	w.Helper()
	w.eventually(fmt.Sprintf("/readyz to answer %d", want), func(ctx context.Context) error {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+w.healthAt+"/readyz", nil)
		if err != nil {
			return err
		}
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			return err
		}
		said, err := io.ReadAll(res.Body)
		if err := errors.Join(err, res.Body.Close()); err != nil {
			return err
		}
		if res.StatusCode != want {
			return fmt.Errorf("%d %s", res.StatusCode, said)
		}
		return nil
	})
}

func TestALostLoadBalancerIsMadeAnewWithItsAddress(t *testing.T) {
	w := newWorld(t)
	w.create("web")
	before := w.published("web").Status.LoadBalancer.Ingress[0].IP
	l, err := w.loadBalancer(t.Context(), "web")
	w.must(err)
	w.must(w.hub.api.Delete(t.Context(), l))
	next := w.loadBalancerThat("web", "is another one", func(x *clusterv1.LoadBalancer) error {
		if x.UID == l.UID || len(x.Status.Addresses) == 0 {
			return errors.New("not yet")
		}
		return nil
	})
	if len(next.Spec.Addresses) != 1 || next.Spec.Addresses[0] != before {
		t.Errorf("it wants %q, and had %s", next.Spec.Addresses, before)
	}
	if s := w.published("web"); s.Status.LoadBalancer.Ingress[0].IP != before {
		t.Errorf("the Service had %s, and has %+v", before, s.Status.LoadBalancer)
	}
}

func TestTheLeaseNamesTheCluster(t *testing.T) {
	w := newWorld(t)
	system := &v1.Namespace{}
	w.must(w.tenant.api.Get(t.Context(), client.ObjectKey{Name: metav1.NamespaceSystem}, system))
	w.eventually("the agent's Lease", func(ctx context.Context) error {
		l := &coordinationv1.Lease{}
		if err := w.hub.api.Get(ctx, client.ObjectKey{Namespace: w.hubNamespace, Name: v1alpha1.AgentLease}, l); err != nil {
			return err
		}
		if l.Annotations[v1alpha1.AnnotationClusterUID] != string(system.UID) || l.Annotations[v1alpha1.AnnotationVersion] == "" || l.Spec.RenewTime == nil {
			return fmt.Errorf("%v, %+v", l.Annotations, l.Spec)
		}
		return nil
	})
}
