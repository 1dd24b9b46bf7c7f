package main

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// measureNode takes a node out of all load balancers and puts it in again, and counts the writes.
func (b *bench) measureNode(ctx context.Context) error {
	for _, change := range []struct{ what, value string }{
		{"a node is excluded", `""`},
		{"a node is back", `null`},
	} {
		from, err := b.now()
		if err != nil {
			return err
		}
		node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: b.tenant.Nodes()[1].Name}}
		patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:%s}}}`, v1.LabelNodeExcludeBalancers, change.value)
		if err := b.tenant.API.Patch(ctx, node, client.RawPatch(types.MergePatchType, patch)); err != nil {
			return fmt.Errorf("changing a node: %w", err)
		}
		// All that follows from it: reports of drained members are written within 5 s.
		if err := b.settle(ctx, 6*time.Second); err != nil {
			return err
		}
		w, _, err := b.writesSince(from)
		if err != nil {
			return err
		}
		groups := w.of("patch targetgroups ") + w.of("update targetgroups ") + w.of("create targetgroups ") + w.of("delete targetgroups ")
		if groups == 0 {
			return fmt.Errorf("%s, and no TargetGroup was written: nothing was measured", change.what)
		}
		b.add(fmt.Sprintf("%s at %d Services: TargetGroup writes", change.what, b.inPlace), "", float64(groups), 1, "")
		b.add(fmt.Sprintf("%s at %d Services: all writes", change.what, b.inPlace), "", float64(w.total()), 8, w.per(1))
	}
	return nil
}
