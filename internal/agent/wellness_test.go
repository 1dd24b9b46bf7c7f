package agent_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// health is what the hub says of the Nodes' health.
func (w *world) health(members, targets string) {
	w.Helper()
	g := &v1alpha1.TargetGroup{ObjectMeta: metav1.ObjectMeta{Namespace: w.hubNamespace, Name: "nodes-0"}}
	w.must(w.hub.api.Status().Patch(w.Context(), g, client.RawPatch(types.MergePatchType, []byte(`{"status":{"members":"`+members+`","targets":`+targets+`}}`))))
}

// told waits for an event about the whole cluster, and returns its note.
func (w *world) told(reason string) (note string) {
	w.Helper()
	w.eventually("an event "+reason, func(ctx context.Context) error {
		list := &eventsv1.EventList{}
		if err := w.tenant.api.List(ctx, list, client.InNamespace(metav1.NamespaceDefault)); err != nil {
			return err
		}
		for _, e := range list.Items {
			if e.Regarding.Name == metav1.NamespaceSystem && e.Reason == reason {
				note = e.Note
				return nil
			}
		}
		return errors.New("none")
	})
	return note
}

// Served at addresses where nobody answers: that is said once for all Services, when it has lasted, and when it is over.
func TestSickNodesAreToldOnceForAllServices(t *testing.T) {
	const services = 50
	w := newWorld(t)
	w.must(w.tenant.api.DeleteAllOf(t.Context(), &eventsv1.Event{}, client.InNamespace(metav1.NamespaceDefault)))
	mute, err := net.Listen("tcp", "127.97.33.1:10256") // the agent asks there itself
	w.must(err)
	t.Cleanup(func() {
		if err := mute.Close(); err != nil {
			t.Error(err)
		}
	})
	w.addNode("n1", "127.97.33.1")
	w.group("nodes-0", "n1/127.97.33.1/Serving")
	for i := range services {
		w.create(fmt.Sprintf("web-%d", i))
	}
	for i := range services {
		w.says(fmt.Sprintf("web-%d", i), clusterv1.ReasonProgrammed)
	}
	count := w.count()
	w.health("0/1", `[{"name":"n1","uid":"x","state":"unhealthy","message":"connection refused","since":"2026-01-01T00:00:00Z"}]`)
	if note := w.told(v1alpha1.ReasonMembersUnhealthy); !strings.Contains(note, "no target passes its health check (n1: connection refused)") {
		t.Errorf("the event says %q", note)
	}
	w.health("1/1", `[]`)
	w.told(clusterv1.ReasonAsExpected)
	if got := count.writes(); len(got) != 2 {
		t.Errorf("%d writes for %d Services:%s", len(got), services, show(got))
	}
}
