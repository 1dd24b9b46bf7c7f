package hollow

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"runtime"
	"sync/atomic"
	"time"

	coordination "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/utils/ptr"
)

// leaseSeconds is what a kubelet writes; node-lifecycle looks at the renewals only.
const leaseSeconds = 40

// node is a kubelet's word about itself: its Node object, its Lease, its Ready condition.
type node struct {
	spec      NodeSpec
	client    kubernetes.Interface
	lister    listers.NodeLister
	proxies   []*nodeProxy // one an address
	heartbeat time.Duration
	log       *slog.Logger

	alive atomic.Bool
	check chan struct{} // capacity 1: look at the Node object now
}

// Node is the present object, or nil; ProxyHealthServer asks for it.
func (n *node) Node() *v1.Node {
	obj, err := n.lister.Get(n.spec.Name)
	if err != nil {
		return nil
	}
	return obj
}

// register creates the Node, or corrects what an earlier process left. It waits
// for the API server for as long as ctx lives.
func (n *node) register(ctx context.Context, podCIDRs []string) error {
	for {
		err := n.tryRegister(ctx, podCIDRs)
		if err == nil {
			return nil
		}
		if apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || ctx.Err() != nil {
			return fmt.Errorf("registering node %s: %w", n.spec.Name, err)
		}
		n.log.Info("registering node", "err", err)
		select {
		case <-ctx.Done():
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func (n *node) tryRegister(ctx context.Context, podCIDRs []string) error {
	labels := map[string]string{
		v1.LabelHostname:   n.spec.Name,
		v1.LabelOSStable:   runtime.GOOS,
		v1.LabelArchStable: runtime.GOARCH,
	}
	if n.spec.Zone != "" {
		labels[v1.LabelTopologyZone] = n.spec.Zone
	}
	obj := &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: n.spec.Name, Labels: labels},
		Spec: v1.NodeSpec{
			ProviderID: "hollow://" + n.spec.Name,
			PodCIDR:    podCIDRs[0],
			PodCIDRs:   podCIDRs,
		},
		Status: n.status(nil),
	}
	_, err := n.client.CoreV1().Nodes().Create(ctx, obj, metav1.CreateOptions{})
	if err == nil {
		return n.renewLease(ctx)
	}
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": labels}})
	if err != nil {
		return err
	}
	old, err := n.client.CoreV1().Nodes().Patch(ctx, n.spec.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return err
	}
	if old.Annotations[StateAnnotation] == StateDead {
		return nil
	}
	if err := n.patchStatus(ctx, old); err != nil {
		return err
	}
	return n.renewLease(ctx)
}

// observe takes what the API server says of this node.
func (n *node) observe(obj *v1.Node, alive bool) {
	if n.alive.Swap(alive) != alive {
		n.log.Info("node state", "alive", alive)
	}
	for _, p := range n.proxies {
		p.setNode(alive, obj.Labels)
	}
	if alive && !isReady(obj) {
		select {
		case n.check <- struct{}{}:
		default:
		}
	}
}

// run writes heartbeats until ctx ends: a Lease every n.heartbeat, the status
// whenever somebody else (node-lifecycle) turned Ready away from True.
func (n *node) run(ctx context.Context) {
	ticker := time.NewTicker(n.heartbeat)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-n.check:
		}
		if !n.alive.Load() {
			continue
		}
		if err := n.beat(ctx); err != nil && ctx.Err() == nil {
			n.log.Info("heartbeat failed", "err", err)
		}
	}
}

func (n *node) beat(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, n.heartbeat)
	defer cancel()
	if err := n.renewLease(ctx); err != nil {
		return err
	}
	if obj := n.Node(); obj != nil && !isReady(obj) {
		return n.patchStatus(ctx, obj)
	}
	return nil
}

func (n *node) renewLease(ctx context.Context) error {
	leases := n.client.CoordinationV1().Leases(v1.NamespaceNodeLease)
	now := metav1.NowMicro()
	patch := fmt.Sprintf(`{"spec":{"renewTime":%q}}`, now.UTC().Format(metav1.RFC3339Micro))
	_, err := leases.Patch(ctx, n.spec.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if !apierrors.IsNotFound(err) {
		return err
	}
	_, err = leases.Create(ctx, &coordination.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: n.spec.Name},
		Spec: coordination.LeaseSpec{
			HolderIdentity:       &n.spec.Name,
			LeaseDurationSeconds: ptr.To[int32](leaseSeconds),
			RenewTime:            &now,
		},
	}, metav1.CreateOptions{})
	return err
}

func (n *node) patchStatus(ctx context.Context, old *v1.Node) error {
	patch, err := json.Marshal(map[string]any{"status": n.status(old)})
	if err != nil {
		return err
	}
	_, err = n.client.CoreV1().Nodes().Patch(ctx, n.spec.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
}

// status is what this node says of itself; old, if not nil, keeps its Ready
// condition's transition time where nothing changed.
func (n *node) status(old *v1.Node) v1.NodeStatus {
	now := metav1.Now()
	ready := v1.NodeCondition{Type: v1.NodeReady, Status: v1.ConditionTrue, Reason: "KubeletReady",
		Message: "hollow node runs", LastHeartbeatTime: now, LastTransitionTime: now}
	if old != nil && isReady(old) {
		for _, c := range old.Status.Conditions {
			if c.Type == v1.NodeReady {
				ready.LastTransitionTime = c.LastTransitionTime
			}
		}
	}
	addresses := []v1.NodeAddress{}
	for _, a := range n.spec.addresses() {
		addresses = append(addresses, v1.NodeAddress{Type: v1.NodeInternalIP, Address: a.String()})
	}
	room := v1.ResourceList{
		v1.ResourceCPU:    resource.MustParse("32"),
		v1.ResourceMemory: resource.MustParse("64Gi"),
		v1.ResourcePods:   *resource.NewQuantity(podsPerNode, resource.DecimalSI),
	}
	return v1.NodeStatus{
		Capacity:    room,
		Allocatable: room,
		Conditions:  []v1.NodeCondition{ready},
		Addresses:   append(addresses, v1.NodeAddress{Type: v1.NodeHostName, Address: n.spec.Name}),
		NodeInfo: v1.NodeSystemInfo{
			OperatingSystem: runtime.GOOS, Architecture: runtime.GOARCH,
			KubeletVersion: "v1.37.2", OSImage: "hollow", ContainerRuntimeVersion: "hollow://1",
		},
	}
}

func isReady(n *v1.Node) bool {
	for _, c := range n.Status.Conditions {
		if c.Type == v1.NodeReady {
			return c.Status == v1.ConditionTrue
		}
	}
	return false
}
