package fleet

import (
	"context"
	"fmt"
	"net"
	"net/netip"

	"fairlead.dev/fairlead/internal/testkit"
	"fairlead.dev/fairlead/internal/testkit/netns"
	"fairlead.dev/fairlead/internal/traffic"
)

// world is the network namespaces of one demo. The path of a packet:
//
//	clients-1 ──10.91.1.0/24── edge-1 ──10.92.1.0/24──┐
//	                                                  ├── nodes (all of 10.20.0.0/16)
//	clients-2 ──10.91.2.0/24── edge-2 ──10.92.2.0/24──┘
//
// IPv6 beside it: fd00:91:1::/64, fd00:92:1::/64, fd00:20::/32. Each edge takes all of 10.80.0.0/24 and fd00:80::/120, what is
// granted, for its own: it refuses what no proxy serves. Everything else of the demo, API servers included, is on this
// host's loopback; what the programs in the namespaces need of it is relayed to the same address there.
type world struct {
	network        *netns.Network
	nodes          *netns.Namespace
	edges, clients []*netns.Namespace
}

// newWorld makes the namespaces, with the addresses of all tenants' nodes.
func newWorld(tenants int) (*Network, error) {
	w := &world{network: netns.New()}
	result := &Network{world: w}
	w.nodes = w.network.Namespace("nodes")
	for t := range tenants {
		for n := range nodeCount {
			w.nodes.Address("lo", result.node(t+1, n+1).String()+"/32", result.node6(t+1, n+1).String()+"/128")
		}
	}
	for i := 1; i <= proxyCount; i++ {
		edge, clients := w.network.Namespace(fmt.Sprintf("edge-%d", i)), w.network.Namespace(fmt.Sprintf("clients-%d", i))
		clients.Link("eth0", edge, "front")
		edge.Link("back", w.nodes, fmt.Sprintf("edge-%d", i))

		front4, front6 := fmt.Sprintf("10.91.%d.", i), fmt.Sprintf("fd00:91:%d::", i)
		back4, back6 := fmt.Sprintf("10.92.%d.", i), fmt.Sprintf("fd00:92:%d::", i)
		edge.Address("front", front4+"1/24", front6+"1/64")
		clients.Address("eth0", front4+"2/24", front6+"2/64")
		w.nodes.Address(fmt.Sprintf("edge-%d", i), back4+"1/24", back6+"1/64")
		edge.Address("back", back4+"2/24", back6+"2/64")

		clients.Route(result.Served().String(), front4+"1")
		clients.Route(served6.String(), front6+"1")
		edge.Local(result.Served().String())
		edge.Local(served6.String())
		edge.Route("10.20.0.0/16", back4+"1")
		edge.Route(nodes6.String(), back6+"1")
		w.nodes.Route(front4+"0/24", back4+"2")
		w.nodes.Route(front6+"/64", back6+"2")
		edge.Set("ipv4/ip_forward", "1")
		edge.Set("ipv6/conf/all/forwarding", "1")
		w.edges, w.clients = append(w.edges, edge), append(w.clients, clients)
	}
	if err := w.network.Err(); err != nil {
		w.network.Close()
		return nil, fmt.Errorf("making network namespaces: %w", err)
	}
	return result, nil
}

func (w *world) close() { w.network.Close() }

func (w *world) nodesHost() testkit.Host { return w.nodes }

// proxyHost is that of the proxy of that number, counted from 1.
func (w *world) proxyHost(number int) testkit.Host { return w.edges[number-1] }

// dialProxy dials from the clients whose packets go to the proxy of that number.
func (w *world) dialProxy(number int) traffic.Dial {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		return w.clients[number-1].Dial(ctx, net.Dialer{}, network, address)
	}
}

// clientsPath opens the namespace of those clients.
func (w *world) clientsPath(number int) string { return w.clients[number-1].Path() }

func (w *world) relayToNodes(a netip.AddrPort) (*Relay, error) { return relay(w.nodes, a) }

func (w *world) relayToProxy(number int, a netip.AddrPort) (*Relay, error) {
	return relay(w.edges[number-1], a)
}

// relay lets programs of a namespace reach an address of this host's loopback as if it were their own.
func relay(ns *netns.Namespace, a netip.AddrPort) (*Relay, error) {
	l, err := ns.Listen("tcp", a.String())
	if err != nil {
		return nil, fmt.Errorf("relaying %s to network namespace %s: %w", a, ns.Name(), err)
	}
	return NewRelay(l, a), nil
}
