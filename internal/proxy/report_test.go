package proxy

import (
	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/dataplane"
	"fairlead.dev/fairlead/internal/lb"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func node(n int, state v1alpha1.TargetState) v1alpha1.Target {
	return v1alpha1.Target{Name: fmt.Sprint("n", n), UID: fmt.Sprint("u", n), Addresses: []string{fmt.Sprint("10.0.0.", n)}, State: state}
}

func memberKey(n int) lb.MemberKey {
	return lb.MemberKey{UID: fmt.Sprint("u", n), Address: netip.MustParseAddr(fmt.Sprint("10.0.0.", n))}
}

func states(r *v1alpha1.ProxyReport) (out []string) {
	if r == nil {
		return nil
	}
	for _, m := range r.Members {
		out = append(out, fmt.Sprintf("%s %s %d", m.Target, m.State, m.OpenConnections))
	}
	for _, a := range r.Addresses {
		out = append(out, fmt.Sprintf("%s %s %d", a.Name, a.State, a.OpenConnections))
	}
	return out
}

func (w *world) reports(namespace string, want ...string) {
	w.t.Helper()
	if got := states(w.report(namespace)); !slices.Equal(got, want) {
		w.t.Errorf("report of %s: %q, wanted %q", namespace, got, want)
	}
}

func TestADisabledGroupsMembersAreReportedGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "")
		defer w.stop()
		l, a := loadBalancer("shop", "web", "192.0.2.1")
		tg := targetGroup("shop", node(1, ""), node(2, ""))
		w.list(l, a, class(), tg)
		w.checker.find(lb.Healthy)
		settle(time.Second)
		w.reports("shop")
		tg.Annotations = map[string]string{clusterv1.DisabledAnnotation: ""}
		w.set(tg)
		settle(100 * time.Millisecond)
		w.reports("shop", "n1 Gone 0", "n2 Gone 0")
	})
}

func TestDrainingMembersAreReportedUntilTheyAreNoTargetsAnyMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "")
		defer w.stop()
		l, a := loadBalancer("shop", "web", "192.0.2.1")
		tg := targetGroup("shop", node(1, ""), node(2, ""))
		w.list(l, a, class(), tg)
		settle(time.Second)
		w.checker.find(lb.Healthy)
		settle(time.Second)
		w.reports("shop")

		w.dp.observe(dataplane.Observation{Draining: map[lb.TenantID]map[lb.MemberKey]int64{"shop": {memberKey(2): 4}}})
		tg.Spec.Targets[1].State, tg.Generation = v1alpha1.TargetDraining, 2
		w.set(tg)
		settle(100 * time.Millisecond)
		w.reports("shop", "n2 Draining 4")
		if st := w.status(); st.Reports != w.report("shop").ResourceVersion || st.Through.TargetGroups != fmt.Sprint(w.version) {
			t.Errorf("status %+v does not cover the report", st)
		}

		// Counts are written every five seconds at most, Gone at once.
		w.dp.observe(dataplane.Observation{Draining: map[lb.TenantID]map[lb.MemberKey]int64{"shop": {memberKey(2): 3}}})
		settle(time.Second)
		w.reports("shop", "n2 Draining 4")
		settle(5 * time.Second)
		w.reports("shop", "n2 Draining 3")
		w.dp.observe(dataplane.Observation{})
		settle(100 * time.Millisecond)
		w.reports("shop", "n2 Gone 0")
		settle(time.Minute)
		w.reports("shop", "n2 Gone 0")

		// Emptied in a write that has a version, deleted later.
		said := w.status().Reports
		tg.Spec.Targets, tg.Generation = tg.Spec.Targets[:1], 3
		w.set(tg)
		settle(100 * time.Millisecond)
		w.reports("shop")
		if st := w.status(); !newer(st.Reports, said) {
			t.Errorf("reports %s after the proof was taken back, %s before", st.Reports, said)
		}
		settle(15 * time.Second)
		if r := w.report("shop"); r != nil {
			t.Errorf("empty report still there: %+v", r)
		}
	})
}

func TestATargetThatNothingUsesIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "")
		defer w.stop()
		w.list(class(), targetGroup("shop", node(1, v1alpha1.TargetDraining)))
		settle(time.Second)
		w.reports("shop", "n1 Gone 0")
	})
}

func TestReleasingAddressIsGoneWhenItsLastConnectionEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "")
		defer w.stop()
		l, a := loadBalancer("shop", "web", "192.0.2.1")
		other := a.DeepCopy()
		other.Name, other.Spec.Address, other.Spec.ProxyPool, other.Spec.Phase = "192.0.2.9", "192.0.2.9", "core", v1alpha1.AddressReleasing
		w.list(l, a, class(), other)
		settle(time.Second)
		id := lb.FrontendID{Tenant: "shop", LoadBalancer: "web", Address: netip.MustParseAddr("192.0.2.1"), Protocol: lb.TCP, Port: 80}
		w.dp.observe(dataplane.Observation{Closing: map[lb.FrontendID]int64{id: 2}})
		w.delete(l)
		a.Spec.Phase, a.Generation = v1alpha1.AddressReleasing, 2
		w.set(a)
		settle(100 * time.Millisecond)
		w.reports("shop", "192.0.2.1 Draining 2")
		w.dp.observe(dataplane.Observation{})
		settle(100 * time.Millisecond)
		w.reports("shop", "192.0.2.1 Gone 0")
		if st := w.status(); st.Through.Addresses != fmt.Sprint(w.version) {
			t.Errorf("through addresses %s, wanted %d", st.Through.Addresses, w.version)
		}
	})
}

func TestHealthIsReportedOnceItIsWorthAWord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "")
		defer w.stop()
		l, a := loadBalancer("shop", "web", "192.0.2.1")
		w.list(l, a, class(), targetGroup("shop", node(1, "")))
		settle(time.Second)
		w.reports("shop")
		settle(2 * time.Second)
		w.reports("shop", "n1 Unchecked 0")
		w.checker.find(lb.Unhealthy)
		settle(2 * time.Second)
		w.reports("shop", "n1 Unhealthy 0")
		w.checker.find(lb.Healthy)
		settle(2 * time.Second)
		if r := w.report("shop"); r != nil {
			t.Errorf("report %+v of a healthy member", r)
		}
	})
}

func TestReportsComeBeforeThroughAndTheFileBeforeBoth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		w := newWorld(t, dir)
		defer w.stop()
		l, a := loadBalancer("shop", "web", "192.0.2.1")
		w.list(l, a, class())
		settle(3 * time.Second)
		w.journal.take()
		w.hub.mu.Lock()
		w.hub.onReport = func() {
			g, err := ReadLastGood(dir, "edge-1")
			if err != nil {
				t.Errorf("file when the report is written: %v", err)
			} else if len(g.Objects[LoadBalancers]) != 0 {
				t.Error("the file would bring back what is reported gone")
			}
		}
		w.hub.mu.Unlock()
		a.Spec.Phase, a.Generation = v1alpha1.AddressReleasing, 2
		w.delete(l)
		w.set(a)
		settle(time.Second)
		got := w.journal.take()
		if want := []string{"apply", "report shop", "status " + w.status().Through.LoadBalancers}; !slices.Equal(got, want) {
			t.Errorf("order %q, wanted %q", got, want)
		}
	})
}

func TestOneNamespaceThatTakesNoReportHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "")
		defer w.stop()
		w.hub.mu.Lock()
		w.hub.forbid["bad"], w.hub.ending["ending"] = true, true
		w.hub.mu.Unlock()
		bad, ending, good := targetGroup("bad", node(1, v1alpha1.TargetDraining)), targetGroup("ending", node(1, v1alpha1.TargetDraining)), targetGroup("good", node(1, v1alpha1.TargetDraining))
		w.list(class(), bad, ending, good)
		settle(time.Second)
		w.reports("good", "n1 Gone 0")
		if st := w.status(); !slices.Equal(st.Held, []string{"bad"}) || st.Through.TargetGroups == "" {
			t.Errorf("status %+v, wanted [bad] held", st)
		}
		w.hub.mu.Lock()
		delete(w.hub.forbid, "bad")
		w.hub.mu.Unlock()
		settle(time.Minute)
		w.reports("bad", "n1 Gone 0")
		if st := w.status(); len(st.Held) != 0 {
			t.Errorf("held %v after it could be written", st.Held)
		}
	})
}

func TestAReportWhoseAnswerWasLostIsNamed(t *testing.T) {
	s := newReports(Options{Name: "edge-1"}, "this")
	of := func(boot, version string) *v1alpha1.ProxyReport {
		return &v1alpha1.ProxyReport{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "edge-1", ResourceVersion: version}, Boot: boot}
	}
	s.stands(of("another", "7"))
	if s.version != "" || s.unsaid {
		t.Errorf("another boot's report counts: version %q", s.version)
	}
	s.stands(of("this", "8"))
	if s.version != "8" || !s.unsaid {
		t.Errorf("version %q, unsaid %v", s.version, s.unsaid)
	}
	s.believe("prod", heardOf(of("this", "9")))
	if s.version != "9" {
		t.Errorf("version %q after the watch told of it", s.version)
	}
}

func TestANewBootDeletesReportsOfOlderOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := unstarted(t)
		for _, ns := range []string{"old", "both"} {
			w.hub.reports[Key{ns, "edge-1"}] = &v1alpha1.ProxyReport{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "edge-1", ResourceVersion: "7"}, Boot: "older"}
		}
		w.hub.proxies["edge-1"] = &v1alpha1.Proxy{ObjectMeta: metav1.ObjectMeta{Name: "edge-1", ResourceVersion: "6"}, Spec: v1alpha1.ProxySpec{Pool: "core"}, Status: v1alpha1.ProxyStatus{Boot: "older", Seq: 41}}
		w.start("")
		defer w.stop()
		w.list(class(), targetGroup("both", node(1, v1alpha1.TargetDraining)))
		settle(time.Second)
		if r := w.report("old"); r != nil {
			t.Errorf("report of an older boot is still there: %+v", r)
		}
		w.reports("both", "n1 Gone 0")
		if r := w.report("both"); r.Boot != w.proxy.Boot() {
			t.Errorf("boot %s in the report, wanted %s", r.Boot, w.proxy.Boot())
		}
		w.hub.mu.Lock()
		defer w.hub.mu.Unlock()
		if px := w.hub.proxies["edge-1"]; px.Status.Seq <= 41 || px.Spec.Pool != "edge" || px.Status.Boot != w.proxy.Boot() {
			t.Errorf("registered as %+v", px)
		}
	})
}

func TestManyFailuresOfOneTargetAreOneLine(t *testing.T) {
	x := newExceptions(func(lb.Probe) string { return "connection refused" }, nil)
	snapshot := &lb.Snapshot{Pools: map[lb.PoolID]*lb.Pool{}, Groups: map[lb.GroupID]*lb.Group{"g": {ID: "g", Members: []lb.Member{
		{UID: "u1", Name: "n1", TargetGroup: "nodes-0", GroupUID: "g1", Address: netip.MustParseAddr("10.0.0.1")},
		{UID: "u2", Name: "n2", TargetGroup: "nodes-0", GroupUID: "g1", Address: netip.MustParseAddr("10.0.0.2")},
	}}}}
	health := lb.Health{}
	for i := range 1000 {
		check := lb.Check{Kind: lb.CheckTCP, Port: uint16(1000 + i)}
		id := lb.PoolID(fmt.Sprint(i))
		snapshot.Pools[id] = &lb.Pool{ID: id, Group: "g", Port: check.Port, Check: check}
		health[check] = lb.Verdicts{netip.MustParseAddr("10.0.0.1"): lb.Unhealthy, netip.MustParseAddr("10.0.0.2"): lb.Healthy}
	}
	got, _ := x.of(&served{Program: &lb.Program{Tenants: map[lb.TenantID]*lb.Snapshot{"shop": snapshot}, Health: health}}, time.Now(), true)
	c := got["shop"]
	if len(c.Members) != 1 || c.Truncated || c.Members[0].Message != "connection refused; and 999 more checks" {
		t.Errorf("members %+v, truncated %v", c.Members, c.Truncated)
	}
}

// A LoadBalancer's own checks say nothing of its targets as such, so they hide none that their TargetGroup's own check finds ill.
func TestManyFailuresHideNotTheTargetGroupsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "")
		defer w.stop()
		l, a := loadBalancer("shop", "web", "192.0.2.1")
		l.Spec.HealthCheck = &clusterv1.HealthCheck{Type: clusterv1.HealthCheckHTTP, Path: "/healthz"}
		l.Spec.Ports, a.Spec.Holders[0].Ports = nil, nil
		for i := range int32(300) {
			l.Spec.Ports = append(l.Spec.Ports, clusterv1.Port{Port: 1000 + i, TargetPort: 1000 + i})
			a.Spec.Holders[0].Ports = append(a.Spec.Holders[0].Ports, fmt.Sprint("TCP/", 1000+i))
		}
		other, otherAt := loadBalancer("shop", "api", "192.0.2.2")
		tg := targetGroup("shop", node(1, ""))
		tg.Spec.HealthCheck = &clusterv1.HealthCheck{Type: clusterv1.HealthCheckTCP, Port: 10250}
		checks := func(want ...string) {
			t.Helper()
			settle(quiet + 5*time.Second) // They count as unchecked by then.
			var got []string
			if r := w.report("shop"); r != nil {
				for _, m := range r.Members {
					got = append(got, m.Check+": "+m.Message)
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("%q are told, wanted %q", got, want)
			}
		}
		w.list(class(), tg, l, a, other, otherAt)
		checks("HTTP:1000/healthz: and 299 more checks", "TCP:10250: ")
		tg = tg.DeepCopy()
		tg.Generation, tg.Spec.HealthCheck.Port = 2, 10251
		w.set(tg)
		checks("HTTP:1000/healthz: and 299 more checks", "TCP:10251: ")
		tg = tg.DeepCopy()
		tg.Generation, tg.Spec.HealthCheck = 3, nil
		w.set(tg)
		checks("HTTP:1000/healthz: and 300 more checks")
	})
}

func TestMoreThanFitsIsTruncatedButKeepsWhatIsWaitedFor(t *testing.T) {
	c := &content{}
	for i := range 600 {
		c.Members = append(c.Members, v1alpha1.ReportedMember{Target: fmt.Sprint("n", i), State: v1alpha1.ReportedUnhealthy})
	}
	c.Members = append(c.Members, v1alpha1.ReportedMember{Target: "last", State: v1alpha1.ReportedGone})
	c.finish()
	if !c.Truncated || len(c.Members) != maxEntries || c.Members[0].Target != "last" {
		t.Errorf("truncated %v, %d members, first %+v", c.Truncated, len(c.Members), c.Members[0])
	}
}

func TestANamespaceIsHeldNoLongerThanItHasSomethingToSay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "")
		defer w.stop()
		w.hub.forbid["shop"] = true
		tg := targetGroup("shop", node(1, v1alpha1.TargetDraining))
		w.list(class(), tg)
		settle(2 * time.Second)
		if held := w.status().Held; !slices.Equal(held, []string{"shop"}) {
			t.Fatalf("held %v, wanted shop", held)
		}
		w.delete(tg)
		settle(2 * time.Minute)
		if held := w.status().Held; len(held) > 0 {
			t.Errorf("held %v, with nothing to report there", held)
		}
	})
}

// An IPv4 address in IPv6's dress is the same address: with open connections it is not gone.
func TestAMappedAddressIsNotGoneWhileItsConnectionsAreOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "")
		defer w.stop()
		l, a := loadBalancer("shop", "web", "192.0.2.1")
		tg := targetGroup("shop", node(1, v1alpha1.TargetDraining))
		tg.Spec.Targets[0].Addresses = []string{"2001:db8::1", "::ffff:10.0.0.1"}
		w.dp.observe(dataplane.Observation{Draining: map[lb.TenantID]map[lb.MemberKey]int64{"shop": {memberKey(1): 4}}})
		w.list(l, a, class(), tg)
		settle(time.Second)
		w.reports("shop", "n1 Draining 4")
		if m := w.report("shop").Members; len(m) != 1 || m[0].Address != "10.0.0.1" {
			t.Errorf("members %+v", m)
		}
	})
}
