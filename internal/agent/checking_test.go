package agent_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/testkit/kubetest"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// checked waits until the group of Nodes is checked so, and so many are in it.
func (w *world) checked(kind clusterv1.HealthCheckType, port int32, targets int) *v1alpha1.TargetGroup {
	w.Helper()
	return w.checkedIn(soon, kind, port, targets)
}

// checkedIn is checked with another bound of the wait.
func (w *world) checkedIn(most time.Duration, kind clusterv1.HealthCheckType, port int32, targets int) (g *v1alpha1.TargetGroup) {
	w.Helper()
	kubetest.Eventually(w, most, fmt.Sprintf("%d nodes to be checked by %s:%d", targets, kind, port), func(ctx context.Context) error {
		g = &v1alpha1.TargetGroup{}
		if err := w.hub.api.Get(ctx, client.ObjectKey{Namespace: w.hubNamespace, Name: "nodes-0"}, g); err != nil {
			return err
		}
		c := g.Spec.HealthCheck
		if c == nil || c.Type != kind || c.Port != port || len(g.Spec.Targets) != targets {
			return fmt.Errorf("%d, by %+v", len(g.Spec.Targets), c)
		}
		if by := g.CheckedByPort(); (by != "") != (kind == clusterv1.HealthCheckTCP) {
			return fmt.Errorf("the reason is %q", by)
		}
		return nil
	})
	return g
}

// A cluster without kube-proxy: its nodes refuse at its health's port. They are checked otherwise, until they have one.
func TestNodesWithoutKubeProxyAreCheckedAtTheirPorts(t *testing.T) {
	w := newWorld(t)
	w.must(w.tenant.api.DeleteAllOf(t.Context(), &eventsv1.Event{}, client.InNamespace(metav1.NamespaceDefault)))
	w.addNode("n1", "127.97.32.1")
	w.addNode("n2", "127.97.32.2")
	w.checked(clusterv1.HealthCheckHTTP, 10256, 2)
	sick := func(names ...string) string {
		var all []string
		for _, n := range names {
			all = append(all, fmt.Sprintf(`{"name":%q,"uid":%q,"state":"unhealthy","since":"2026-01-01T00:00:00Z"}`, n, n))
		}
		return "[" + strings.Join(all, ",") + "]"
	}
	count := w.count()
	w.health("1/2", sick("n1"))
	w.health("0/2", sick("n1", "n2"))
	w.checked(clusterv1.HealthCheckTCP, 0, 2)
	if note := w.told(v1alpha1.ReasonCheckedByPort); !strings.Contains(note, "10256") {
		t.Errorf("the event says %q", note)
	}
	groups := 0
	for _, x := range count.writes() {
		if x.Resource == "targetgroups" {
			groups++
		}
	}
	if groups != 1 {
		t.Errorf("%d writes of groups", groups)
	}

	// It lasts: for new nodes, for the next agent, and against who changes it.
	w.health("3/3", "[]")
	w.addNode("n3", "127.97.32.3")
	w.checked(clusterv1.HealthCheckTCP, 0, 3)
	w.stop()
	w.start()
	w.addNode("n4", "127.97.32.4")
	g := w.checked(clusterv1.HealthCheckTCP, 0, 4)
	was := g.DeepCopy()
	g.Annotations = nil
	w.must(w.hub.api.Patch(t.Context(), g, client.MergeFrom(was)))
	w.checked(clusterv1.HealthCheckTCP, 0, 4)
	was = g.DeepCopy()
	g.Spec.HealthCheck = nil
	w.must(w.hub.api.Patch(t.Context(), g, client.MergeFrom(was)))
	w.checked(clusterv1.HealthCheckTCP, 0, 4)

	for i := range 3 {
		l, err := net.Listen("tcp", fmt.Sprintf("127.97.32.%d:10256", i+1))
		w.must(err)
		s := &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})}
		ended := make(chan error, 1)
		go func() { ended <- s.Serve(l) }()
		t.Cleanup(func() {
			if err := errors.Join(s.Close(), <-ended); !errors.Is(err, http.ErrServerClosed) {
				t.Error(err)
			}
		})
	}
	w.checkedIn(2*soon, clusterv1.HealthCheckHTTP, 10256, 4) // a rest and three rounds take 50 s
	w.eventually("an event that says so", func(ctx context.Context) error {
		list := &eventsv1.EventList{}
		if err := w.tenant.api.List(ctx, list, client.InNamespace(metav1.NamespaceDefault)); err != nil {
			return err
		}
		var notes []string
		for _, e := range list.Items {
			if e.Reason == clusterv1.ReasonAsExpected && strings.Contains(e.Note, "tell their health again") {
				return nil
			}
			notes = append(notes, e.Note)
		}
		return fmt.Errorf("they say %q", notes)
	})
}
