package member

import (
	"fmt"
	"strings"
	"testing"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/internal/controller/fleet"
	rules "fairlead.dev/fairlead/internal/member"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// A Machine counts once for each LoadBalancer; held is one that is being deleted and has a hook of ours, whoever else holds it.
func TestMachinesAreCountedByState(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	kind := schema.GroupVersionKind{Group: "cluster.x-k8s.io", Version: "v1beta2", Kind: "Machine"}
	decided := func(state rules.State, hook bool) map[string]string {
		return rules.Annotate(nil, "lb-a", rules.Decision{State: state, Hook: hook}, clusterv1.HookPreDrain, false)
	}
	both := rules.Annotate(decided(rules.Active, true), "lb-b", rules.Decision{State: rules.Removing, Hook: true}, clusterv1.HookPreTerminate, false)
	foreign := map[string]string{"pre-drain.delete.hook.machine.cluster.x-k8s.io/other": "kcp"}
	var objects []runtime.Object
	for _, m := range []struct {
		name        string
		annotations map[string]string
		deleted     time.Duration
	}{
		{"serves", decided(rules.Active, true), 0}, {"serves-and-leaves", both, time.Minute}, {"leaves", decided(rules.Removing, true), time.Hour},
		{"was-let-go", decided(rules.Removed, false), 2 * time.Hour}, {"is-held-by-others", foreign, 3 * time.Hour}, {"is-nobodys", nil, 0},
	} {
		u := &unstructured.Unstructured{}
		u.SetGroupVersionKind(kind)
		u.SetNamespace("default")
		u.SetName(m.name)
		u.SetAnnotations(m.annotations)
		if m.deleted > 0 {
			at := metav1.NewTime(now.Add(-m.deleted))
			u.SetDeletionTimestamp(&at)
			u.SetFinalizers([]string{"machine.cluster.x-k8s.io"})
		}
		objects = append(objects, u)
	}
	objects = append(objects, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Annotations: map[string]string{rules.StatusAnnotation: "blue/api=active,green/api=removing"}}})
	r := New(Options{Cache: fake.NewClientBuilder().WithRuntimeObjects(objects...).Build(), Fleet: fleet.New(fleet.Options{Now: time.Now}), Now: func() time.Time { return now }})
	c := NewCollector(r)
	shown := func(text string) {
		t.Helper()
		if err := testutil.CollectAndCompare(c, strings.NewReader(text)); err != nil {
			t.Error(err)
		}
	}
	shown(expected(nil, nil, 0, 0))
	r.Watches(rules.Machines, kind)
	machines := map[rules.State]int{rules.Active: 2, rules.Removing: 2, rules.Removed: 1}
	shown(expected(machines, nil, 2, 3600))
	r.Watches(rules.Nodes, NodeKind)
	shown(expected(machines, map[rules.State]int{rules.Active: 1, rules.Removing: 1}, 2, 3600))
}

// expected is what is shown of so many Machines and Nodes.
func expected(states, nodes map[rules.State]int, held, oldest int) string {
	b := &strings.Builder{}
	b.WriteString("# HELP fairlead_held_machine_oldest_seconds How long the deletion of a Machine has waited for a LoadBalancer, of the one that has waited longest; 0: none does.\n# TYPE fairlead_held_machine_oldest_seconds gauge\n")
	fmt.Fprintf(b, "fairlead_held_machine_oldest_seconds %d\n", oldest)
	b.WriteString("# HELP fairlead_held_machines Machines whose deletion waits for a LoadBalancer.\n# TYPE fairlead_held_machines gauge\n")
	fmt.Fprintf(b, "fairlead_held_machines %d\n", held)
	b.WriteString("# HELP fairlead_machines Machines that are targets of LoadBalancers, by state, once for each LoadBalancer.\n# TYPE fairlead_machines gauge\n")
	for _, s := range rules.States() {
		fmt.Fprintf(b, "fairlead_machines{state=%q} %d\n", s, states[s])
	}
	b.WriteString("# HELP fairlead_nodes Nodes of the hub that are targets of LoadBalancers, by state, once for each LoadBalancer.\n# TYPE fairlead_nodes gauge\n")
	for _, s := range rules.States() {
		fmt.Fprintf(b, "fairlead_nodes{state=%q} %d\n", s, nodes[s])
	}
	return b.String()
}
