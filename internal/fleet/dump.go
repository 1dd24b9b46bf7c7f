package fleet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// Dump writes the objects that tell how things stand to Dir, a file a cluster, for
// whoever wants to know why something failed.
func (f *Fleet) Dump(ctx context.Context) error {
	errs := []error{dump(ctx, f.Hub, filepath.Join(f.Dir, "hub.yaml"),
		&v1alpha1.ProxyList{}, &v1alpha1.ProxyReportList{}, &clusterv1.LoadBalancerList{}, &v1alpha1.AddressList{},
		&v1alpha1.TargetGroupList{}, &v1alpha1.TenantList{}, &v1alpha1.AddressPoolList{}, &coordinationv1.LeaseList{})}
	for _, t := range f.Tenants {
		errs = append(errs, dump(ctx, t.Cluster, filepath.Join(f.Dir, t.Name()+".yaml"),
			&v1.NodeList{}, &v1.PodList{}, &v1.ServiceList{}, &v1.EventList{}))
	}
	return errors.Join(errs...)
}

func dump(ctx context.Context, c *Cluster, file string, lists ...client.ObjectList) error {
	text := []byte{}
	for _, l := range lists {
		if err := c.API.List(ctx, l); err != nil {
			return fmt.Errorf("dumping the objects of %s: %w", c.Name(), err)
		}
		b, err := yaml.Marshal(l)
		if err != nil {
			return fmt.Errorf("dumping the objects of %s: %w", c.Name(), err)
		}
		text = append(text, fmt.Sprintf("--- # %T\n%s", l, b)...)
	}
	return os.WriteFile(file, text, 0o644)
}
