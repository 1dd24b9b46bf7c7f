package hollow

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	informers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/util/workqueue"
)

const podWorkers = 16

// podRunner runs the Pods that are assigned to its nodes and reports their status.
type podRunner struct {
	client  kubernetes.Interface
	lister  listers.PodLister
	cluster string
	log     *slog.Logger
	queue   workqueue.TypedRateLimitingInterface[types.NamespacedName]
	nodes   map[string]*podNode // the set never changes

	mu     sync.RWMutex // guards the maps and podNode's fields
	byName map[types.NamespacedName]*pod
	byIP   map[string]*pod
}

// podNode is what the podRunner knows of one node.
type podNode struct {
	name      string
	index     int
	hosts     []netip.Addr // the node's own
	alive     bool
	addresses *addresses
}

// ips are a Pod's addresses: the one given, and one of each further family that its node has.
func (n *podNode) ips(ip netip.Addr) []netip.Addr {
	ips := []netip.Addr{ip}
	if len(n.hosts) > 1 {
		ips = append(ips, podAddress6(n.index, ip.As4()[3]))
	}
	return ips
}

func newPodRunner(o Options, pods informers.PodInformer) *podRunner {
	r := &podRunner{
		client:  o.Client,
		lister:  pods.Lister(),
		cluster: o.Cluster,
		log:     o.Log,
		queue: workqueue.NewTypedRateLimitingQueue(
			workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](20*time.Millisecond, 5*time.Second)),
		nodes:  map[string]*podNode{},
		byName: map[types.NamespacedName]*pod{},
		byIP:   map[string]*pod{},
	}
	for i, n := range o.Nodes {
		r.nodes[n.Name] = &podNode{name: n.Name, index: i + 1, hosts: n.addresses(), addresses: newAddresses(i + 1)}
	}
	return r
}

// at returns the Pod that runs at an address, or nil.
func (r *podRunner) at(ip string) *pod {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.byIP[ip]
}

// setAlive tells whether a node's kubelet works: if not, nothing is done for its Pods.
func (r *podRunner) setAlive(node string, alive bool) {
	r.mu.Lock()
	n := r.nodes[node]
	woke := alive && !n.alive
	n.alive = alive
	r.mu.Unlock()
	if !woke {
		return
	}
	all, err := r.lister.List(labels.Everything())
	if err != nil {
		r.log.Error("listing pods", "err", err)
		return
	}
	for _, p := range all {
		if p.Spec.NodeName == node {
			r.enqueue(p)
		}
	}
}

func (r *podRunner) enqueue(p *v1.Pod) {
	if _, ours := r.nodes[p.Spec.NodeName]; ours {
		r.queue.Add(types.NamespacedName{Namespace: p.Namespace, Name: p.Name})
	}
}

// run works until ctx ends, then stops all Pods without touching their objects.
func (r *podRunner) run(ctx context.Context) {
	var workers sync.WaitGroup
	for range podWorkers {
		workers.Go(func() { r.work(ctx) })
	}
	<-ctx.Done()
	r.queue.ShutDown()
	workers.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.byName {
		p.kill()
	}
}

func (r *podRunner) work(ctx context.Context) {
	for {
		key, quit := r.queue.Get()
		if quit {
			return
		}
		if err := r.reconcile(ctx, key); err != nil && ctx.Err() == nil {
			r.log.Info("pod", "pod", key.String(), "err", err)
			r.queue.AddRateLimited(key)
		} else {
			r.queue.Forget(key)
		}
		r.queue.Done(key)
	}
}

// reconcile is called for one key by one worker at a time.
func (r *podRunner) reconcile(ctx context.Context, key types.NamespacedName) error {
	obj, err := r.lister.Pods(key.Namespace).Get(key.Name)
	if apierrors.IsNotFound(err) {
		obj = nil
	} else if err != nil {
		return err
	}
	r.mu.RLock()
	running := r.byName[key]
	r.mu.RUnlock()
	if running != nil && (obj == nil || obj.UID != running.uid || finished(obj)) {
		r.remove(running)
		running = nil
	}
	if obj == nil || finished(obj) {
		return nil
	}
	node := r.nodes[obj.Spec.NodeName]
	if node == nil {
		return nil // a new Pod of the name, not ours (yet)
	}
	r.mu.RLock()
	alive := node.alive
	r.mu.RUnlock()
	switch {
	case !alive:
		return nil
	case obj.DeletionTimestamp == nil:
		return r.keepRunning(ctx, key, obj, node, running)
	case running == nil || running.ended():
		return r.deleteObject(ctx, obj)
	default:
		running.terminate(grace(obj), func() { r.queue.Add(key) })
		return nil
	}
}

func (r *podRunner) keepRunning(ctx context.Context, key types.NamespacedName, obj *v1.Pod, node *podNode, running *pod) error {
	if running == nil {
		r.mu.Lock()
		ip, ok := node.addresses.take(obj.Status.PodIP)
		if !ok {
			r.mu.Unlock()
			return fmt.Errorf("node %s has no free pod address", node.name)
		}
		running = startPod(r.cluster, obj, node.ips(ip), node)
		r.byName[key] = running
		for _, ip := range running.ips {
			r.byIP[ip.String()] = running
		}
		r.mu.Unlock()
	}
	patch, err := statusPatch(obj, running.ips, node.hosts)
	if err != nil || patch == nil {
		return err
	}
	_, err = r.client.CoreV1().Pods(key.Namespace).Patch(ctx, key.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // gone, or another Pod of the same name; its event follows
	}
	return err
}

func (r *podRunner) deleteObject(ctx context.Context, obj *v1.Pod) error {
	now := metav1.NewDeleteOptions(0)
	now.Preconditions = metav1.NewUIDPreconditions(string(obj.UID))
	err := r.client.CoreV1().Pods(obj.Namespace).Delete(ctx, obj.Name, *now)
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

func (r *podRunner) remove(p *pod) {
	p.kill()
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.byName, p.key)
	for _, ip := range p.ips {
		delete(r.byIP, ip.String())
	}
	p.node.addresses.free(p.ips[0])
}

func finished(p *v1.Pod) bool {
	return p.Status.Phase == v1.PodSucceeded || p.Status.Phase == v1.PodFailed
}

func grace(p *v1.Pod) time.Duration {
	if p.DeletionGracePeriodSeconds == nil {
		return 0
	}
	return time.Duration(*p.DeletionGracePeriodSeconds) * time.Second
}
