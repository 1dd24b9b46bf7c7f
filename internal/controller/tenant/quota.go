package tenant

import (
	"context"
	"fmt"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// quotaName is of the ResourceQuota in a Tenant's namespace.
	quotaName = "fairlead"
	// quotaRoom is how many objects more than needed there may be: those that wait, are being deleted, or are empty.
	quotaRoom = 10

	countLoadBalancers = "count/loadbalancers.cluster.x-k8s.io"
	countTargetGroups  = "count/targetgroups.fairlead.dev"
	countLeases        = "count/leases.coordination.k8s.io"
)

// resourceQuota bounds how many objects the API server takes from a Tenant, so that none floods the hub. Within these bounds
// the ledger judges the Tenant's quota, and says so: LoadBalancers without an address may wait for one.
func resourceQuota(t *v1alpha1.Tenant) *corev1.ResourceQuota {
	hard := corev1.ResourceList{countLeases: count(quotaRoom)}
	if q := t.Spec.Quota; q != nil && q.LoadBalancers != nil {
		hard[countLoadBalancers] = count(2*int64(*q.LoadBalancers) + quotaRoom)
	}
	if q := t.Spec.Quota; q != nil && q.Targets != nil {
		hard[countTargetGroups] = count(int64(*q.Targets) + quotaRoom)
	}
	return &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: t.NamespaceName(), Name: quotaName, Labels: labelsOf(t)},
		Spec:       corev1.ResourceQuotaSpec{Hard: hard},
	}
}

func count(n int64) resource.Quantity { return *resource.NewQuantity(n, resource.DecimalSI) }

// bound makes the namespace's ResourceQuota as it should be.
func (r *Reconciler) bound(ctx context.Context, t *v1alpha1.Tenant) error {
	want := resourceQuota(t)
	if err := ensure(ctx, r.Client, want, &corev1.ResourceQuota{}, func(have *corev1.ResourceQuota) bool {
		return equality.Semantic.DeepEqual(have.Spec, want.Spec)
	}, func(have *corev1.ResourceQuota) { have.Spec = want.Spec }); err != nil {
		return fmt.Errorf("bounding Tenant %s: %w", t.Name, err)
	}
	return nil
}
