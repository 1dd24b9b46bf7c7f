package hollow

import (
	"context"
	"log/slog"
	"maps"
	"net/netip"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/proxy"
	"k8s.io/kubernetes/pkg/proxy/healthcheck"
)

const (
	healthzPort = 10256
	// healthTimeout is kube-proxy's: an update that waits longer makes /healthz fail.
	healthTimeout = time.Minute
	// retryOpen is the wait after a port could not be opened.
	retryOpen = 100 * time.Millisecond
)

// nodeProxy is one node's kube-proxy for one family: informer events go into the trackers, and
// one goroutine (run) turns what they say has changed into open and closed ports.
// Work is done for changed Services only.
type nodeProxy struct {
	node    string
	address netip.Addr
	family  v1.IPFamily
	pods    podFinder
	log     *slog.Logger
	health  *healthcheck.ProxyHealthServer
	wake    chan struct{} // capacity 1

	mu     sync.Mutex // guards alive and labels, written by events
	alive  bool
	labels map[string]string

	services  *proxy.ServiceChangeTracker
	endpoints *proxy.EndpointsChangeTracker

	// From here on: run's goroutine only.
	serviceMap   proxy.ServicePortMap
	endpointsMap proxy.EndpointsMap
	touched      map[proxy.ServicePortName]bool
	serving      bool              // whether the node was alive at the last sync
	nodeLabels   map[string]string // of the last sync
	nodePorts    map[proxy.ServicePortName]*nodePort
	checks       *healthChecks
}

// podFinder finds the Pod that runs at an address, or nil.
type podFinder interface{ at(ip string) *pod }

// newNodeProxies makes one for each address of a node.
func newNodeProxies(n *node, pods podFinder, log *slog.Logger) []*nodeProxy {
	health := healthcheck.NewProxyHealthServer("", healthTimeout, n)
	all := []*nodeProxy{}
	for _, a := range n.spec.addresses() {
		all = append(all, newNodeProxy(n.spec.Name, a, health, pods, log))
	}
	return all
}

func newNodeProxy(node string, address netip.Addr, health *healthcheck.ProxyHealthServer, pods podFinder, log *slog.Logger) *nodeProxy {
	family := v1.IPv6Protocol
	if address.Is4() {
		family = v1.IPv4Protocol
	}
	p := &nodeProxy{
		node:         node,
		address:      address,
		family:       family,
		pods:         pods,
		log:          log,
		health:       health,
		wake:         make(chan struct{}, 1),
		serviceMap:   proxy.ServicePortMap{},
		endpointsMap: proxy.EndpointsMap{},
		touched:      map[proxy.ServicePortName]bool{},
		nodePorts:    map[proxy.ServicePortName]*nodePort{},
	}
	p.checks = newHealthChecks(address, p.health, log)
	p.services = proxy.NewServiceChangeTracker(family, nil, p.serviceChanged)
	p.endpoints = proxy.NewEndpointsChangeTracker(family, node, nil, p.endpointsChanged)
	return p
}

func (p *nodeProxy) onService(old, current *v1.Service) {
	if p.services.Update(old, current) {
		p.queue()
	}
}

func (p *nodeProxy) onSlice(s *discovery.EndpointSlice, removed bool) {
	if p.endpoints.EndpointSliceUpdate(s, removed) {
		p.queue()
	}
}

func (p *nodeProxy) setNode(alive bool, labels map[string]string) {
	p.mu.Lock()
	same := p.alive == alive && maps.Equal(p.labels, labels)
	p.alive, p.labels = alive, labels
	p.mu.Unlock()
	if !same {
		p.queue()
	}
}

func (p *nodeProxy) queue() {
	p.health.QueuedUpdate(p.family)
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// run syncs whenever something changed, until ctx ends; then it closes all ports.
// It must not start before the caches are synced.
func (p *nodeProxy) run(ctx context.Context) {
	retry := time.NewTimer(0) // the first sync comes at once
	defer retry.Stop()
	defer p.closeAll()
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.wake:
		case <-retry.C:
		}
		if !p.sync() {
			retry.Reset(retryOpen)
		}
	}
}

// sync returns false if a port could not be opened.
func (p *nodeProxy) sync() bool {
	p.mu.Lock()
	alive, labels := p.alive, p.labels
	p.mu.Unlock()

	p.serviceMap.Update(p.services)
	p.endpointsMap.Update(p.endpoints)
	if alive != p.serving || !maps.Equal(labels, p.nodeLabels) {
		for name := range p.serviceMap {
			p.touched[name] = true
		}
		p.serving, p.nodeLabels = alive, labels
	}

	// Close before opening: a port number may have moved to another Service.
	open := map[proxy.ServicePortName]portPlan{}
	for name := range p.touched {
		plan, wanted := p.plan(name)
		port := p.nodePorts[name]
		switch {
		case port != nil && wanted && port.number == plan.number:
			port.use(plan.backends, plan.affinity)
		case port != nil:
			port.close()
			delete(p.nodePorts, name)
		}
		if wanted && p.nodePorts[name] == nil {
			open[name] = plan
		}
	}
	clear(p.touched)
	whole := p.checks.sync(alive)
	for name, plan := range open {
		port, err := openNodePort(name.Protocol, netip.AddrPortFrom(p.address, plan.number), p.pods)
		if err != nil {
			p.log.Error("node port not opened", "service", name.String(), "protocol", name.Protocol, "port", plan.number, "err", err)
			p.touched[name] = true
			whole = false
			continue
		}
		port.use(plan.backends, plan.affinity)
		go port.serve()
		p.nodePorts[name] = port
	}
	if whole {
		p.health.Updated(p.family)
	}
	return whole
}

// portPlan is what a node port should be.
type portPlan struct {
	number   uint16
	backends []proxy.Endpoint
	affinity time.Duration // 0: none
}

// plan returns false if the Service's port should not be open on this node.
func (p *nodeProxy) plan(name proxy.ServicePortName) (portPlan, bool) {
	info, ok := p.serviceMap[name]
	if !ok || !p.serving || info.NodePort() == 0 || info.Protocol() == v1.ProtocolSCTP {
		return portPlan{}, false
	}
	cluster, local, _, _ := proxy.CategorizeEndpoints(p.endpointsMap[name], info, p.node, p.nodeLabels)
	plan := portPlan{number: uint16(info.NodePort()), backends: cluster}
	if info.ExternalPolicyLocal() {
		plan.backends = local
	}
	if info.SessionAffinityType() == v1.ServiceAffinityClientIP {
		plan.affinity = time.Duration(info.StickyMaxAgeSeconds()) * time.Second
	}
	return plan, len(plan.backends) > 0
}

// serviceChanged is called by serviceMap.Update for each changed Service.
func (p *nodeProxy) serviceChanged(previous, current proxy.ServicePortMap) {
	var service types.NamespacedName
	for _, m := range []proxy.ServicePortMap{previous, current} {
		for name := range m {
			p.touched[name] = true
			service = name.NamespacedName
		}
	}
	p.checks.want(service, current.HealthCheckNodePorts()[service])
}

// endpointsChanged is called by endpointsMap.Update for each Service with changed endpoints.
func (p *nodeProxy) endpointsChanged(previous, current proxy.EndpointsMap) {
	var service types.NamespacedName
	for _, m := range []proxy.EndpointsMap{previous, current} {
		for name := range m {
			p.touched[name] = true
			service = name.NamespacedName
		}
	}
	p.checks.count(service, current.LocalReadyEndpoints()[service])
}

func (p *nodeProxy) closeAll() {
	for _, port := range p.nodePorts {
		port.close()
	}
	p.checks.closeAll()
}
