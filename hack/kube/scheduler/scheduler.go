// Package scheduler turns Pods without a node into bindings. It is no
// kube-scheduler (that costs 75 CPU seconds to compile): a Pod goes to the node
// with the fewest Pods among those that are Ready, schedulable and free of
// NoSchedule and NoExecute taints, and that match the Pod's nodeSelector; room for
// Pods is the only resource that counts.
package scheduler

import (
	"context"
	"fmt"
	"sort"
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
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
)

// Scheduler binds Pods to nodes. Make one with New, then call Run.
type Scheduler struct {
	client kubernetes.Interface
	pods   listers.PodLister
	nodes  listers.NodeLister
	synced []cache.InformerSynced
	queue  workqueue.TypedRateLimitingInterface[types.NamespacedName]

	mu     sync.Mutex
	placed map[types.UID]string              // Pod → node, our own bindings at once
	parked map[types.NamespacedName]struct{} // Pods that fit nowhere until a node changes
}

// New adds its handlers to the informers; the caller starts them.
func New(client kubernetes.Interface, pods informers.PodInformer, nodes informers.NodeInformer) (*Scheduler, error) {
	s := &Scheduler{
		client: client,
		pods:   pods.Lister(),
		nodes:  nodes.Lister(),
		queue: workqueue.NewTypedRateLimitingQueue(
			workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](20*time.Millisecond, 5*time.Second)),
		placed: map[types.UID]string{},
		parked: map[types.NamespacedName]struct{}{},
	}
	p, err := pods.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { s.podSeen(o.(*v1.Pod)) },
		UpdateFunc: func(_, o any) { s.podSeen(o.(*v1.Pod)) },
		DeleteFunc: func(o any) {
			if gone, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = gone.Obj
			}
			s.podGone(o.(*v1.Pod))
		},
	})
	if err != nil {
		return nil, fmt.Errorf("watching pods: %w", err)
	}
	n, err := nodes.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { s.unpark() },
		UpdateFunc: func(_, _ any) { s.unpark() },
	})
	if err != nil {
		return nil, fmt.Errorf("watching nodes: %w", err)
	}
	s.synced = []cache.InformerSynced{p.HasSynced, n.HasSynced}
	return s, nil
}

// Run binds until ctx ends.
func (s *Scheduler) Run(ctx context.Context) {
	defer s.queue.ShutDown()
	if !cache.WaitForCacheSync(ctx.Done(), s.synced...) {
		return
	}
	go func() {
		<-ctx.Done()
		s.queue.ShutDown()
	}()
	for {
		key, quit := s.queue.Get()
		if quit {
			return
		}
		if err := s.schedule(ctx, key); err != nil && ctx.Err() == nil {
			klog.InfoS("Pod not bound", "pod", key, "err", err)
			s.queue.AddRateLimited(key)
		} else {
			s.queue.Forget(key)
		}
		s.queue.Done(key)
	}
}

func (s *Scheduler) podSeen(p *v1.Pod) {
	if over(p) {
		s.podGone(p)
		return
	}
	if p.Spec.NodeName != "" {
		s.mu.Lock()
		s.placed[p.UID] = p.Spec.NodeName
		s.mu.Unlock()
		return
	}
	s.queue.Add(types.NamespacedName{Namespace: p.Namespace, Name: p.Name})
}

func (s *Scheduler) podGone(p *v1.Pod) {
	s.mu.Lock()
	delete(s.placed, p.UID)
	s.mu.Unlock()
	s.unpark() // there may be room now
}

func (s *Scheduler) unpark() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key := range s.parked {
		s.queue.Add(key)
	}
	clear(s.parked)
}

func (s *Scheduler) schedule(ctx context.Context, key types.NamespacedName) error {
	p, err := s.pods.Pods(key.Namespace).Get(key.Name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if p.Spec.NodeName != "" || p.DeletionTimestamp != nil || over(p) {
		return nil
	}
	nodes, err := s.nodes.List(labels.Everything())
	if err != nil {
		return err
	}
	s.mu.Lock()
	load := map[string]int{}
	for _, node := range s.placed {
		load[node]++
	}
	_, bound := s.placed[p.UID]
	target := Pick(p, nodes, load)
	switch {
	case bound:
	case target == "":
		s.parked[key] = struct{}{}
	default:
		s.placed[p.UID] = target
	}
	s.mu.Unlock()
	if bound || target == "" {
		return nil
	}
	err = s.client.CoreV1().Pods(p.Namespace).Bind(ctx, &v1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: p.Name, UID: p.UID},
		Target:     v1.ObjectReference{Kind: "Node", Name: target},
	}, metav1.CreateOptions{})
	if err == nil {
		return nil
	}
	s.mu.Lock()
	delete(s.placed, p.UID)
	s.mu.Unlock()
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // gone, or bound by somebody else; its event follows
	}
	return err
}

// Pick returns the node for a Pod, or "" if none fits. load counts Pods by node.
// Equals go by name, so that the outcome is the same each time.
func Pick(p *v1.Pod, nodes []*v1.Node, load map[string]int) string {
	fit := []*v1.Node{}
	for _, n := range nodes {
		if fits(p, n, load[n.Name]) {
			fit = append(fit, n)
		}
	}
	if len(fit) == 0 {
		return ""
	}
	sort.Slice(fit, func(i, j int) bool {
		if a, b := load[fit[i].Name], load[fit[j].Name]; a != b {
			return a < b
		}
		return fit[i].Name < fit[j].Name
	})
	return fit[0].Name
}

func fits(p *v1.Pod, n *v1.Node, load int) bool {
	if n.Spec.Unschedulable || n.DeletionTimestamp != nil {
		return false
	}
	for _, t := range n.Spec.Taints {
		if t.Effect == v1.TaintEffectNoSchedule || t.Effect == v1.TaintEffectNoExecute {
			return false
		}
	}
	if room, ok := n.Status.Allocatable[v1.ResourcePods]; ok && int64(load) >= room.Value() {
		return false
	}
	if !labels.SelectorFromSet(p.Spec.NodeSelector).Matches(labels.Set(n.Labels)) {
		return false
	}
	for _, c := range n.Status.Conditions {
		if c.Type == v1.NodeReady {
			return c.Status == v1.ConditionTrue
		}
	}
	return false
}

func over(p *v1.Pod) bool {
	return p.Status.Phase == v1.PodSucceeded || p.Status.Phase == v1.PodFailed
}
