package hollow

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// StateAnnotation on a Node tells it to die ("dead": its listening sockets close
// at once and its heartbeats stop, while open connections live on) or, when it is
// removed, to come back. On a Pod, "unready" makes its Ready condition False.
const StateAnnotation = "hollow.fairlead.dev/state"

// Values of StateAnnotation.
const (
	StateDead    = "dead"
	StateUnready = "unready"
)

// NodeSpec is one node to play.
type NodeSpec struct {
	Name string
	// Address is the IPv4 address of this node, its InternalIP: a loopback address, or another one that this host has.
	Address netip.Addr
	// Address6, if valid, is its IPv6 address: the node and its Pods are dual-stack then.
	Address6 netip.Addr
	// Zone, if not empty, becomes the label topology.kubernetes.io/zone.
	Zone string
}

// addresses are those of the node, IPv4 first.
func (n *NodeSpec) addresses() []netip.Addr {
	if n.Address6.IsValid() {
		return []netip.Addr{n.Address, n.Address6}
	}
	return []netip.Addr{n.Address}
}

// Options of Run. All fields are needed.
type Options struct {
	Client kubernetes.Interface
	// Cluster is named in every answer of a Pod.
	Cluster string
	// Nodes in a stable order: the n-th node's Pods have addresses in 10.244.n.0/24 and fd00:10:244:n::/64.
	Nodes []NodeSpec
	// Heartbeat is the time between two renewals of a node's Lease.
	Heartbeat time.Duration
	Log       *slog.Logger
}

// Run registers the nodes and plays them until ctx ends. It then closes every
// socket; Node and Pod objects stay.
func Run(ctx context.Context, o Options) error {
	if len(o.Nodes) > 250 {
		return fmt.Errorf("%d nodes: at most 250 have Pod addresses", len(o.Nodes))
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	factory := informers.NewSharedInformerFactoryWithOptions(o.Client, 0, informers.WithTransform(dropManagedFields))
	nodes := factory.Core().V1().Nodes()
	pods := newPodRunner(o, factory.Core().V1().Pods())

	var all sync.WaitGroup
	defer all.Wait()
	defer cancel() // before the wait
	byName := map[string]*node{}
	for _, spec := range o.Nodes {
		n := &node{
			spec:      spec,
			client:    o.Client,
			lister:    nodes.Lister(),
			heartbeat: o.Heartbeat,
			log:       o.Log.With("node", spec.Name),
			check:     make(chan struct{}, 1),
		}
		n.proxies = newNodeProxies(n, pods, n.log)
		if err := n.register(ctx, podCIDRs(pods.nodes[spec.Name].index, len(n.proxies))); err != nil {
			return err
		}
		byName[spec.Name] = n
	}

	synced := []cache.InformerSynced{}
	watch := func(informer cache.SharedIndexInformer, h cache.ResourceEventHandlerFuncs) error {
		r, err := informer.AddEventHandler(h)
		if err != nil {
			return err
		}
		synced = append(synced, r.HasSynced)
		return nil
	}
	onNode := func(obj *v1.Node, deleted bool) {
		n := byName[obj.Name]
		if n == nil {
			return
		}
		alive := !deleted && obj.Annotations[StateAnnotation] != StateDead
		n.observe(obj, alive)
		pods.setAlive(obj.Name, alive)
	}
	onService := func(old, current *v1.Service) {
		for _, n := range byName {
			for _, p := range n.proxies {
				p.onService(old, current)
			}
		}
	}
	onSlice := func(s *discovery.EndpointSlice, removed bool) {
		for _, n := range byName {
			for _, p := range n.proxies {
				p.onSlice(s, removed)
			}
		}
	}
	for _, err := range []error{
		watch(nodes.Informer(), handlers(
			func(n *v1.Node) { onNode(n, false) },
			func(_, n *v1.Node) { onNode(n, false) },
			func(n *v1.Node) { onNode(n, true) })),
		watch(factory.Core().V1().Services().Informer(), handlers(
			func(s *v1.Service) { onService(nil, s) },
			onService,
			func(s *v1.Service) { onService(s, nil) })),
		watch(factory.Discovery().V1().EndpointSlices().Informer(), handlers(
			func(s *discovery.EndpointSlice) { onSlice(s, false) },
			func(_, s *discovery.EndpointSlice) { onSlice(s, false) },
			func(s *discovery.EndpointSlice) { onSlice(s, true) })),
		watch(factory.Core().V1().Pods().Informer(), handlers(
			pods.enqueue,
			func(_, p *v1.Pod) { pods.enqueue(p) },
			pods.enqueue)),
	} {
		if err != nil {
			return fmt.Errorf("watching: %w", err)
		}
	}
	factory.Start(ctx.Done())
	defer factory.Shutdown()
	defer cancel() // before the shutdown
	if !cache.WaitForCacheSync(ctx.Done(), synced...) {
		return nil
	}
	all.Go(func() { pods.run(ctx) })
	for _, n := range byName {
		all.Go(func() { n.run(ctx) })
		for _, p := range n.proxies {
			all.Go(func() { p.run(ctx) })
		}
	}
	o.Log.Info("hollow nodes run", "cluster", o.Cluster, "nodes", len(o.Nodes))
	<-ctx.Done()
	return nil
}

// handlers adapts typed functions to an informer, deletions seen late included.
func handlers[T any](add func(T), update func(old, current T), remove func(T)) cache.ResourceEventHandlerFuncs {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { add(o.(T)) },
		UpdateFunc: func(old, o any) { update(old.(T), o.(T)) },
		DeleteFunc: func(o any) {
			if gone, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = gone.Obj
			}
			remove(o.(T))
		},
	}
}

func dropManagedFields(o any) (any, error) {
	if a, err := meta.Accessor(o); err == nil && a.GetManagedFields() != nil {
		a.SetManagedFields(nil)
	}
	return o, nil
}
