package fleet

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Ledger returns the Address of that address.
func (f *Fleet) Ledger(ctx context.Context, a netip.Addr) (*v1alpha1.Address, error) {
	o := &v1alpha1.Address{}
	return o, f.Hub.API.Get(ctx, client.ObjectKey{Name: a.String()}, o)
}

// IsGranted is an error unless the ledger has an address for this tenant, and no other.
func (f *Fleet) IsGranted(ctx context.Context, t *Tenant, a netip.Addr) error {
	return f.isHeld(ctx, t, a, v1alpha1.AddressGranted)
}

// IsReleasing is an error unless the ledger keeps an address for its last holder, which is this tenant.
func (f *Fleet) IsReleasing(ctx context.Context, t *Tenant, a netip.Addr) error {
	return f.isHeld(ctx, t, a, v1alpha1.AddressReleasing)
}

func (f *Fleet) isHeld(ctx context.Context, t *Tenant, a netip.Addr, phase v1alpha1.AddressPhase) error {
	o, err := f.Ledger(ctx, a)
	if err != nil {
		return err
	}
	if o.Spec.Phase != phase || len(o.Spec.Holders) != 1 || o.Spec.Holders[0].Namespace != t.Name() {
		return fmt.Errorf("the ledger has %s %s for %v", a, o.Spec.Phase, o.Spec.Holders)
	}
	return nil
}

// NodesGroup is the TargetGroup of a tenant's nodes.
func (f *Fleet) NodesGroup(ctx context.Context, t *Tenant) (*v1alpha1.TargetGroup, error) {
	g := &v1alpha1.TargetGroup{}
	return g, f.Hub.API.Get(ctx, client.ObjectKey{Namespace: t.Name(), Name: "nodes-0"}, g)
}

// LoadBalancerOf is what the hub has of a tenant's Service of the namespace default.
func (f *Fleet) LoadBalancerOf(ctx context.Context, t *Tenant, service string) (*clusterv1.LoadBalancer, error) {
	list := &clusterv1.LoadBalancerList{}
	if err := f.Hub.API.List(ctx, list, client.InNamespace(t.Name())); err != nil {
		return nil, err
	}
	for i := range list.Items {
		if list.Items[i].Annotations[v1alpha1.AnnotationOrigin] == "Service/default/"+service {
			return &list.Items[i], nil
		}
	}
	return nil, fmt.Errorf("the hub has no LoadBalancer of %s's Service %s", t.Name(), service)
}

// Member is what the hub says of a tenant's node; an empty State: it is plainly active.
func (f *Fleet) Member(ctx context.Context, t *Tenant, node string) (v1alpha1.MemberStatus, error) {
	g, err := f.NodesGroup(ctx, t)
	if err != nil {
		return v1alpha1.MemberStatus{}, err
	}
	for _, m := range g.Status.Targets {
		if m.Name == node {
			return m, nil
		}
	}
	return v1alpha1.MemberStatus{}, nil
}

// IsMember is an error unless the hub says that of a tenant's node, with that message.
func (f *Fleet) IsMember(ctx context.Context, t *Tenant, node, state, message string) error {
	m, err := f.Member(ctx, t, node)
	if err == nil && (m.State != state || m.Message != message) {
		err = fmt.Errorf("it is %q: %s", m.State, m.Message)
	}
	return err
}

// WaitsFor is the message of a member that leaves and waits for one proxy.
func WaitsFor(proxy string) string {
	return "Waiting for proxies: " + proxy + " has not applied it yet."
}

// IsBlocked is an error unless a pool says that this proxy alone, which is silent, holds up the release of its addresses.
func (f *Fleet) IsBlocked(ctx context.Context, pool, proxy string) error {
	o := &v1alpha1.AddressPool{}
	if err := f.Hub.API.Get(ctx, client.ObjectKey{Name: pool}, o); err != nil {
		return err
	}
	c := meta.FindStatusCondition(o.Status.Conditions, clusterv1.ConditionDegraded)
	want := fmt.Sprintf("Addresses can't be released because proxies are silent: %s. Bring each back, set spec.fenced on it if it can't serve any more, or delete its Proxy.", proxy)
	if c == nil || c.Reason != clusterv1.ReasonReleaseBlocked || c.Message != want {
		return fmt.Errorf("its condition is %v", c)
	}
	return nil
}

// Epoch is the highest that any proxy has adopted.
func (f *Fleet) Epoch(ctx context.Context) (int64, error) {
	list, epoch := &v1alpha1.ProxyList{}, int64(0)
	err := f.Hub.API.List(ctx, list)
	for _, p := range list.Items {
		epoch = max(epoch, p.Status.Epoch)
	}
	return epoch, err
}

// AwaitFollowed waits until each proxy has said that the hub changed, for that reason, and then that it follows it, in an epoch
// after that one. Something must hold all the while: its error ends the wait.
func (f *Fleet) AwaitFollowed(ctx context.Context, epoch int64, reason string, meanwhile func(context.Context) error) error {
	frozen := map[string]bool{}
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		if err := meanwhile(ctx); err != nil {
			return fmt.Errorf("while the proxies look at the hub: %w", err)
		}
		waits := ""
		for _, p := range f.Proxies {
			if why := f.follows(ctx, p, epoch, reason, frozen); why != "" {
				waits = why
			}
		}
		if waits == "" {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the proxies don't follow the hub: %s: %w", waits, context.Cause(ctx))
		case <-ticker.C:
		}
	}
}

// follows returns why a proxy doesn't follow a hub that changed, or "". It notes which have been frozen.
func (f *Fleet) follows(ctx context.Context, p *Proxy, epoch int64, reason string, frozen map[string]bool) string {
	o := &v1alpha1.Proxy{}
	if err := f.Hub.API.Get(ctx, client.ObjectKey{Name: p.Name}, o); err != nil {
		return err.Error()
	}
	c := meta.FindStatusCondition(o.Status.Conditions, v1alpha1.ConditionHubChanged)
	switch {
	case c != nil && c.Status == metav1.ConditionTrue && c.Reason == reason:
		frozen[p.Name] = true
		return fmt.Sprintf("%s is frozen: %s", p.Name, c.Message)
	case !frozen[p.Name]:
		return fmt.Sprintf("%s has not said that the hub changed: %v", p.Name, c)
	case o.Status.Epoch <= epoch:
		return fmt.Sprintf("%s is in epoch %d", p.Name, o.Status.Epoch)
	}
	return ""
}
