package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// cached is a cluster's cache that gets its kinds, or never.
type cached struct {
	never error
	asked []string
}

func (c *cached) GetInformer(_ context.Context, of client.Object, _ ...cache.InformerGetOption) (cache.Informer, error) {
	c.asked = append(c.asked, fmt.Sprintf("%T", of))
	return nil, c.never
}

// An agent needs both clusters: neither's cache alone is enough.
func TestBothClustersAreWaitedFor(t *testing.T) {
	away := errors.New("away")
	for _, c := range []struct {
		name              string
		tenant, hub, want error
	}{{"both", nil, nil, nil}, {"no hub", nil, away, away}, {"no tenant", away, nil, away}} {
		tenant, hub := &cached{never: c.tenant}, &cached{never: c.hub}
		if err := known(t.Context(), tenant, hub, false); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
		if c.want == nil && (!slices.Equal(tenant.asked, []string{"*v1.Service", "*v1.Node"}) || !slices.Equal(hub.asked, []string{"*v1beta1.LoadBalancer", "*v1alpha1.TargetGroup"})) {
			t.Errorf("of the tenant's cluster %q, of the hub %q", tenant.asked, hub.asked)
		}
	}
}
