package proxy

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/dataplane"
	"fairlead.dev/fairlead/internal/lb"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Where ports are granted by themselves, one is gone though others of its address are served; on all hosts, when this host's
// own addresses have let go of it.
func TestAPortIsReleasedByItself(t *testing.T) {
	at, own := netip.MustParseAddr("192.0.2.7"), netip.MustParseAddr("192.0.2.20")
	frontend := func(a netip.Addr, port uint16) lb.FrontendID {
		return lb.FrontendID{Tenant: "shop", LoadBalancer: "web", Address: a, Protocol: lb.TCP, Port: port}
	}
	listener := func(f lb.FrontendID) lb.Listener {
		return lb.Listener{Socket: f.Socket(), Frontends: []lb.FrontendID{f}}
	}
	program := &lb.Program{Listeners: []lb.Listener{listener(frontend(at, 80)), listener(frontend(own, 20001))}}
	for name, c := range map[string]struct {
		address string
		want    v1alpha1.ReportedState
		open    int64
	}{
		"192.0.2.7":                 {"192.0.2.7", v1alpha1.ReportedDraining, 3},
		"192.0.2.7.tcp.80":          {"192.0.2.7", v1alpha1.ReportedDraining, 0},
		"192.0.2.7.tcp.443":         {"192.0.2.7", v1alpha1.ReportedDraining, 3},
		"192.0.2.7.tcp.8443":        {"192.0.2.7", v1alpha1.ReportedGone, 0},
		"192.0.2.7.udp.80":          {"192.0.2.7", v1alpha1.ReportedGone, 0},
		"hosts-edge.ipv4.tcp.20001": {"0.0.0.0", v1alpha1.ReportedDraining, 0},
		"hosts-edge.ipv4.tcp.20002": {"0.0.0.0", v1alpha1.ReportedGone, 0},
		"hosts-edge.ipv4.tcp.20003": {"0.0.0.0", v1alpha1.ReportedDraining, 1},
		"hosts-edge.ipv6.tcp.20001": {"::", v1alpha1.ReportedGone, 0},
	} {
		a := &v1alpha1.Address{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "uid"}, Spec: v1alpha1.AddressSpec{
			Address: c.address, ProxyPool: "edge", Phase: v1alpha1.AddressReleasing, Holders: []v1alpha1.Holder{{Namespace: "shop", Name: "web"}},
		}}
		said := &content{}
		releasing(&served{
			Program: program, Own: []netip.Addr{own}, Releasing: []*v1alpha1.Address{a},
			Observation: dataplane.Observation{Closing: map[lb.FrontendID]int64{frontend(at, 443): 3, frontend(own, 20003): 1}},
		}, func(string) *content { return said })
		if len(said.Addresses) != 1 || said.Addresses[0].State != c.want || said.Addresses[0].OpenConnections != c.open {
			t.Errorf("%s: %+v, want %s with %d open", name, said.Addresses, c.want, c.open)
		}
	}
}

// onHosts are a LoadBalancer and its port on the addresses of all hosts.
func onHosts(namespace, name string, port int32) (*clusterv1.LoadBalancer, *v1alpha1.Address) {
	l, a := loadBalancer(namespace, name, fmt.Sprintf("hosts-edge.ipv4.tcp.%d", port))
	l.Spec.Ports[0].Port = port
	a.Spec.Address, a.Spec.Pool, a.Spec.Holders[0].Ports = "0.0.0.0", "hosts", []string{fmt.Sprintf("TCP/%d", port)}
	return l, a
}

// A host's own address may lie in a range too. What is served there for others, by another grant, holds up no release.
func TestAnAddressIsReleasedThoughOthersAreServedThere(t *testing.T) {
	own := netip.MustParseAddr("192.0.2.20")
	for name, ports := range map[string][]int32{
		"at another port": {80},
		"at the same one": {80, 20001}, // The other LoadBalancer has it from now on.
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := unstarted(t)
				w.own = []netip.Addr{own}
				w.start("")
				defer w.stop()
				web, x := loadBalancer("shop", "web", "192.0.2.20")
				web.Spec.Ports, x.Spec.Holders[0].Ports = nil, nil
				for _, p := range ports {
					web.Spec.Ports = append(web.Spec.Ports, clusterv1.Port{Port: p, TargetPort: 8080})
					x.Spec.Holders[0].Ports = append(x.Spec.Holders[0].Ports, fmt.Sprintf("TCP/%d", p))
				}
				game, y := onHosts("ops", "game", 20001)
				y.CreationTimestamp = metav1.NewTime(x.CreationTimestamp.Add(time.Minute))
				w.list(class(), web, x, game, y)
				settle(time.Second)
				w.dp.observe(dataplane.Observation{Closing: map[lb.FrontendID]int64{{Tenant: "shop", LoadBalancer: "web", Address: own, Protocol: lb.TCP, Port: 80}: 2}})
				w.delete(web)
				x.Spec.Phase, x.Generation = v1alpha1.AddressReleasing, 2
				w.set(x)
				settle(time.Second)
				w.reports("shop", "192.0.2.20 Draining 2")
				w.dp.observe(dataplane.Observation{})
				settle(time.Second)
				w.reports("shop", "192.0.2.20 Gone 0")
				w.serves("192.0.2.20:20001/TCP")
			})
		})
	}
}

// Connections and listeners hold up the release of what they came by: that of an address, also when its holder is one no more;
// never that of another grant.
func TestWhoIsInTheWayOfARelease(t *testing.T) {
	own := netip.MustParseAddr("192.0.2.20")
	_, x := loadBalancer("shop", "web", "192.0.2.20")
	_, y := onHosts("ops", "game", 20001)
	_, same := onHosts("shop", "web", 80)
	x.Spec.Phase = v1alpha1.AddressReleasing
	leaving := y.DeepCopy()
	leaving.Spec.Phase = v1alpha1.AddressReleasing
	sameLeaving := same.DeepCopy()
	sameLeaving.Spec.Phase = v1alpha1.AddressReleasing
	frontend := func(namespace lb.TenantID, name string, port uint16) lb.FrontendID {
		return lb.FrontendID{Tenant: namespace, LoadBalancer: name, Address: own, Protocol: lb.TCP, Port: port}
	}
	for name, c := range map[string]struct {
		beside, releasing []*v1alpha1.Address
		listens           lb.FrontendID
		closes            lb.FrontendID
		want              v1alpha1.ReportedState
	}{
		"its own holder listens":                         {listens: frontend("shop", "web", 80), want: v1alpha1.ReportedDraining},
		"its own holder's connections":                   {closes: frontend("shop", "web", 80), want: v1alpha1.ReportedDraining},
		"a former holder's connections":                  {closes: frontend("shop", "old", 80), want: v1alpha1.ReportedDraining},
		"connections from before this process":           {closes: lb.FrontendID{Address: own}, want: v1alpha1.ReportedDraining},
		"one listens whom nothing grants that":           {listens: frontend("ops", "game", 20002), beside: []*v1alpha1.Address{y}, want: v1alpha1.ReportedDraining},
		"another grant's holder listens":                 {listens: frontend("ops", "game", 20001), beside: []*v1alpha1.Address{y}, want: v1alpha1.ReportedGone},
		"another grant's holder's connections":           {closes: frontend("ops", "game", 20001), beside: []*v1alpha1.Address{y}, want: v1alpha1.ReportedGone},
		"another release's connections":                  {closes: frontend("ops", "game", 20001), releasing: []*v1alpha1.Address{leaving}, want: v1alpha1.ReportedGone},
		"the same LoadBalancer listens by another grant": {listens: frontend("shop", "web", 80), beside: []*v1alpha1.Address{same}, want: v1alpha1.ReportedGone},
		"the same LoadBalancer leaves both":              {closes: frontend("shop", "web", 80), releasing: []*v1alpha1.Address{sameLeaving}, want: v1alpha1.ReportedDraining},
	} {
		t.Run(name, func(t *testing.T) {
			s := &served{Program: &lb.Program{}, Own: []netip.Addr{own}, Releasing: append([]*v1alpha1.Address{x}, c.releasing...), Beside: c.beside}
			if c.listens.Port != 0 {
				s.Program.Listeners = []lb.Listener{{Socket: c.listens.Socket(), Frontends: []lb.FrontendID{c.listens}}}
			}
			if c.closes.Address.IsValid() {
				s.Observation.Closing = map[lb.FrontendID]int64{c.closes: 1}
			}
			said := map[string]*content{"shop": {}, "ops": {}}
			releasing(s, func(ns string) *content { return said[ns] })
			i := slices.IndexFunc(said["shop"].Addresses, func(a v1alpha1.ReportedAddress) bool { return a.Name == x.Name })
			if i < 0 || said["shop"].Addresses[i].State != c.want {
				t.Errorf("%+v, want %s", said["shop"].Addresses, c.want)
			}
		})
	}
}

// More than fits is released bit by bit, and nothing else of the namespace waits for it.
func TestMoreReleasesThanFitProveOneAfterTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "")
		defer w.stop()
		objects := []Object{class()}
		var all []*v1alpha1.Address
		start := time.Now()
		for i := range 1200 {
			_, a := loadBalancer("shop", "old", fmt.Sprintf("192.0.2.7.tcp.%d", 1000+i))
			a.Spec.Address, a.Spec.Phase = "192.0.2.7", v1alpha1.AddressReleasing
			since := metav1.NewTime(start.Add(time.Duration(1200-i) * time.Second)) // the last is the oldest
			a.Spec.ReleasingSince = &since
			all, objects = append(all, a), append(objects, a)
		}
		open := lb.FrontendID{Tenant: "shop", LoadBalancer: "old", Address: netip.MustParseAddr("192.0.2.7"), Protocol: lb.TCP, Port: 2199}
		w.dp.observe(dataplane.Observation{Closing: map[lb.FrontendID]int64{open: 1}})
		w.list(objects...)
		settle(time.Second)
		freed := map[string]bool{}
		for len(freed) < len(all)-1 {
			r := w.report("shop")
			if r == nil || r.Truncated || len(r.Addresses) > maxEntries {
				t.Fatalf("%d are free, and no whole report of others is there", len(freed))
			}
			before := len(freed)
			for _, e := range r.Addresses {
				i := slices.IndexFunc(all, func(a *v1alpha1.Address) bool { return a.Name == e.Name })
				if e.State == v1alpha1.ReportedGone && !freed[e.Name] {
					freed[e.Name] = true
					w.delete(all[i])
				}
			}
			if before == 0 && !freed["192.0.2.7.tcp.2198"] {
				t.Error("what is released longest is not among the first")
			}
			if len(freed) == before {
				t.Fatalf("%d are free, and none of the others is told gone", before)
			}
			settle(10 * time.Second)
		}
		w.reports("shop", "192.0.2.7.tcp.2199 Draining 1")
	})
}
