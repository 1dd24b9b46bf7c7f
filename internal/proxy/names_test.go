package proxy

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/dataplane"
	"fairlead.dev/fairlead/internal/lb"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// named is a target that is known by a name alone.
func named(state v1alpha1.TargetState) v1alpha1.Target {
	return v1alpha1.Target{Name: "elb", UID: "u-elb", Addresses: []string{"elb.example.com"}, State: state}
}

// members are the addresses that the proxy's only LoadBalancer sends to.
func (w *world) members(want ...string) {
	w.t.Helper()
	w.dp.mu.Lock()
	defer w.dp.mu.Unlock()
	var got []string
	if s := w.dp.program.Tenants["shop"]; s != nil {
		for _, g := range s.Groups {
			for _, m := range g.Members {
				got = append(got, m.Address.String())
			}
		}
	}
	if !slices.Equal(got, want) {
		w.t.Errorf("members %v, wanted %v", got, want)
	}
}

func TestNamesOfTargetsAreFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "")
		defer w.stop()
		l, a := loadBalancer("shop", "web", "192.0.2.1")
		w.list(l, a, class(), targetGroup("shop", named("")))
		settle(time.Second)
		w.serves("192.0.2.1:80/TCP")
		w.members()
		w.reports("shop") // It is being looked up.
		if !slices.Equal(w.names.wanted, []string{"elb.example.com"}) {
			t.Errorf("wants %v", w.names.wanted)
		}
		w.names.stand("elb.example.com", errors.New("no such host"))
		settle(time.Second)
		w.reports("shop", "elb Unhealthy 0")
		w.names.stand("elb.example.com", nil, "10.0.0.1", "10.0.0.2")
		settle(time.Second)
		w.members("10.0.0.1", "10.0.0.2")
		w.checker.find(lb.Healthy)
		settle(time.Second)
		w.reports("shop")
		w.names.stand("elb.example.com", errors.New("name server is away"), "10.0.0.1", "10.0.0.2")
		settle(time.Second)
		w.members("10.0.0.1", "10.0.0.2")
		w.reports("shop")
		w.delete(l)
		w.delete(a)
		settle(time.Second)
		if len(w.names.wanted) > 0 {
			t.Errorf("still wants %v", w.names.wanted)
		}
	})
}

// What else a name stands for is left out, and the LoadBalancer says how much.
func TestAddressesThatAreLeftOutAreReported(t *testing.T) {
	for what, c := range map[string]struct {
		addresses []string
		says      string
	}{
		"outside": {[]string{"10.0.0.1", "192.0.2.9"}, "1 of the addresses of elb.example.com"},
		"beyond":  {many(70), "stands for 70 addresses, of which 64 are used"},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, "")
				defer w.stop()
				l, a := loadBalancer("shop", "web", "192.0.2.1")
				w.list(l, a, class(), &v1alpha1.Tenant{ObjectMeta: metav1.ObjectMeta{Name: "shop", UID: "t", Generation: 1}, Spec: v1alpha1.TenantSpec{TargetCIDRs: []string{"10.0.0.0/8"}}}, targetGroup("shop", named("")))
				w.checker.find(lb.Healthy)
				w.names.stand("elb.example.com", nil, c.addresses...)
				settle(2 * time.Second)
				r := w.report("shop")
				if r == nil || len(r.Refused) > 0 || len(r.ServedWithout) != 1 || r.ServedWithout[0].LoadBalancer != "web" || !strings.Contains(r.ServedWithout[0].Problem.Message, c.says) {
					t.Errorf("report %+v", r)
				}
				w.names.stand("elb.example.com", nil, "10.0.0.1", "fd00::1")
				settle(2 * time.Second)
				if r := w.report("shop"); r != nil && len(r.ServedWithout) > 0 {
					t.Errorf("report %+v", r)
				}
			})
		})
	}
}

func many(n int) []string {
	var out []string
	for i := range n {
		out = append(out, netip.AddrFrom4([4]byte{10, 0, 1, byte(i)}).String())
	}
	return out
}

func TestNamesOfTheLastGoodFileAreFollowedToo(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, dir)
		l, a := loadBalancer("shop", "web", "192.0.2.1")
		w.list(l, a, class(), targetGroup("shop", named("")))
		settle(time.Second)
		w.stop()
		names := w.names

		w = unstarted(t)
		w.names = names
		w.hub.leave()
		w.start(dir)
		defer w.stop()
		settle(time.Second)
		w.serves("192.0.2.1:80/TCP")
		w.members()
		w.names.stand("elb.example.com", nil, "10.0.0.1")
		settle(time.Second)
		w.members("10.0.0.1")
	})
}

// What the data plane serves without something is told, once for a LoadBalancer.
func TestWhatIsServedWithoutSomethingIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "")
		defer w.stop()
		w.dp.without = true
		l, a := loadBalancer("shop", "web", "192.0.2.1")
		l.Spec.Ports = append(l.Spec.Ports, clusterv1.Port{Port: 81})
		a.Spec.Holders[0].Ports = append(a.Spec.Holders[0].Ports, "TCP/81")
		w.list(l, a, class())
		settle(time.Second)
		w.serves("192.0.2.1:80/TCP", "192.0.2.1:81/TCP")
		r := w.report("shop")
		if r == nil || len(r.Refused) > 0 || len(r.ServedWithout) != 1 || r.ServedWithout[0].Port != 0 || r.ServedWithout[0].Problem.Reason != "NotSupported" {
			t.Errorf("report %+v", r)
		}
	})
}

// A target that has several addresses is gone when no connection is open to any of them.
func TestATargetIsGoneWithItsLastAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "")
		defer w.stop()
		open := func(n int64) dataplane.Observation {
			o := dataplane.Observation{}
			if n > 0 {
				o.Draining = map[lb.TenantID]map[lb.MemberKey]int64{"shop": {{UID: "u-elb", Address: netip.MustParseAddr("10.0.0.2")}: n}}
			}
			return o
		}
		l, a := loadBalancer("shop", "web", "192.0.2.1")
		w.names.stand("elb.example.com", nil, "10.0.0.1", "10.0.0.2")
		w.list(l, a, class(), targetGroup("shop", named("")))
		settle(time.Second)
		w.dp.observe(open(3))
		drained := targetGroup("shop", named(v1alpha1.TargetDraining))
		drained.Generation = 2
		w.set(drained)
		settle(time.Second)
		w.reports("shop", "elb Draining 3", "elb Draining 0")
		w.dp.observe(open(0))
		settle(time.Second)
		w.reports("shop", "elb Gone 0")
		if got := w.report("shop").Members[0].Address; got != "elb.example.com" {
			t.Errorf("gone under the address %s", got)
		}
	})
}
