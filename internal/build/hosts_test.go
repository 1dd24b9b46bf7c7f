package build

import (
	"net/netip"
	"strings"
	"testing"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/lb"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// onHosts are a LoadBalancer with two ports, and what the ledger grants of them on all hosts.
func onHosts(granted ...string) Objects {
	o := Objects{
		Classes: []*v1alpha1.LoadBalancerClass{{
			ObjectMeta: metav1.ObjectMeta{Name: "edge"},
			Spec:       v1alpha1.LoadBalancerClassSpec{Proxy: &v1alpha1.ClassProxy{Pool: "edge", AssignAddresses: true}},
		}},
		LoadBalancers: []*clusterv1.LoadBalancer{{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ops", Name: "web"},
			Spec: clusterv1.LoadBalancerSpec{
				ClassName: "edge", Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}},
				Ports: []clusterv1.Port{{Port: 20001, Protocol: clusterv1.ProtocolTCP}, {Port: 20002, Protocol: clusterv1.ProtocolTCP}},
			},
		}},
	}
	for _, name := range granted {
		address, port := "0.0.0.0", "TCP/"+name[strings.LastIndexByte(name, '.')+1:]
		if strings.Contains(name, "ipv6") {
			address = "::"
		}
		o.Addresses = append(o.Addresses, &v1alpha1.Address{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.AddressSpec{
			Address: address, Pool: "hosts", ProxyPool: "edge", Phase: v1alpha1.AddressGranted, Holders: []v1alpha1.Holder{{Namespace: "ops", Name: "web", Ports: []string{port}}},
		}})
	}
	return o
}

func served(p *lb.Program) string {
	var out []string
	for _, l := range p.Listeners {
		out = append(out, l.Socket.String())
	}
	return strings.Join(out, " ")
}

func TestPortsOfHostsAreServedOnTheHostsOwnAddresses(t *testing.T) {
	one, other, six := netip.MustParseAddr("192.0.2.20"), netip.MustParseAddr("192.0.2.21"), netip.MustParseAddr("fd00::20")
	o := onHosts("hosts-edge.ipv4.tcp.20001", "hosts-edge.ipv4.tcp.20002", "hosts-edge.ipv6.tcp.20001")
	for name, c := range map[string]struct {
		own  []netip.Addr
		want string
	}{
		"one address":      {[]netip.Addr{one}, "192.0.2.20:20001/TCP 192.0.2.20:20002/TCP"},
		"two addresses":    {[]netip.Addr{other, one}, "192.0.2.20:20001/TCP 192.0.2.20:20002/TCP 192.0.2.21:20001/TCP 192.0.2.21:20002/TCP"},
		"of both families": {[]netip.Addr{one, six}, "192.0.2.20:20001/TCP 192.0.2.20:20002/TCP [fd00::20]:20001/TCP"},
		"of the other":     {[]netip.Addr{six}, "[fd00::20]:20001/TCP"},
	} {
		t.Run(name, func(t *testing.T) {
			p := Whole(o, Options{ProxyPool: "edge", Addresses: c.own})
			if got := served(p); got != c.want {
				t.Errorf("served: %s, want %s", got, c.want)
			}
			s := p.Tenants["ops"]
			for _, f := range s.Frontends {
				if f.Assign {
					t.Errorf("%+v would put the host's own address on the host", f.ID)
				}
			}
			if len(s.Refused) > 0 {
				t.Errorf("refused: %+v", s.Refused)
			}
		})
	}
}

func TestAHostThatKnowsNoAddressRefusesPortsOfHosts(t *testing.T) {
	p := Whole(onHosts("hosts-edge.ipv4.tcp.20001"), Options{ProxyPool: "edge"})
	if len(p.Listeners) > 0 {
		t.Fatalf("served: %s", served(p))
	}
	for _, x := range p.Tenants["ops"].Refused {
		if x.Reason == clusterv1.ReasonAddressNotLocal && strings.Contains(x.Message, "--address") {
			return
		}
	}
	t.Fatalf("%+v", p.Tenants["ops"].Refused)
}
