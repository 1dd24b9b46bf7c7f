package kit

import (
	"context"
	"fmt"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/build"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Admit reads the TargetGroups of a namespace, and judges them by its Tenant's spec.quota.targets. Where that is not set nothing is read,
// and all are admitted. The groups are shared with the cache.
func Admit(ctx context.Context, c client.Reader, namespace string, tenant *v1alpha1.Tenant) ([]*v1alpha1.TargetGroup, build.Admission, error) {
	if tenant == nil || tenant.Spec.Quota == nil || tenant.Spec.Quota.Targets == nil {
		return nil, build.Admission{}, nil
	}
	list := &v1alpha1.TargetGroupList{}
	if err := c.List(ctx, list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, build.Admission{}, fmt.Errorf("listing the TargetGroups of Tenant %s: %w", tenant.Name, err)
	}
	groups := make([]*v1alpha1.TargetGroup, 0, len(list.Items))
	for i := range list.Items {
		groups = append(groups, &list.Items[i])
	}
	return groups, build.Admit(groups, tenant), nil
}
