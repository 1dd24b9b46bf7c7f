package cli

import (
	"strings"
	"testing"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/agent/management"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// says sets a condition of a LoadBalancer's present generation.
func says(l *clusterv1.LoadBalancer, kind, reason, message string, yes bool) {
	c := metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: reason, Message: message, ObservedGeneration: l.Generation}
	if yes {
		c.Status = metav1.ConditionTrue
	}
	meta.SetStatusCondition(&l.Status.Conditions, c)
}

// Of a LoadBalancer in a management cluster that isn't the hub, what is said is the agent's word, or the hub's where that is looked at.
func TestALoadBalancerOfAManagementClusterIsExplained(t *testing.T) {
	fresh := func() *clusterv1.LoadBalancer {
		l := held("api", nil)
		l.Generation = 4
		says(l, clusterv1.ConditionMirrored, clusterv1.ReasonAsExpected, "It is LoadBalancer x in namespace mgmt of the hub.", true)
		for _, kind := range []string{clusterv1.ConditionAccepted, clusterv1.ConditionAddressGranted, clusterv1.ConditionProgrammed} {
			says(l, kind, kind, "", true)
		}
		says(l, clusterv1.ConditionEndpointPublished, clusterv1.ReasonPublished, "", true)
		return l
	}
	key := management.Key(fresh())
	inHub := &clusterv1.LoadBalancer{ObjectMeta: metav1.ObjectMeta{
		Namespace: "mgmt", Name: management.Name(key), Generation: 7, Annotations: map[string]string{v1alpha1.AnnotationOrigin: management.OriginOf(key)},
	}}
	says(inHub, clusterv1.ConditionAccepted, clusterv1.ReasonClassNotFound, "There is no class edge.", false)
	for name, c := range map[string]struct {
		change func(*clusterv1.LoadBalancer)
		hub    *Elsewhere
		served bool
		rungs  string
		says   string
	}{
		"all is well": {nil, nil, true, "mirrored=ok accepted=ok address=ok programmed=ok endpoint=ok", "--hub-kubeconfig"},
		"the hub is away": {func(l *clusterv1.LoadBalancer) {
			says(l, clusterv1.ConditionMirrored, "HubUnreachable", "It is away.", false)
		}, nil, false, "mirrored=broken accepted=ok address=ok programmed=ok endpoint=ok", "It is away."},
		"it has changed": {func(l *clusterv1.LoadBalancer) { l.Generation++ }, nil, false, "mirrored=waiting accepted=waiting address=waiting programmed=waiting endpoint=warning", "not written it to the hub yet"},
		"two endpoints": {func(l *clusterv1.LoadBalancer) {
			says(l, clusterv1.ConditionEndpointPublished, clusterv1.ReasonEndpointConflict, "Two.", false)
		}, nil, true, "mirrored=ok accepted=ok address=ok programmed=ok endpoint=warning", "Two."},
		"the hub's own":    {nil, &Elsewhere{Namespace: "mgmt", Objects: &Objects{LoadBalancers: []*clusterv1.LoadBalancer{inHub}}}, false, "mirrored=ok tenant=ok accepted=broken", "There is no class edge."},
		"it hasn't got it": {nil, &Elsewhere{Namespace: "other", Objects: &Objects{LoadBalancers: []*clusterv1.LoadBalancer{inHub}}}, false, "mirrored=ok tenant=ok accepted=broken", "the hub has no LoadBalancer in namespace other"},
	} {
		l := fresh()
		if c.change != nil {
			c.change(l)
		}
		e := ExplainLoadBalancer(&Objects{LoadBalancers: []*clusterv1.LoadBalancer{l}}, key, c.hub)
		var rungs, words []string
		for _, r := range e.Rungs {
			rungs, words = append(rungs, r.Name+"="+string(r.State)), append(words, r.Message)
		}
		if got := strings.Join(rungs, " "); e.Served != c.served || !strings.HasPrefix(got, c.rungs) || !strings.Contains(strings.Join(words, " "), c.says) {
			t.Errorf("%s: served %v, %s: %q", name, e.Served, got, words)
		}
	}
}
