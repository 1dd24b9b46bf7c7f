package proxy

import (
	"net/netip"
	"testing"

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
	program := &lb.Program{Listeners: []lb.Listener{{Socket: frontend(at, 80).Socket()}, {Socket: frontend(own, 20001).Socket()}}}
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
