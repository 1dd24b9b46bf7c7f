package management

import (
	"slices"
	"testing"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/agent/service"
	"fairlead.dev/fairlead/internal/build"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

func api() *clusterv1.LoadBalancer {
	l := &clusterv1.LoadBalancer{ObjectMeta: metav1.ObjectMeta{Namespace: "clusters", Name: "api", UID: "l", Generation: 4}}
	l.Spec = clusterv1.LoadBalancerSpec{
		ClassName: "edge", ClusterName: "prod", Role: clusterv1.RoleControlPlane, AddressTypes: []string{"InternalIP"},
		MachineHooks: &clusterv1.MachineHooks{Type: clusterv1.HookPreDrain}, AddressPools: []string{"public"},
	}
	return l
}

// Names go both ways, and none is a Service's or one of the hub's own controller of members.
func TestNamesInTheHub(t *testing.T) {
	of := types.NamespacedName{Namespace: "clusters", Name: "api"}
	lb := &clusterv1.LoadBalancer{ObjectMeta: metav1.ObjectMeta{Name: Name(of), Annotations: map[string]string{v1alpha1.AnnotationOrigin: OriginOf(of)}}}
	g := &v1alpha1.TargetGroup{ObjectMeta: metav1.ObjectMeta{Name: GroupName(Name(of), 3), Annotations: lb.Annotations}}
	for _, o := range []metav1.Object{lb, g} {
		if got, ok := Origin(o); !ok || got != of {
			t.Errorf("%s is of %v, %v", o.GetName(), got, ok)
		}
		if _, ok := service.Origin(o); ok || o.GetName() == service.Name(of) {
			t.Errorf("%s is taken for a Service's", o.GetName())
		}
		o.SetName(o.GetName() + "x")
		if _, ok := Origin(o); ok {
			t.Errorf("%s has not the name that it would have", o.GetName())
		}
	}
	local := &v1alpha1.TargetGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "clusters", Name: "api-members-2", Labels: map[string]string{v1alpha1.LabelFor: "api", v1alpha1.LabelGeneratedFrom: FromMachine}}}
	if got, n, ok := Local(local); !ok || n != 2 || got != of {
		t.Errorf("%v, %d, %v", got, n, ok)
	}
	if _, _, ok := Local(g); ok {
		t.Error("the hub's is taken for one that was made here")
	}
}

// The hub gets a LoadBalancer that it takes whole, though its namespace is a Tenant's, and that sends to the Machines' TargetGroups.
func TestTheHubTakesWhatItGets(t *testing.T) {
	l := api()
	if !Mirrored(l) {
		t.Fatal("its targets are Machines")
	}
	w := Want(l, nil)
	in := &clusterv1.LoadBalancer{ObjectMeta: metav1.ObjectMeta{Namespace: "mgmt", Name: Name(Key(l)), Annotations: w.Annotations, Finalizers: []string{clusterv1.Finalizer}}, Spec: w.Spec}
	class := &v1alpha1.LoadBalancerClass{ObjectMeta: metav1.ObjectMeta{Name: "edge"}, Spec: v1alpha1.LoadBalancerClassSpec{Proxy: &v1alpha1.ClassProxy{Pool: "edge"}}}
	tenant := &v1alpha1.Tenant{ObjectMeta: metav1.ObjectMeta{Name: "mgmt"}, Spec: v1alpha1.TenantSpec{TargetCIDRs: []string{"10.0.0.0/8"}}}
	if problems := build.Validate(in, class, tenant); len(problems) > 0 {
		t.Errorf("%+v", problems)
	}
	if len(w.Spec.Ports) != 1 || w.Spec.Ports[0].TargetPort != 6443 || !slices.Equal(w.Spec.AddressPools, []string{"public"}) {
		t.Errorf("%+v", w.Spec)
	}
	s, err := build.Selector(in)
	if err != nil || !s.Matches(labels.Set(Labels(in.Name))) {
		t.Errorf("it selects %v: %v", s, err)
	}
	if !w.Same(in) || w.Same(nil) {
		t.Error("it is as it is wanted")
	}
	in.Spec.FailOpen = new(bool)
	if w.Same(in) {
		t.Error("it differs")
	}
}

// The hub, which doesn't know what the targets are, asks a control plane's Machines whether they are ready, unless somebody wants another check.
func TestTheHubAsksAPIServers(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*clusterv1.LoadBalancerSpec)
		want   clusterv1.HealthCheckType
	}{
		"a control plane":      {func(*clusterv1.LoadBalancerSpec) {}, clusterv1.HealthCheckHTTPS},
		"at a port of its own": {func(s *clusterv1.LoadBalancerSpec) { s.Ports = []clusterv1.Port{{Port: 443, TargetPort: 6443}} }, clusterv1.HealthCheckHTTPS},
		"with another server":  {func(s *clusterv1.LoadBalancerSpec) { s.Ports = []clusterv1.Port{{Port: 6443}, {Port: 9345}} }, ""},
		"by UDP": {func(s *clusterv1.LoadBalancerSpec) {
			s.Ports = []clusterv1.Port{{Port: 53, Protocol: clusterv1.ProtocolUDP}}
		}, ""},
		"its own": {func(s *clusterv1.LoadBalancerSpec) {
			s.HealthCheck = &clusterv1.HealthCheck{Type: clusterv1.HealthCheckTCP}
		}, clusterv1.HealthCheckTCP},
		"a workload": {func(s *clusterv1.LoadBalancerSpec) {
			s.Role, s.Ports = clusterv1.RoleWorkload, []clusterv1.Port{{Port: 443}}
		}, ""},
	} {
		l := api()
		c.change(&l.Spec)
		got := clusterv1.HealthCheckType("")
		if h := Want(l, nil).Spec.HealthCheck; h != nil {
			got = h.Type
		}
		if got != c.want {
			t.Errorf("%s: %q, not %q", name, got, c.want)
		}
	}
}

// A hub that lost a LoadBalancer is asked for the addresses that it had; one that has it is asked for no others.
func TestAddressesStay(t *testing.T) {
	l := api()
	l.Status.Addresses = []clusterv1.LoadBalancerAddress{{Type: clusterv1.AddressTypeIP, Value: "192.0.2.7"}, {Type: clusterv1.AddressTypeHostname, Value: "x.example"}}
	have := &clusterv1.LoadBalancer{}
	wished := &clusterv1.LoadBalancer{Spec: clusterv1.LoadBalancerSpec{Addresses: []string{"192.0.2.7"}}}
	refused := wished.DeepCopy()
	refused.Status.Conditions = []metav1.Condition{{Type: clusterv1.ConditionAddressGranted, Status: metav1.ConditionFalse, Reason: clusterv1.ReasonAddressInUse}}
	named := api()
	named.Spec.Addresses = []string{"192.0.2.9"}
	for name, c := range map[string]struct {
		l, have *clusterv1.LoadBalancer
		want    []string
	}{
		"new": {api(), nil, nil}, "lost": {l, nil, []string{"192.0.2.7"}}, "there": {l, have, nil}, "wished": {l, wished, []string{"192.0.2.7"}},
		"refused": {l, refused, nil}, "named": {named, refused, []string{"192.0.2.9"}},
	} {
		if got := Want(c.l, c.have).Spec.Addresses; !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// What the hub says of another generation is no word on this one.
func TestTheStatusSpeaksOfItsGeneration(t *testing.T) {
	l := api()
	l.Status.Conditions = []metav1.Condition{{Type: clusterv1.ConditionTargetsFollowed, Status: metav1.ConditionTrue, Reason: "AsExpected", ObservedGeneration: 4}}
	l.Status.Members = "1/1"
	have := &clusterv1.LoadBalancer{ObjectMeta: metav1.ObjectMeta{Generation: 9}}
	have.Status.Addresses = []clusterv1.LoadBalancerAddress{{Type: clusterv1.AddressTypeIP, Value: "192.0.2.7"}}
	have.Status.Conditions = []metav1.Condition{
		{Type: clusterv1.ConditionProgrammed, Status: metav1.ConditionTrue, Reason: "Programmed", ObservedGeneration: 9},
		{Type: clusterv1.ConditionReady, Status: metav1.ConditionTrue, Reason: "Ready", ObservedGeneration: 8},
	}
	generation := func(s clusterv1.LoadBalancerStatus, kind string) int64 {
		c := meta.FindStatusCondition(s.Conditions, kind)
		if c == nil {
			return -1
		}
		return c.ObservedGeneration
	}
	s := Status(l, have, true, "LoadBalancer x of the hub", nil)
	if generation(s, "Programmed") != 4 || generation(s, "Ready") != 0 || generation(s, "Mirrored") != 4 || generation(s, "TargetsFollowed") != 4 {
		t.Errorf("%+v", s.Conditions)
	}
	if len(s.Addresses) != 1 || s.Members != "1/1" || s.TargetKind != "Machine.cluster.x-k8s.io" || s.TargetSelector == "" || !Served(have) {
		t.Errorf("%+v", s)
	}
	l.Status, l.Generation = s, 5
	s = Status(l, have, false, "", &Problem{"HubUnreachable", "it is away"})
	if c := meta.FindStatusCondition(s.Conditions, "Mirrored"); generation(s, "Programmed") != 4 || c.Status != metav1.ConditionFalse || c.Message != "It is away." || len(s.Addresses) != 1 {
		t.Errorf("%+v", s)
	}
	s = Status(l, nil, false, "", &Problem{"HubUnreachable", "it is away"})
	if len(s.Addresses) != 1 {
		t.Errorf("a hub that can't be asked takes away %+v", s)
	}
}
