package member

import (
	"context"
	"strings"
	"testing"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/controller/kit"
	"fairlead.dev/fairlead/internal/machines"
	rules "fairlead.dev/fairlead/internal/member"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A target goes when no EndpointSlice has it ready, whosever, and its connections had their time since; what was seen of it
// before it was to drain, or while it was ready again, doesn't count.
func TestAServicesTargetsGoByItsEndpointSlices(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	r := &Reconciler{Options: Options{Now: func() time.Time { return now }, Versions: kit.NewVersions()}, pins: map[pin]pinned{}}
	of := types.NamespacedName{Namespace: "ns", Name: "api"}
	g := &v1alpha1.TargetGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "api-members-0", UID: "g", ResourceVersion: "1", Generation: 1}}
	g.Spec.Targets = []v1alpha1.Target{{Name: "a", UID: "a", Addresses: []string{"10.0.0.1", "fd00::1"}, State: v1alpha1.TargetDraining}}
	slice := func(owner, address string, ready *bool) discoveryv1.EndpointSlice {
		return discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{Name: "s", Labels: map[string]string{v1alpha1.LabelFor: owner}},
			Endpoints:  []discoveryv1.Endpoint{{Addresses: []string{address}, Conditions: discoveryv1.EndpointConditions{Ready: ready}}},
		}
	}
	sees := func(slices ...discoveryv1.EndpointSlice) (rules.Sight, time.Duration) {
		e := &endpoints{
			of: of, service: "api", settle: time.Minute, now: r.Now, quiet: func(g *v1alpha1.TargetGroup, t *v1alpha1.Target, ready bool) time.Time {
				return r.quiet(of, g, t, ready)
			},
			list: func(context.Context) ([]discoveryv1.EndpointSlice, error) { return slices, nil },
		}
		seen, err := e.sees(t.Context(), g, func(t *v1alpha1.Target) entry { return r.since(of, g, t) })
		if err != nil {
			t.Fatal(err)
		}
		return seen(0), e.again()
	}
	yes, no := true, false
	for _, step := range []struct {
		what  string
		after time.Duration
		state v1alpha1.TargetState // "": as before
		slice []discoveryv1.EndpointSlice
		gone  bool
		says  string
		again time.Duration
	}{
		{what: "still ready", slice: []discoveryv1.EndpointSlice{slice("api", "10.0.0.1", &yes)}, says: "EndpointSlice s has it ready"},
		{what: "by somebody else", after: time.Hour, slice: []discoveryv1.EndpointSlice{slice("", "10.0.0.1", &yes)}, says: "EndpointSlice s has it ready"},
		{what: "not said", slice: []discoveryv1.EndpointSlice{slice("api", "10.0.0.1", nil)}, says: "EndpointSlice s has it ready"},
		{what: "by its other address", slice: []discoveryv1.EndpointSlice{slice("api", "fd00:0::1", &yes)}, says: "EndpointSlice s has it ready"},
		{what: "not ready", slice: []discoveryv1.EndpointSlice{slice("api", "10.0.0.1", &no), slice("api", "10.0.0.2", &yes)}, says: "have until 2026-01-01T01:01:00Z to end", again: time.Minute},
		{what: "a while later", after: 59 * time.Second, says: "have until 2026-01-01T01:01:00Z", again: time.Second},
		{what: "ready again", slice: []discoveryv1.EndpointSlice{slice("", "10.0.0.1", &yes)}, says: "has it ready"},
		{what: "and not", after: time.Second, says: "have until 2026-01-01T01:02:00Z", again: time.Minute},
		{what: "all its time", after: time.Minute, gone: true},
		{what: "it serves", state: v1alpha1.TargetServing, slice: []discoveryv1.EndpointSlice{slice("api", "10.0.0.1", &yes)}},
		{what: "and drains once more", state: v1alpha1.TargetDraining, says: "have until 2026-01-01T01:03:00Z", again: time.Minute},
	} {
		now = now.Add(step.after)
		if step.state != "" {
			g = g.DeepCopy()
			g.Spec.Targets[0].State = step.state
			g.Generation++
		}
		s, again := sees(step.slice...)
		if s.Gone != step.gone || !strings.Contains(s.Waits, step.says) || again != step.again {
			t.Errorf("%s: %+v, again after %s", step.what, s, again)
		}
	}
}

// A target is active where its own EndpointSlice has it ready.
func TestAServicesTargetsServeByItsOwnEndpointSlices(t *testing.T) {
	yes, no := true, false
	slice := func(owner string, ready *bool) discoveryv1.EndpointSlice {
		return discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{Name: "s", Labels: map[string]string{v1alpha1.LabelFor: owner}},
			Endpoints:  []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.1"}, Conditions: discoveryv1.EndpointConditions{Ready: ready}}},
		}
	}
	for name, c := range map[string]struct {
		slices  []discoveryv1.EndpointSlice
		ready   *bool
		healthy int
		why     string
	}{
		"ready":              {slices: []discoveryv1.EndpointSlice{slice("api", &yes)}, healthy: 1},
		"listed nowhere":     {why: "no EndpointSlice lists it"},
		"by somebody else":   {slices: []discoveryv1.EndpointSlice{slice("", &yes)}, why: "no EndpointSlice lists it"},
		"its Cluster says":   {slices: []discoveryv1.EndpointSlice{slice("api", &no)}, ready: &no, why: "see the conditions"},
		"nobody says":        {slices: []discoveryv1.EndpointSlice{slice("api", &no)}, why: "EndpointSlice s"},
		"all are used, open": {slices: []discoveryv1.EndpointSlice{slice("api", &yes)}, ready: &no, healthy: 1},
	} {
		e := &endpoints{of: types.NamespacedName{Namespace: "ns", Name: "api"}, service: "api", slices: c.slices}
		s := e.serves(&v1alpha1.TargetGroup{}, &v1alpha1.Target{Addresses: []string{"10.0.0.1"}, Ready: c.ready})
		if s.Healthy != c.healthy || s.Live != 1 || s.Unhealthy != 1-c.healthy || !strings.Contains(s.Why, c.why) {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

// Connections have the LoadBalancer's time, else the class's, else five minutes; where they are never cut, maxWait.
func TestConnectionsHaveTheirTime(t *testing.T) {
	d := func(d time.Duration) *metav1.Duration { return &metav1.Duration{Duration: d} }
	for _, c := range []struct {
		own, class, maxWait *metav1.Duration
		want                time.Duration
	}{
		{want: 5 * time.Minute},
		{class: d(time.Minute), want: time.Minute},
		{own: d(time.Second), class: d(time.Minute), want: time.Second},
		{own: d(0), want: machines.DefaultMaxWait},
		{class: d(0), maxWait: d(time.Hour), want: time.Hour},
	} {
		l := &clusterv1.LoadBalancer{Spec: clusterv1.LoadBalancerSpec{ClusterName: "prod", DrainTimeout: c.own, MachineHooks: &clusterv1.MachineHooks{MaxWait: c.maxWait}}}
		class := &v1alpha1.LoadBalancerClass{Spec: v1alpha1.LoadBalancerClassSpec{Defaults: &v1alpha1.ClassDefaults{DrainTimeout: c.class}}}
		if got := settle(l, class); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}
