package agent_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func (w *world) addNode(name, address string) *v1.Node {
	w.Helper()
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1.LabelTopologyZone: "a"}}}
	w.must(w.tenant.api.Create(w.Context(), n))
	w.Cleanup(func() {
		if err := client.IgnoreNotFound(w.tenant.api.Delete(context.Background(), n)); err != nil {
			w.Error(err)
		}
	})
	w.patchNode(name, "status", fmt.Sprintf(`{"status":{"addresses":[{"type":"InternalIP","address":%q}]}}`, address))
	return n
}

func (w *world) patchNode(name, subresource, merge string) {
	w.Helper()
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	p := client.RawPatch(types.MergePatchType, []byte(merge))
	if subresource == "" {
		w.must(w.tenant.api.Patch(w.Context(), n, p))
		return
	}
	w.must(w.tenant.api.SubResource(subresource).Patch(w.Context(), n, p))
}

// group waits for a TargetGroup that holds exactly these, written as name/address/state.
func (w *world) group(name string, want ...string) {
	w.Helper()
	w.eventually(fmt.Sprintf("TargetGroup %s with %q", name, want), func(ctx context.Context) error {
		g := &v1alpha1.TargetGroup{}
		if err := w.hub.api.Get(ctx, client.ObjectKey{Namespace: w.hubNamespace, Name: name}, g); err != nil {
			return err
		}
		got := []string{}
		for _, x := range g.Spec.Targets {
			got = append(got, x.Name+"/"+x.Addresses[0]+"/"+string(x.State))
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			return fmt.Errorf("it has %q", got)
		}
		if g.Labels[v1alpha1.LabelTargets] != v1alpha1.TargetsNodes || g.Spec.HealthCheck == nil || g.Spec.HealthCheck.Port != 10256 {
			return fmt.Errorf("labels %v, check %+v", g.Labels, g.Spec.HealthCheck)
		}
		return nil
	})
}

func TestNodesAreTargets(t *testing.T) {
	w := newWorld(t)
	w.group("nodes-0") // a cluster without Nodes has a group too
	w.addNode("n1", "10.0.0.1")
	w.addNode("n2", "10.0.0.2")
	w.group("nodes-0", "n1/10.0.0.1/Serving", "n2/10.0.0.2/Serving")
	w.patchNode("n2", "", `{"spec":{"taints":[{"key":"ToBeDeletedByClusterAutoscaler","effect":"NoSchedule"}]}}`)
	w.group("nodes-0", "n1/10.0.0.1/Serving", "n2/10.0.0.2/Draining")
	w.patchNode("n1", "", `{"metadata":{"labels":{"node.kubernetes.io/exclude-from-external-load-balancers":""}}}`)
	w.group("nodes-0", "n2/10.0.0.2/Serving") // the last one that is not drained by a person
	w.patchNode("n1", "", `{"metadata":{"labels":{"node.kubernetes.io/exclude-from-external-load-balancers":null},"annotations":{"loadbalancer.cluster.x-k8s.io/disabled":""}}}`)
	w.group("nodes-0", "n1/10.0.0.1/Draining", "n2/10.0.0.2/Serving")
	w.must(w.tenant.api.Delete(t.Context(), &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}))
	w.group("nodes-0", "n2/10.0.0.2/Serving")
	// What somebody else does to the group is mended.
	g := &v1alpha1.TargetGroup{ObjectMeta: metav1.ObjectMeta{Namespace: w.hubNamespace, Name: "nodes-0"}}
	w.must(w.hub.api.Patch(t.Context(), g, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":null},"spec":{"targets":[]}}`))))
	w.group("nodes-0", "n2/10.0.0.2/Serving")
	w.must(w.hub.api.Delete(t.Context(), g))
	w.group("nodes-0", "n2/10.0.0.2/Serving")
}

// A Node that drains goes on to, and serves again, by whatever says so now.
func TestWhyANodeDrainsIsFollowed(t *testing.T) {
	w := newWorld(t)
	w.addNode("n1", "10.0.0.1")
	w.addNode("n2", "10.0.0.2")
	w.patchNode("n2", "", `{"spec":{"taints":[{"key":"ToBeDeletedByClusterAutoscaler","effect":"NoSchedule"}]}}`)
	w.group("nodes-0", "n1/10.0.0.1/Serving", "n2/10.0.0.2/Draining")
	w.patchNode("n2", "", `{"spec":{"taints":[{"key":"ToBeDeletedByClusterAutoscaler","effect":"NoSchedule","value":"1700000000"}]}}`)
	w.group("nodes-0", "n1/10.0.0.1/Serving", "n2/10.0.0.2/Serving") // its hour is over
	w.patchNode("n2", "", `{"metadata":{"annotations":{"loadbalancer.cluster.x-k8s.io/disabled":""}}}`)
	w.group("nodes-0", "n1/10.0.0.1/Serving", "n2/10.0.0.2/Draining")
	w.patchNode("n2", "", `{"metadata":{"annotations":{"loadbalancer.cluster.x-k8s.io/disabled":null}}}`)
	w.group("nodes-0", "n1/10.0.0.1/Serving", "n2/10.0.0.2/Serving")
	w.patchNode("n2", "", fmt.Sprintf(`{"spec":{"taints":[{"key":"ToBeDeletedByClusterAutoscaler","effect":"NoSchedule","value":"%d"}]}}`, time.Now().Unix()))
	w.group("nodes-0", "n1/10.0.0.1/Serving", "n2/10.0.0.2/Draining") // it was set anew
}

func TestHeartbeatsCostNothing(t *testing.T) {
	w := newWorld(t)
	w.addNode("n1", "10.0.0.1")
	w.group("nodes-0", "n1/10.0.0.1/Serving")
	count := w.count()
	for i := range 20 {
		w.patchNode("n1", "status", fmt.Sprintf(`{"status":{"conditions":[{"type":"MemoryPressure","status":"False","lastHeartbeatTime":"2026-01-01T00:00:%02dZ"}],"images":[{"names":["x:%d"]}]}}`, i, i))
	}
	w.addNode("n2", "10.0.0.2")
	w.group("nodes-0", "n1/10.0.0.1/Serving", "n2/10.0.0.2/Serving")
	if got := count.writes(); len(got) != 1 {
		t.Errorf("%d writes:%s", len(got), show(got))
	}
}
