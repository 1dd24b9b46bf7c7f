package endpoint

import (
	"context"
	"strings"
	"testing"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// hubSays is a hub elsewhere, and what it isn't sure of.
type hubSays struct {
	why   string
	asked int
}

func (h *hubSays) Unsure(context.Context, *clusterv1.LoadBalancer) string {
	h.asked++
	return h.why
}

// Of a hub elsewhere nobody is told what its status here said once; what a Cluster has stays, and is restored, without a word of the hub.
func TestAnotherClustersHubIsAsked(t *testing.T) {
	r, here := stage(t, interceptor.Funcs{}, clusterWith("", 0, names), balancer(frontName, served))
	says := &hubSays{why: "it is away"}
	r.Elsewhere = says
	if again := rest(t, r).RequeueAfter; again != askAgain {
		t.Errorf("it is asked again after %s", again)
	}
	if got := shows(t, here)[0]; got != "Cluster -" {
		t.Error(got)
	}
	l := &clusterv1.LoadBalancer{}
	if err := here.Get(t.Context(), client.ObjectKey{Namespace: key.Namespace, Name: frontName}, l); err != nil {
		t.Fatal(err)
	}
	if c := meta.FindStatusCondition(l.Status.Conditions, clusterv1.ConditionEndpointPublished); c == nil || c.Reason != clusterv1.ReasonPending || !strings.Contains(c.Message, "it is away") {
		t.Errorf("%+v", c)
	}
	says.why = ""
	rest(t, r)
	if got := shows(t, here)[0]; got != "Cluster 192.0.2.7:6443" {
		t.Error(got)
	}
	says.why, says.asked = "it is another one", 0
	c := clusterWith("", 0)
	if err := here.Get(t.Context(), key, c); err != nil {
		t.Fatal(err)
	}
	delete(c.Object["spec"].(map[string]any), "controlPlaneEndpoint")
	if err := here.Update(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	rest(t, r)
	if got := shows(t, here)[0]; got != "Cluster 192.0.2.7:6443" || says.asked > 0 {
		t.Errorf("%s, asked %d times", got, says.asked)
	}
}
