package agent_test

import (
	"testing"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/internal/agent/service"
	"fairlead.dev/fairlead/internal/app"
	"fairlead.dev/fairlead/internal/cli"
)

// What the agent told of a Service is found by who explains it; who may not read the hub's events is told none.
func TestEventsAreExplained(t *testing.T) {
	w := newWorld(t)
	w.create("other")
	s := w.create("web")
	w.says("other", clusterv1.ReasonProgrammed)
	w.says("web", clusterv1.ReasonProgrammed)
	scheme, err := app.Scheme()
	w.must(err)
	tenant, err := cli.NewTenant(w.tenant.RESTConfig(), scheme)
	w.must(err)
	hub, err := cli.NewHub(w.agentHub, scheme)
	w.must(err)
	o, err := hub.Namespace(t.Context(), w.hubNamespace)
	w.must(err)
	w.must(tenant.ReadService(t.Context(), service.Key(s), o))
	w.must(hub.ReadEvents(t.Context(), cli.LoadBalancerOf(w.hubNamespace, service.Key(s)), o))
	e := cli.ExplainService(o, w.hubNamespace, service.Key(s))
	if len(e.Events) != 1 || e.Events[0].Reason != clusterv1.ReasonProgrammed || e.Events[0].Name != service.Key(s).String() || e.Events[0].Last.IsZero() {
		t.Errorf("%+v", e.Events)
	}
}
