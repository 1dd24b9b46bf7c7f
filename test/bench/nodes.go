package main

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/testkit"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// manyNodes are those of the real tenant, for a while. They are objects without kubelets: Kubernetes finds that out after 50 s.
	manyNodes = 1000
	// groupBound is what one TargetGroup may hold, so that a node's change is a small write.
	groupBound = 100
)

// measureManyNodes gives the real tenant a thousand nodes, and changes one. The tenant has no Services then.
func (b *bench) measureManyNodes(ctx context.Context) error {
	if err := b.deleteAll(ctx, []string{"held"}); err != nil {
		return err
	}
	first := b.tenant.Nodes()[0].Address.As4()
	wide := netip.PrefixFrom(netip.AddrFrom4([4]byte{first[0], first[1], 64, 0}), 20)
	tenant := &v1alpha1.Tenant{}
	if err := b.Hub.API.Get(ctx, client.ObjectKey{Name: b.tenant.Name()}, tenant); err != nil {
		return err
	}
	before := tenant.DeepCopy()
	tenant.Spec.TargetCIDRs = append(tenant.Spec.TargetCIDRs, wide.String())
	if err := b.Hub.API.Patch(ctx, tenant, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("letting tenant %s have more nodes: %w", tenant.Name, err)
	}
	all, address := names("many", manyNodes), map[string]netip.Addr{}
	for i, a := 0, wide.Addr().Next(); i < len(all); i, a = i+1, a.Next() {
		address[all[i]] = a
	}
	began := time.Now()
	err := forEach(all, many, func(name string) error {
		n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: v1.NodeStatus{
			Addresses:  []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: address[name].String()}},
			Conditions: []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue, LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now()}},
		}}
		if err := b.tenant.API.Create(ctx, n); err != nil {
			return fmt.Errorf("creating %s: %w", name, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	waiting, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	most := 0
	err = testkit.Poll(waiting, 100*time.Millisecond, "all nodes in the hub", func(ctx context.Context) error {
		groups, known := &v1alpha1.TargetGroupList{}, 0
		if err := b.Hub.API.List(ctx, groups, client.InNamespace(b.tenant.Name())); err != nil {
			return err
		}
		most = 0
		for i := range groups.Items {
			n := len(groups.Items[i].Spec.Targets)
			known, most = known+n, max(most, n)
		}
		if known < manyNodes {
			return fmt.Errorf("%d are known", known)
		}
		return nil
	})
	if err != nil {
		return err
	}
	b.add(fmt.Sprintf("%d nodes: known to the hub", manyNodes), "s", time.Since(began).Seconds(), 0, "from the first one's creation")
	b.add(fmt.Sprintf("%d nodes: targets of one TargetGroup, most", manyNodes), "", float64(most), groupBound, "")
	if err := b.settle(ctx, time.Second); err != nil {
		return err
	}
	from, err := b.now()
	if err != nil {
		return err
	}
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: all[manyNodes/2]}}
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:""}}}`, v1.LabelNodeExcludeBalancers)
	if err := b.tenant.API.Patch(ctx, node, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return fmt.Errorf("changing a node: %w", err)
	}
	if err := b.settle(ctx, 2*time.Second); err != nil {
		return err
	}
	w, _, err := b.writesSince(from)
	if err != nil {
		return err
	}
	groups := w.of("patch targetgroups ") + w.of("update targetgroups ") + w.of("create targetgroups ") + w.of("delete targetgroups ")
	if groups == 0 {
		return fmt.Errorf("a node was excluded, and no TargetGroup was written: nothing was measured")
	}
	b.add(fmt.Sprintf("a node of %d is excluded: TargetGroup writes", manyNodes), "", float64(groups), 1, w.per(1))
	return nil
}
