package agent_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/agent/service"
	"fairlead.dev/fairlead/internal/testkit"
	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// lease waits for an agent's Lease in the hub, and returns its annotations.
func (w *world) lease(name string, right func(map[string]string) error) (says map[string]string) {
	w.Helper()
	w.eventually("Lease "+name, func(ctx context.Context) error {
		l := &coordinationv1.Lease{}
		if err := w.hub.api.Get(ctx, client.ObjectKey{Namespace: w.hubNamespace, Name: name}, l); err != nil {
			return err
		}
		says = l.Annotations
		return right(says)
	})
	return says
}

func anyLease(map[string]string) error { return nil }

func saysRefused(says map[string]string) error {
	if says[v1alpha1.AnnotationRefused] == "" {
		return errors.New("no cluster is refused")
	}
	return nil
}

func TestNothingIsWrittenBeforeTheTenantIsThisClusters(t *testing.T) {
	w := newWorld(t)
	w.stop()
	ours := ""
	w.tenantSays(func(t *v1alpha1.Tenant) { ours, t.Status.ClusterUID = t.Status.ClusterUID, "" })
	w.must(client.IgnoreNotFound(w.hub.api.Delete(t.Context(), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: w.hubNamespace, Name: v1alpha1.AgentLease}})))
	w.create("web")
	count := w.count()
	w.start()
	// The first contact.
	if says := w.lease(v1alpha1.AgentLease, anyLease); says[v1alpha1.AnnotationClusterUID] != ours {
		t.Fatalf("the agent asks for %v, and is of cluster %s", says, ours)
	}
	// Somebody else was first.
	w.tenantSays(func(t *v1alpha1.Tenant) { t.Status.ClusterUID = "another" })
	w.lease(v1alpha1.AgentLease, saysRefused)
	if note := w.told(v1alpha1.ReasonOtherCluster); !strings.Contains(note, "another") || !strings.Contains(note, ours) || !strings.Contains(note, "kubectl annotate tenant") {
		t.Errorf("the event says %q", note)
	}
	for _, x := range count.writes() {
		if x.Resource != "events" {
			t.Errorf("a cluster that is refused wrote: %s", show([]testkit.Write{x}))
		}
	}
	w.tenantSays(func(t *v1alpha1.Tenant) { t.Annotations = map[string]string{v1alpha1.AnnotationClusterUID: ours} })
	w.published("web")
}

func TestAnAgentWhoseTenantIsBoundAnewWritesNoMore(t *testing.T) {
	w := newWorld(t)
	w.create("web")
	w.says("web", clusterv1.ReasonProgrammed)
	w.tenantSays(func(t *v1alpha1.Tenant) { t.Annotations = map[string]string{v1alpha1.AnnotationClusterUID: "another"} })
	w.lease(v1alpha1.AgentLease, saysRefused)
	count := w.count()
	w.patch("web", port81)
	w.create("later")
	w.addNode("n1", "10.0.0.1")
	w.tenantSays(func(t *v1alpha1.Tenant) { t.Annotations = nil }) // its status says ours
	w.published("later")
	w.loadBalancerThat("web", "has the other port", hasPort81)
	w.group("nodes-0", "n1/10.0.0.1/Serving")
	if writes := count.writes(); len(writes) == 0 {
		t.Error("nothing is counted")
	}
}

// An older copy of the hub knows nothing of what was made since: it is made again, as it is now, where it was.
func TestARestoredHubGetsEverythingBack(t *testing.T) {
	w := newWorld(t)
	w.addNode("n1", "10.0.0.1")
	w.create("before")
	w.says("before", clusterv1.ReasonProgrammed)
	w.lease(v1alpha1.AgentLease, anyLease)
	saved, err := w.hub.SaveCopy()
	w.must(err)
	w.create("since")
	address := w.published("since").Status.LoadBalancer.Ingress[0].IP
	w.patch("before", port81)
	w.loadBalancerThat("before", "has the other port", hasPort81)
	w.addNode("n2", "10.0.0.2")
	w.group("nodes-0", "n1/10.0.0.1/Serving", "n2/10.0.0.2/Serving")
	lost, err := w.loadBalancer(t.Context(), "since")
	w.must(err)
	w.must(w.hub.Restore(t.Context(), saved, 0))
	w.manager.set(func(*manager) {}) // looks again
	l := w.loadBalancerThat("since", "is back", func(l *clusterv1.LoadBalancer) error {
		if l.UID == lost.UID {
			return errors.New("it was not lost")
		}
		return nil
	})
	if len(l.Spec.Addresses) != 1 || l.Spec.Addresses[0] != address {
		t.Errorf("it wants %q, and had %s", l.Spec.Addresses, address)
	}
	w.loadBalancerThat("before", "has the other port", hasPort81)
	w.group("nodes-0", "n1/10.0.0.1/Serving", "n2/10.0.0.2/Serving")
	w.tenantSays(func(t *v1alpha1.Tenant) { t.Status.HubEpoch = 3 })
	w.lease(v1alpha1.AgentLease, func(says map[string]string) error {
		if says[v1alpha1.AnnotationEpoch] != "3" {
			return fmt.Errorf("it says %v", says)
		}
		return nil
	})
	s := w.serviceThat("since", "has its address", func(s *v1.Service) error {
		if len(s.Status.LoadBalancer.Ingress) != 1 || s.Status.LoadBalancer.Ingress[0].IP != address {
			return errors.New("another")
		}
		return nil
	})
	if !service.Holds(s, service.InStatus) {
		t.Error("it lost its finalizer")
	}
}
