package controller_test

import (
	"context"
	"errors"
	"strings"

	"fairlead.dev/fairlead/internal/app"
	"fairlead.dev/fairlead/internal/cli"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// drainedMachine: a person drains a Machine by the TargetGroup that it stands in. It takes no new connection, that is waited for and
// ends, the manager doesn't take it back, and an undo does. While the Cluster is paused it is turned down.
func drainedMachine(f *fleetOf) {
	f.machine("a1", "prod")
	f.machine("a2", "prod")
	f.states("a1=active", "a2=active")
	scheme, err := app.Scheme()
	if err != nil {
		f.t.Fatal(err)
	}
	hub, err := cli.NewHub(f.control.RESTConfig(), scheme)
	if err != nil {
		f.t.Fatal(err)
	}
	targets := cli.Targets{Namespace: f.name, Group: "api-members-0", Target: "a1"}
	plan := func() cli.Drain {
		f.t.Helper()
		o, err := hub.Namespace(f.t.Context(), targets.Namespace)
		if err := errors.Join(err, hub.Machines(f.t.Context(), o, targets)); err != nil {
			f.t.Fatal(err)
		}
		d, err := cli.PlanDrain(o, targets)
		if err != nil {
			f.t.Fatal(err)
		}
		return d
	}
	d := plan()
	if d.Refuse() || len(d.LoadBalancers) != 1 || d.LoadBalancers[0].Name != "api" || d.LoadBalancers[0].Before != 2 || d.LoadBalancers[0].After != 1 {
		f.t.Errorf("planned %+v", d)
	}
	f.proxy.busy = map[string]int64{"a1": 2}
	if _, err := hub.DrainTargets(f.t.Context(), targets, false); err != nil {
		f.t.Fatal(err)
	}
	f.states("a1=disabling", "a2=active")
	// Follow as the command does, while the proxy says what it says.
	follow := func(until string) {
		f.t.Helper()
		f.until("the drain to say "+until, func(ctx ctx) error {
			once, stop := context.WithCancel(ctx)
			defer stop()
			if err := d.Follow(once, hub, targets, soon, func(*cli.Drain) { stop() }); err != nil {
				return err
			}
			if text := string(d.State) + " " + d.Message; !strings.Contains(text, until) {
				return errors.New(text)
			}
			return nil
		})
	}
	follow("Draining a1: 2 open connections")
	f.proxy.busy = nil
	follow("Drained every proxy has let go")
	f.states("a1=disabled", "a2=active")
	f.places("a1=Draining", "a2=Serving")
	if still, err := hub.DrainTargets(f.t.Context(), targets, true); err != nil || still != "" {
		f.t.Errorf("%q, %v", still, err)
	}
	f.states("a1=active", "a2=active")

	c := f.newCluster("prod", nil)
	f.change(c, func(o client.Object) {
		if err := unstructured.SetNestedField(o.(*unstructured.Unstructured).Object, true, "spec", "paused"); err != nil {
			f.t.Error(err)
		}
	})
	if d := plan(); !d.Refuse() || !strings.Contains(d.Message, "Machine a1: its Cluster is paused") {
		f.t.Errorf("paused: %+v", d)
	}
}
