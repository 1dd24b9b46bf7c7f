package machines

import (
	"fmt"
	"slices"
	"testing"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/member"
	"fairlead.dev/fairlead/internal/proof"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
)

func lb() *clusterv1.LoadBalancer {
	return &clusterv1.LoadBalancer{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "api"}, Spec: clusterv1.LoadBalancerSpec{ClusterName: "prod"}}
}

// of is a Machine that is hooked and active.
func of(name string, change ...func(*Machine)) Machine {
	m := Machine{
		Name: name, UID: "uid-" + name, Labels: map[string]string{member.ClusterNameLabel: "prod"},
		Annotations: map[string]string{member.HookKey(clusterv1.HookPreDrain, "api"): member.HookValue, member.NameAnnotation: "api", member.StatusAnnotation: "active"},
		Addresses:   []member.Address{{Type: "InternalIP", Value: "10.0.0." + name}},
	}
	for _, f := range change {
		f(&m)
	}
	return m
}

func deleting(m *Machine) { m.Deleting = true }

// reborn is one that was made again: it has another UID, and nothing of ours.
func reborn(m *Machine) { m.UID, m.Annotations = "new-"+m.Name, nil }

// drained has the second of two targets drain, whose Machine is gone.
func drained(f *Facts) {
	f.Machines, f.Groups[0].Object.Spec.Targets[1].State = f.Machines[:1], v1alpha1.TargetDraining
}

// says has the proxy speak of it.
func says(f *Facts, state v1alpha1.ReportedState) {
	f.Groups[0].Proxies[0].Reports = map[string]*v1alpha1.ProxyReport{"ns": {Members: []v1alpha1.ReportedMember{{GroupUID: "g", TargetUID: "uid-2", Address: "10.0.0.2", State: state}}}}
}

func facts(machines ...Machine) Facts {
	g := &v1alpha1.TargetGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: GroupName("api", 0), UID: "g"}}
	for _, m := range machines {
		g.Spec.Targets = append(g.Spec.Targets, v1alpha1.Target{Name: m.Name, UID: m.UID, Addresses: []string{m.Addresses[0].Value}, State: v1alpha1.TargetServing})
	}
	well := &proof.Proxy{Name: "edge", Live: true, Renewed: true, Reported: true, Settled: true, Through: proof.Vector{TargetGroups: 9}}
	l := lb()
	return Facts{
		LoadBalancer: l, Shared: Held(member.Machines, l), Machines: machines, Waited: func(string) time.Duration { return 0 },
		Selects: func(m *Machine) bool { return m.Cluster() == "prod" },
		Groups:  []Group{{Object: g, Proxies: []*proof.Proxy{well}, Since: func(*v1alpha1.Target) proof.Version { return 9 }}},
	}
}

func placed(p Plan) []string {
	var out []string
	for i, g := range p.Groups {
		for _, t := range g {
			out = append(out, fmt.Sprintf("%d:%s=%s", i, t.Name, t.State))
		}
	}
	return out
}

func TestPlans(t *testing.T) {
	for name, c := range map[string]struct {
		machines []Machine
		change   func(*Facts)
		want     []string
		changes  bool
	}{
		"at rest":        {machines: []Machine{of("1"), of("2")}, want: []string{"0:1=Serving", "0:2=Serving"}},
		"one is deleted": {machines: []Machine{of("1", deleting), of("2")}, want: []string{"0:1=Draining", "0:2=Serving"}, changes: true},
		"one is gone":    {machines: []Machine{of("1"), of("2")}, change: func(f *Facts) { f.Machines = f.Machines[:1] }, want: []string{"0:1=Serving", "0:2=Draining"}, changes: true},
		"one is gone that drained, as proxies say": {machines: []Machine{of("1"), of("2")}, change: func(f *Facts) { drained(f); says(f, v1alpha1.ReportedGone) }, want: []string{"0:1=Serving"}, changes: true},
		"one is gone that drains":                  {machines: []Machine{of("1"), of("2")}, change: func(f *Facts) { drained(f); says(f, v1alpha1.ReportedDraining) }, want: []string{"0:1=Serving", "0:2=Draining"}},
		"one is gone that drains, for too long": {machines: []Machine{of("1"), of("2")}, change: func(f *Facts) {
			drained(f)
			f.Waited = func(string) time.Duration { return DefaultMaxWait }
		}, want: []string{"0:1=Serving"}, changes: true},
		"one is gone that drains, with its Cluster": {machines: []Machine{of("1"), of("2")}, change: func(f *Facts) { drained(f); f.Shared.ClusterLeaving = true }, want: []string{"0:1=Serving"}, changes: true},
		"one is gone, and no other is healthy":      {machines: []Machine{of("1"), of("2")}, change: func(f *Facts) { f.Machines, f.Groups[0].Proxies = f.Machines[:1], nil }, want: []string{"0:1=Serving", "0:2=Serving"}},
		"one is gone, and the other leaves":         {machines: []Machine{of("1", deleting), of("2")}, change: func(f *Facts) { f.Machines, f.Groups[0].Proxies = f.Machines[:1], nil }, want: []string{"0:1=Draining", "0:2=Draining"}, changes: true},
		"all are back, with other UIDs": {machines: []Machine{of("1"), of("2")}, change: func(f *Facts) {
			f.Machines = []Machine{of("1", reborn), of("2", reborn)}
		}, want: []string{"0:1=Serving", "0:2=Serving"}, changes: true},
		"one of them is hooked, and takes its place": {machines: []Machine{of("1"), of("2")}, change: func(f *Facts) {
			f.Machines = []Machine{of("1", func(m *Machine) { m.UID = "new" }), of("2", reborn)}
		}, want: []string{"0:1=Serving", "0:2=Serving"}, changes: true},
		"its Cluster is to be noted": {machines: []Machine{of("1")}, change: func(f *Facts) { f.Cluster = "prod" }, want: []string{"0:1=Serving"}, changes: true},
		"one is gone, and paused":    {machines: []Machine{of("1"), of("2")}, change: func(f *Facts) { f.Machines, f.Shared.Frozen = f.Machines[:1], "paused" }, want: []string{"0:1=Serving", "0:2=Serving"}},
		"deleted, and it moves": {machines: []Machine{of("1", deleting, func(m *Machine) { m.Annotations = map[string]string{clusterv1.MoveAnnotation: ""} }), of("2")},
			want: []string{"0:1=Serving", "0:2=Serving"}},
		"deleted, and it is paused": {machines: []Machine{of("1", deleting, func(m *Machine) { m.Annotations[clusterv1.PausedAnnotation] = "" }), of("2")}, want: []string{"0:1=Serving", "0:2=Serving"}},
		"its own hook is gone":      {machines: []Machine{of("1", func(m *Machine) { delete(m.Annotations, member.HookKey(clusterv1.HookPreDrain, "api")) })}, want: []string{"0:1=Serving"}, changes: true},
		"not of the Cluster":        {machines: []Machine{of("1", func(m *Machine) { m.Labels[member.ClusterNameLabel] = "other" }), of("2")}, want: []string{"0:1=Draining", "0:2=Serving"}, changes: true},
		"a new one is hooked first": {machines: []Machine{of("1")}, change: func(f *Facts) {
			f.Machines = append(f.Machines, of("2", func(m *Machine) { m.Annotations = nil }))
		}, want: []string{"0:1=Serving"}, changes: true},
		"no addresses for a moment": {machines: []Machine{of("1")}, change: func(f *Facts) { f.Machines[0].Addresses = nil }, want: []string{"0:1=Serving"}},
		"no group yet":              {change: func(f *Facts) { f.Groups = nil }, changes: true},
	} {
		f := facts(c.machines...)
		if c.change != nil {
			c.change(&f)
		}
		p := Make(f)
		if got := placed(p); !slices.Equal(got, c.want) || p.Changes(f) != c.changes {
			t.Errorf("%s: %v, changes %v: %+v", name, got, p.Changes(f), p.Members)
		}
	}
}

// A Machine that drains is asked about at the address that it had, and its load balancer's own address is nobody's.
func TestAddressesOfAPlan(t *testing.T) {
	f := facts(of("1"), of("2", deleting))
	f.Machines[0].Addresses = []member.Address{{Type: "InternalIP", Value: "192.0.2.1"}, {Type: "InternalIP", Value: "10.0.1.1/24"}}
	f.Machines[1].Addresses = []member.Address{{Type: "InternalIP", Value: "10.0.1.2"}}
	f.LoadBalancer.Status.Addresses = []clusterv1.LoadBalancerAddress{{Value: "192.0.2.1"}}
	g := Make(f).Groups[0]
	if !slices.Equal(g[0].Addresses, []string{"10.0.1.1"}) || !slices.Equal(g[1].Addresses, []string{"10.0.0.2"}) {
		t.Errorf("%+v", g)
	}
}

// A hundred targets are one group's; one that stays keeps its place.
func TestManyMachines(t *testing.T) {
	f := facts()
	for i := range 101 {
		f.Machines = append(f.Machines, of(fmt.Sprint(100+i), func(m *Machine) { m.Addresses[0].Value = fmt.Sprintf("10.0.1.%d", i) }))
	}
	p := Make(f)
	if len(p.Groups) != 2 || len(p.Groups[0]) != 100 || len(p.Groups[1]) != 1 || p.Groups[1][0].Name != "200" {
		t.Fatalf("%v", placed(p))
	}
	second := &v1alpha1.TargetGroup{ObjectMeta: metav1.ObjectMeta{Name: GroupName("api", 1), UID: "h"}, Spec: v1alpha1.TargetGroupSpec{Targets: p.Groups[1]}}
	f.Groups[0].Object.Spec.Targets = p.Groups[0]
	f.Groups = append(f.Groups, Group{Object: second, Since: func(*v1alpha1.Target) proof.Version { return 9 }})
	f.Machines = f.Machines[50:]
	for i := range 50 {
		f.Groups[0].Object.Spec.Targets[i].State = v1alpha1.TargetDraining
	}
	f.Waited = func(string) time.Duration { return DefaultMaxWait }
	if p = Make(f); len(p.Groups) != 2 || len(p.Groups[0]) != 50 || len(p.Groups[1]) != 1 {
		t.Errorf("%v", placed(p))
	}
}

// What isn't selected any more keeps its hook until it is drained, then is forgotten.
func TestAMachineIsForgotten(t *testing.T) {
	f := facts(of("1"))
	f.Selects = func(*Machine) bool { return false }
	f.Machines[0].Annotations = member.Annotate(f.Machines[0].Annotations, "api", member.Decision{State: member.Removed}, clusterv1.HookPreDrain, false)
	f.Groups[0].Object.Spec.Targets = nil
	p := Make(f)
	if m := p.Members[0]; !m.Forgotten || len(m.Annotations(f.LoadBalancer)) != 0 || !p.Changes(f) {
		t.Errorf("%+v", m)
	}
	f.Machines[0].Annotations = nil
	if p = Make(f); len(p.Members) != 0 || p.Changes(f) {
		t.Errorf("%+v", p)
	}
}

func TestGroupNames(t *testing.T) {
	for name, want := range map[string]string{
		"api-members-0": "api 0", "a-members-1-members-12": "a-members-1 12", "api-members-01": "", "api-members--1": "", "-members-0": "", "nodes-0": "", "api-members-x": "",
	} {
		got := ""
		if lb, number, ok := GroupOf(name); ok {
			got = fmt.Sprint(lb, " ", number)
		}
		if got != want {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestWhoseMachines(t *testing.T) {
	in := func(name, cluster string) Machine {
		return Machine{Name: name, Labels: map[string]string{member.ClusterNameLabel: cluster}}
	}
	none := func(l *clusterv1.LoadBalancer) { l.Spec.ClusterName = "" }
	noted := func(l *clusterv1.LoadBalancer) { l.Spec.ClusterName, l.Name = "", "noted" }
	for name, c := range map[string]struct {
		change  func(*clusterv1.LoadBalancer)
		all     []Machine
		cluster string
		foreign []string
		problem bool
	}{
		"named":                {func(*clusterv1.LoadBalancer) {}, []Machine{in("a", "prod")}, "prod", nil, false},
		"named, and others":    {func(*clusterv1.LoadBalancer) {}, []Machine{in("b", "test"), in("a", "prod")}, "prod", []string{"b"}, false},
		"that of all selected": {none, []Machine{in("a", "test")}, "test", nil, false},
		"of two":               {none, []Machine{in("a", "test"), in("b", "prod")}, "", nil, true},
		"of none":              {none, nil, "", nil, false},
		"of one that is noted": {noted, []Machine{in("a", "test"), in("b", "prod")}, "prod", []string{"a"}, false},
		"of none but noted":    {noted, nil, "prod", nil, false},
	} {
		l := lb()
		c.change(l)
		was := ""
		if l.Name == "noted" {
			was = "prod"
		}
		cluster, foreign, problem := Cluster(l, labels.Everything(), c.all, was)
		if cluster != c.cluster || !slices.Equal(foreign, c.foreign) || (problem != "") != c.problem {
			t.Errorf("%s: %q, %v, %q", name, cluster, foreign, problem)
		}
	}
}

func TestHeld(t *testing.T) {
	l := lb()
	if got, want := Held(member.Machines, l), (member.LoadBalancer{Hooked: true, MaxWait: DefaultMaxWait, Release: true}); got != want {
		t.Errorf("%+v", got)
	}
	if got, want := Held(member.Nodes, l), (member.LoadBalancer{MaxWait: DefaultMaxWait, Release: true}); got != want {
		t.Errorf("%+v", got)
	}
	l.Spec.MachineHooks = &clusterv1.MachineHooks{Type: clusterv1.HookNone, MaxWait: &metav1.Duration{Duration: time.Minute}, OnMaxWait: clusterv1.OnMaxWaitBlock}
	if got, want := Held(member.Machines, l), (member.LoadBalancer{MaxWait: time.Minute}); got != want {
		t.Errorf("%+v", got)
	}
}

func TestRead(t *testing.T) {
	m := Read(&unstructured.Unstructured{Object: map[string]any{
		"kind": "Machine", "metadata": map[string]any{"name": "a", "uid": "u"}, "spec": map[string]any{"failureDomain": "eu-1a"},
		"status": map[string]any{
			"addresses":  []any{map[string]any{"type": "InternalIP", "address": "10.0.0.1"}, "odd"},
			"conditions": []any{map[string]any{"type": "Updating", "status": "True"}},
			"v1beta2": map[string]any{"conditions": []any{
				map[string]any{"type": "HealthCheckSucceeded", "status": "False"}, map[string]any{"type": "APIServerPodHealthy", "status": "False"}, map[string]any{"type": "NodeReady", "status": "True"},
			}},
		},
	}})
	if m.Name != "a" || m.Ready != "False" || m.UID != "u" || m.Zone != "eu-1a" || len(m.Addresses) != 1 || m.Cause != member.InPlaceUpdate || !m.Dead || m.Deleting || m.Disabled() || m.Still() != "" {
		t.Errorf("%+v", m)
	}
}

// Whoever manages a load balancer is asked for what drains until it stands in no TargetGroup, though that isn't written yet.
func TestWhatDrainsIsAskedForWhileItIsListed(t *testing.T) {
	f := facts(of("1"))
	f.Asks, f.Selects = true, func(*Machine) bool { return false }
	f.Groups[0].Sees = func(int) member.Sight { return member.Sight{By: "x", Gone: true} }
	m, target := &f.Machines[0], &f.Groups[0].Object.Spec.Targets[0]
	target.State = v1alpha1.TargetDraining
	m.Annotations = member.Annotate(nil, "api", member.Decision{State: member.Removed, Asked: v1alpha1.TargetDraining}, clusterv1.HookPreDrain, false)
	m.Annotations[member.AnswerPrefix+"api"] = string(member.AnswerGone)
	p := Make(f)
	if got := p.Members[0].Annotations(f.LoadBalancer); len(placed(p)) != 0 || member.WantedIn(got, "api") != v1alpha1.TargetDraining || got[member.AnswerPrefix+"api"] == "" {
		t.Errorf("%v, %v", placed(p), got)
	}
	f.Groups[0].Object.Spec.Targets = nil
	if got := Make(f).Members[0].Annotations(f.LoadBalancer); len(got) != 0 {
		t.Errorf("it has %v", got)
	}
}
