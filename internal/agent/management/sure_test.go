package management

import (
	"strings"
	"testing"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// inHub is what a hub has of a LoadBalancer that its proxies serve.
func inHub(l *clusterv1.LoadBalancer) *clusterv1.LoadBalancer {
	w := Want(l, nil)
	have := &clusterv1.LoadBalancer{ObjectMeta: metav1.ObjectMeta{Generation: 9, Annotations: w.Annotations, Finalizers: []string{clusterv1.Finalizer}}, Spec: w.Spec}
	have.Status.Addresses = l.Status.Addresses
	for _, kind := range []string{clusterv1.ConditionProgrammed, clusterv1.ConditionReady} {
		meta.SetStatusCondition(&have.Status.Conditions, metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: kind, ObservedGeneration: 9})
	}
	return have
}

// A Cluster is told an address only while the hub has just said that its proxies serve it: what is told isn't taken back.
func TestAClusterIsToldWhatTheHubServesNow(t *testing.T) {
	l := api()
	l.Annotations = map[string]string{clusterv1.HubAnnotation: "hub"}
	l.Status.Addresses = []clusterv1.LoadBalancerAddress{{Type: clusterv1.AddressTypeIP, Value: "192.0.2.7"}}
	for name, c := range map[string]struct {
		have func(*clusterv1.LoadBalancer) *clusterv1.LoadBalancer
		uid  string
		want string
	}{
		"served":               {nil, "hub", ""},
		"a hub without a name": {nil, "", ""},
		"another hub":          {nil, "another", "another one"},
		"it has none":          {func(*clusterv1.LoadBalancer) *clusterv1.LoadBalancer { return nil }, "hub", "hasn't got it"},
		"it has it otherwise": {func(h *clusterv1.LoadBalancer) *clusterv1.LoadBalancer {
			h.Spec.Ports = append(h.Spec.Ports, clusterv1.Port{Port: 80})
			return h
		}, "hub", "hasn't got it as it stands here"},
		"on another address": {func(h *clusterv1.LoadBalancer) *clusterv1.LoadBalancer {
			h.Status.Addresses = []clusterv1.LoadBalancerAddress{{Type: clusterv1.AddressTypeIP, Value: "192.0.2.8"}}
			return h
		}, "hub", "doesn't serve it"},
		"its proxies don't yet": {func(h *clusterv1.LoadBalancer) *clusterv1.LoadBalancer { h.Generation++; return h }, "hub", "doesn't serve it"},
	} {
		have := inHub(l)
		if c.have != nil {
			have = c.have(have)
		}
		if got := Unsure(l, have, c.uid); got != c.want && (c.want == "" || !strings.Contains(got, c.want)) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// One whose Cluster has another endpoint isn't ready, though the hub, which knows of no Cluster, finds it so.
func TestALoadBalancerWhoseEndpointIsntPublishedIsntReady(t *testing.T) {
	l := api()
	have := inHub(l)
	ready := func() metav1.Condition {
		l.Status = Status(l, have, true, "", nil)
		return *meta.FindStatusCondition(l.Status.Conditions, clusterv1.ConditionReady)
	}
	if c := ready(); c.Status != metav1.ConditionTrue {
		t.Errorf("%+v", c)
	}
	meta.SetStatusCondition(&l.Status.Conditions, metav1.Condition{Type: clusterv1.ConditionEndpointPublished, Status: metav1.ConditionFalse, Reason: clusterv1.ReasonEndpointConflict, Message: "Two."})
	first := ready()
	if first.Status != metav1.ConditionFalse || first.Reason != clusterv1.ReasonEndpointConflict || first.Message != "Two." || first.ObservedGeneration != l.Generation {
		t.Errorf("%+v", first)
	}
	if again := ready(); again != first {
		t.Errorf("it is written again: %+v", again)
	}
	meta.SetStatusCondition(&l.Status.Conditions, metav1.Condition{Type: clusterv1.ConditionEndpointPublished, Status: metav1.ConditionTrue, Reason: clusterv1.ReasonPublished})
	if c := ready(); c.Status != metav1.ConditionTrue {
		t.Errorf("%+v", c)
	}
}
