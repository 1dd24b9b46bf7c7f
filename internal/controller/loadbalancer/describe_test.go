package loadbalancer

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/internal/controller/ledger"
	"fairlead.dev/fairlead/internal/ipam"
	"fairlead.dev/fairlead/internal/lb"
	"fairlead.dev/fairlead/internal/member"
	"fairlead.dev/fairlead/internal/proof"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func port(n int32) clusterv1.Port { return clusterv1.Port{Port: n, Protocol: clusterv1.ProtocolTCP} }

// plain is a LoadBalancer that all is well with.
func plain(change ...func(*facts)) facts {
	f := facts{
		lb:         &clusterv1.LoadBalancer{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "web", Generation: 3}, Spec: clusterv1.LoadBalancerSpec{ClassName: "edge", Ports: []clusterv1.Port{port(80), port(443)}}},
		grant:      ledger.Grant{Held: []ipam.Entry{{Name: "192.0.2.7", Address: netip.MustParseAddr("192.0.2.7"), Pool: "public"}}},
		pool:       "edge",
		programmed: proof.Programmed{Serving: []string{"edge-1"}},
		groups:     []string{"nodes-0"},
	}
	for _, c := range change {
		c(&f)
	}
	return f
}

func refusedBy(p ...proof.Problem) func(*facts) {
	return func(f *facts) { f.programmed.Problems = p }
}

// Whoever manages the load balancer gives the address, as spec.endpoint says it, and is asked for nothing else.
func TestALoadBalancerOfOthersIsReady(t *testing.T) {
	for host, want := range map[string]string{"": "", "192.0.2.200": "IP 192.0.2.200 IPv4", "api.example.com": "Hostname api.example.com "} {
		f := plain(func(f *facts) {
			f.grant, f.programmed, f.members, f.others = ledger.Grant{}, proof.Programmed{}, member.Machines, &clusterv1.ObjectReference{Kind: "F5Pool", Name: "x"}
			f.lb.Spec.Endpoint = &clusterv1.Endpoint{Host: host, Port: 6443}
		})
		s := describe(f)
		got := ""
		for _, a := range s.Addresses {
			got += string(a.Type) + " " + a.Value + " " + string(a.Family)
		}
		for _, c := range []string{clusterv1.ConditionAccepted, clusterv1.ConditionAddressGranted, clusterv1.ConditionProgrammed, clusterv1.ConditionReady} {
			if !meta.IsStatusConditionTrue(s.Conditions, c) {
				t.Errorf("%q: %+v", host, s.Conditions)
			}
		}
		if got != want || meta.IsStatusConditionTrue(s.Conditions, clusterv1.ConditionDegraded) {
			t.Errorf("%q: %q, %+v", host, got, s.Conditions)
		}
	}
}

func problem(port uint16, effect lb.Effect, reason string) func(*facts) {
	return func(f *facts) {
		o := lb.ObjectRef{Kind: lb.KindLoadBalancer, Namespace: "prod", Name: "web", Port: port}
		if port != 0 {
			o.Protocol = lb.TCP
		}
		f.problems = append(f.problems, lb.Problem{Object: o, Field: "spec.x", Reason: reason, Message: "cause: fix", Effect: effect})
	}
}

func noGrant(f *facts) {
	f.grant = ledger.Grant{Reason: clusterv1.ReasonPoolExhausted, Message: "The pool is empty: extend it."}
}

// granted are the ports that the ledger gave; the others wait.
func granted(ports ...int32) func(*facts) {
	return func(f *facts) {
		h := ipam.Holder{Ref: ipam.Ref{Namespace: "prod", Name: "web"}}
		for _, p := range ports {
			h.Ports = append(h.Ports, ipam.Port{Protocol: "TCP", Number: p})
		}
		f.grant.Held[0].Holders = []ipam.Holder{h}
		if len(ports) < len(f.lb.Spec.Ports) {
			f.grant.Reason, f.grant.Message = clusterv1.ReasonPortInUse, "It is held: use another."
		}
	}
}

// published has the controller of endpoints say something.
func published(status metav1.ConditionStatus, reason string) func(*facts) {
	return func(f *facts) {
		f.lb.Spec.Role = clusterv1.RoleControlPlane
		f.lb.Status.Conditions = []metav1.Condition{{Type: clusterv1.ConditionEndpointPublished, Status: status, Reason: reason, Message: "Mend it.", ObservedGeneration: 3}}
	}
}

// TestDescribe reads as: these facts make these conditions, and these errors of ports.
func TestDescribe(t *testing.T) {
	onWait := func(f *facts) {
		f.programmed = proof.Programmed{Waiting: []proof.Waiting{{Proxy: "edge-2", Why: "has not applied it yet"}}}
	}
	for name, c := range map[string]struct {
		facts facts
		want  string
	}{
		"all well":                             {plain(), "Accepted=True/Accepted AddressGranted=True/AddressGranted Programmed=True/Programmed Ready=True/Ready Degraded=False/AsExpected"},
		"waiting":                              {plain(onWait), "Accepted=True/Accepted AddressGranted=True/AddressGranted Programmed=False/WaitingForProxies Ready=False/WaitingForProxies Degraded=False/AsExpected"},
		"starting":                             {plain(func(f *facts) { f.programmed = proof.Programmed{Starting: []string{"edge-1"}} }), "Accepted=True/Accepted AddressGranted=True/AddressGranted Programmed=False/WaitingForProxies Ready=False/WaitingForProxies Degraded=False/AsExpected"},
		"all silent":                           {plain(func(f *facts) { f.programmed = proof.Programmed{Silent: []string{"edge-1"}} }), "Accepted=True/Accepted AddressGranted=True/AddressGranted Programmed=False/NoProxies Ready=False/NoProxies Degraded=False/AsExpected"},
		"no address":                           {plain(noGrant), "Accepted=True/Accepted AddressGranted=False/PoolExhausted Programmed=False/Pending Ready=False/PoolExhausted Degraded=False/AsExpected"},
		"refused as a whole":                   {plain(noGrant, problem(0, lb.Refused, clusterv1.ReasonClassNotFound)), "Accepted=False/ClassNotFound AddressGranted=False/Pending Programmed=False/Pending Ready=False/ClassNotFound Degraded=False/AsExpected TCP/80=ClassNotFound TCP/443=ClassNotFound"},
		"every port refused":                   {plain(noGrant, problem(80, lb.Refused, "NotSupported"), problem(443, lb.Refused, "NotSupported")), "Accepted=False/NotSupported AddressGranted=False/Pending Programmed=False/Pending Ready=False/NotSupported Degraded=False/AsExpected TCP/80=NotSupported TCP/443=NotSupported"},
		"one port refused":                     {plain(problem(80, lb.Refused, "NotSupported")), "Accepted=True/Accepted AddressGranted=True/AddressGranted Programmed=True/Programmed Ready=True/Ready Degraded=True/PartlyServed TCP/80=NotSupported"},
		"one not bound":                        {plain(refusedBy(proof.Problem{Protocol: "TCP", Port: 80, Reason: "PortNotPermitted"})), "Accepted=True/Accepted AddressGranted=True/AddressGranted Programmed=True/Programmed Ready=True/Ready Degraded=True/PartlyServed TCP/80=PortNotPermitted"},
		"none bound":                           {plain(refusedBy(proof.Problem{Reason: "AddressNotLocal"})), "Accepted=True/Accepted AddressGranted=True/AddressGranted Programmed=False/NotServed Ready=False/NotServed Degraded=False/AsExpected TCP/80=AddressNotLocal TCP/443=AddressNotLocal"},
		"none bound any more, but it once was": {plain(refusedBy(proof.Problem{Reason: "PortInUse"}), func(f *facts) { f.kept = true }), "Accepted=True/Accepted AddressGranted=True/AddressGranted Programmed=True/Programmed Ready=True/Ready Degraded=True/NotServed TCP/80=PortInUse TCP/443=PortInUse"},
		"kept without proxies":                 {plain(func(f *facts) { f.kept, f.programmed = true, proof.Programmed{} }), "Accepted=True/Accepted AddressGranted=True/AddressGranted Programmed=True/Programmed Ready=True/Ready Degraded=False/AsExpected"},
		"suspended keeps its address":          {plain(problem(0, lb.Refused, clusterv1.ReasonSuspended)), "Accepted=False/Suspended AddressGranted=True/AddressGranted Programmed=False/Pending Ready=False/Suspended Degraded=False/AsExpected TCP/80=Suspended TCP/443=Suspended"},
		"a comfort that a proxy leaves out": {plain(func(f *facts) {
			f.programmed.Without = []proof.Problem{{Field: "spec.proxy.clientAddress", Reason: "NotSupported", Message: "it can't be kept"}}
		}), "Accepted=True/Accepted AddressGranted=True/AddressGranted Programmed=True/Programmed Ready=True/Ready Degraded=True/NotSupported"},
		"a comfort left out":      {plain(problem(0, lb.ServedWithout, "NotSupported")), "Accepted=True/Accepted AddressGranted=True/AddressGranted Programmed=True/Programmed Ready=True/Ready Degraded=True/NotSupported"},
		"no targets":              {plain(func(f *facts) { f.groups = nil }), "Accepted=True/Accepted AddressGranted=True/AddressGranted Programmed=True/Programmed Ready=True/Ready Degraded=True/NoTargets"},
		"all ports granted":       {plain(granted(80, 443)), "Accepted=True/Accepted AddressGranted=True/AddressGranted Programmed=True/Programmed Ready=True/Ready Degraded=False/AsExpected"},
		"one port is another's":   {plain(granted(80)), "Accepted=True/Accepted AddressGranted=True/AddressGranted Programmed=True/Programmed Ready=True/Ready Degraded=True/PartlyServed TCP/443=PortInUse"},
		"every port is another's": {plain(granted()), "Accepted=True/Accepted AddressGranted=True/AddressGranted Programmed=False/NotServed Ready=False/NotServed Degraded=False/AsExpected TCP/80=PortInUse TCP/443=PortInUse"},
		"no target allowed":       {plain(func(f *facts) { f.barren = &proofless{clusterv1.ReasonTargetNotAllowed, "no target: mend it"} }), "Accepted=True/Accepted AddressGranted=True/AddressGranted Programmed=True/Programmed Ready=True/Ready Degraded=True/TargetNotAllowed"},
		"a required family is missing": {plain(func(f *facts) {
			f.grant.Short, f.grant.Reason, f.grant.Message = true, clusterv1.ReasonFamilyNotInPool, "The pool has none: extend it."
		}), "Accepted=True/Accepted AddressGranted=False/FamilyNotInPool Programmed=True/Programmed Ready=False/FamilyNotInPool Degraded=True/FamilyNotInPool"},
		"an endpoint unpublished": {
			plain(published(metav1.ConditionFalse, clusterv1.ReasonEndpointConflict)),
			"EndpointPublished=False/EndpointConflict Accepted=True/Accepted AddressGranted=True/AddressGranted Programmed=True/Programmed Ready=False/EndpointConflict Degraded=False/AsExpected",
		},
		"another's is published": {
			plain(published(metav1.ConditionFalse, clusterv1.ReasonNotPrimary)),
			"EndpointPublished=False/NotPrimary Accepted=True/Accepted AddressGranted=True/AddressGranted Programmed=True/Programmed Ready=True/Ready Degraded=False/AsExpected",
		},
		"a wish unfulfilled": {plain(func(f *facts) { f.grant.Reason, f.grant.Message = clusterv1.ReasonAddressInUse, "It is held." }), "Accepted=True/Accepted AddressGranted=True/AddressGranted Programmed=True/Programmed Ready=True/Ready Degraded=True/AddressInUse"},
	} {
		t.Run(name, func(t *testing.T) {
			s := describe(c.facts)
			var got []string
			for _, x := range s.Conditions {
				got = append(got, x.Type+"="+string(x.Status)+"/"+x.Reason)
				if x.ObservedGeneration != 3 {
					t.Errorf("%s speaks of generation %d", x.Type, x.ObservedGeneration)
				}
				if x.Status == metav1.ConditionFalse && x.Reason != clusterv1.ReasonAsExpected && !strings.HasSuffix(x.Message, ".") {
					t.Errorf("%s says %q", x.Type, x.Message)
				}
			}
			for _, p := range s.Ports {
				if p.Error != "" {
					got = append(got, ipam.Port{Protocol: string(p.Protocol), Number: p.Port}.String()+"="+p.Error)
				}
			}
			if text := strings.Join(got, " "); text != c.want {
				t.Errorf("got  %s\nwant %s", text, c.want)
			}
			again := c.facts
			again.lb = again.lb.DeepCopy()
			again.lb.Status = s
			if twice := describe(again); len(twice.Conditions) != len(s.Conditions) || twice.Conditions[0] != s.Conditions[0] {
				t.Error("described again, it differs")
			}
		})
	}
}

func TestWhoIsWaitedForIsLeftAsItWasSaid(t *testing.T) {
	waiting := func(names ...string) facts {
		return plain(func(f *facts) {
			f.programmed = proof.Programmed{}
			for _, n := range names {
				f.programmed.Waiting = append(f.programmed.Waiting, proof.Waiting{Proxy: n, Why: "has not applied it yet"})
			}
		})
	}
	f := waiting("edge-1", "edge-2")
	if said := saidWaiting(f.lb); said != "" {
		t.Errorf("a new LoadBalancer says %q", said)
	}
	f.lb.Status = describe(f)
	next := waiting("edge-2")
	next.lb = f.lb
	next.said = saidWaiting(f.lb)
	if s := describe(next); !equality.Semantic.DeepEqual(s, f.lb.Status) {
		t.Errorf("one proxy got through, and the status says %+v", s.Conditions)
	}
	next.said = ""
	if s := describe(next); equality.Semantic.DeepEqual(s, f.lb.Status) {
		t.Error("said anew, it says the same")
	}
	next.said, next.programmed = saidWaiting(f.lb), proof.Programmed{Serving: []string{"edge-1", "edge-2"}}
	next.lb.Status = describe(next)
	if !meta.IsStatusConditionTrue(next.lb.Status.Conditions, clusterv1.ConditionProgrammed) {
		t.Errorf("served by all, and it says %+v", next.lb.Status.Conditions)
	}
	next.lb.Generation++
	if said := saidWaiting(next.lb); said != "" {
		t.Errorf("the next generation says %q", said)
	}
}

func TestPendingRests(t *testing.T) {
	p, r, began := newPending(), ipam.Ref{Namespace: "prod", Name: "web"}, time.Now()
	p.ask(r, question{uid: "u", pool: "edge", since: began})
	if rest, told := p.rest(r, began); rest != moment || told {
		t.Errorf("rests %s, told %v", rest, told)
	}
	p.told(r, began.Add(moment))
	if rest, told := p.rest(r, began.Add(2*moment)); rest != anew-moment || !told {
		t.Errorf("rests %s, told %v", rest, told)
	}
	p.ask(r, question{uid: "u", generation: 2, pool: "edge", since: began.Add(anew)})
	if rest, told := p.rest(r, began.Add(anew)); rest != moment || told {
		t.Errorf("a new question rests %s, told %v", rest, told)
	}
}

func TestPendingAsksTheFirstNeedAndWakesOnAnotherAnswer(t *testing.T) {
	p, r := newPending(), ipam.Ref{Namespace: "prod", Name: "web"}
	q := question{uid: "u", generation: 1, addresses: "192.0.2.7", pool: "edge", need: proof.Vector{TargetGroups: 5}}
	p.ask(r, q)
	later := q
	later.need.TargetGroups = 9
	if got := p.ask(r, later); got.need.TargetGroups != 5 {
		t.Errorf("needs %d: a TargetGroup's later change moved what is waited for", got.need.TargetGroups)
	}
	later.need.Addresses = 7
	if got := p.ask(r, later); got.need.Addresses != 7 {
		t.Errorf("needs %d: an Address changed since, and nobody waits for that", got.need.Addresses)
	}
	later.need.Addresses, q = 0, question{uid: "u2", generation: 1, addresses: "192.0.2.7", pool: "edge", need: q.need}
	p.ask(r, q)
	later.uid = "u2"
	proxy := &proof.Proxy{Name: "edge-1", Pool: "edge", Live: true, Renewed: true, Reported: true, Settled: true}
	proxies := []*proof.Proxy{proxy}
	p.answered(r, proof.JudgeProgrammed(r.Namespace, r.Name, q.need, proxies))
	if got := p.differing("edge", proxies); len(got) != 0 {
		t.Errorf("woken without news: %v", got)
	}
	through := *proxy
	through.Through.TargetGroups = 5
	if got := p.differing("edge", []*proof.Proxy{&through}); len(got) != 1 {
		t.Errorf("not woken: %v", got)
	}
	later.generation = 2
	if got := p.ask(r, later); got.need.TargetGroups != 9 {
		t.Errorf("a new generation needs %d", got.need.TargetGroups)
	}
	p.forget(r)
	if p.count() != 0 {
		t.Error("not forgotten")
	}
}

func TestAPortIsNamedOnce(t *testing.T) {
	for message, want := range map[string]string{
		"Port TCP/9100 of 192.0.2.7 is held by LoadBalancer api.": "PortInUse (Port TCP/9100 of 192.0.2.7 is held by LoadBalancer api)",
		"Something else has it.":                                  "TCP/9100 PortInUse (Something else has it)",
		"Port TCP/91000 is another.":                              "TCP/9100 PortInUse (Port TCP/91000 is another)",
	} {
		if got := portErrors([]clusterv1.PortStatus{{Port: 9100, Protocol: clusterv1.ProtocolTCP, Error: "PortInUse", Message: message}}); got != want {
			t.Errorf("%q, wanted %q", got, want)
		}
	}
}
