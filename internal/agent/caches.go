package agent

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	controlplanev1 "fairlead.dev/fairlead/api/controlplane/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	infrav1 "fairlead.dev/fairlead/api/infrastructure/v1beta1"
	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// mapper names the resources of all kinds that the agent uses, without asking an API server: the
// agent starts while one is away, and needs no right to discovery.
func mapper(*rest.Config, *http.Client) (meta.RESTMapper, error) {
	m := meta.NewDefaultRESTMapper(nil)
	for resource, kind := range map[string]schema.GroupVersionKind{
		"services":      v1.SchemeGroupVersion.WithKind("Service"),
		"loadbalancers": clusterv1.GroupVersion.WithKind("LoadBalancer"),
		"targetgroups":  v1alpha1.GroupVersion.WithKind("TargetGroup"),
		"leases":        coordinationv1.SchemeGroupVersion.WithKind("Lease"),
		"events":        eventsv1.SchemeGroupVersion.WithKind("Event"),

		"clusterendpoints":      clusterv1.GroupVersion.WithKind("ClusterEndpoint"),
		"externalcontrolplanes": controlplanev1.GroupVersion.WithKind("ExternalControlPlane"),
		"unmanagedclusters":     infrav1.GroupVersion.WithKind("UnmanagedCluster"),
	} {
		add(m, kind, resource, meta.RESTScopeNamespace)
	}
	for resource, kind := range map[string]schema.GroupVersionKind{
		"nodes":               v1.SchemeGroupVersion.WithKind("Node"),
		"namespaces":          v1.SchemeGroupVersion.WithKind("Namespace"),
		"tenants":             v1alpha1.GroupVersion.WithKind("Tenant"),
		"loadbalancerclasses": v1alpha1.GroupVersion.WithKind("LoadBalancerClass"),
	} {
		add(m, kind, resource, meta.RESTScopeRoot)
	}
	return m, nil
}

func add(m *meta.DefaultRESTMapper, kind schema.GroupVersionKind, resource string, scope meta.RESTScope) {
	r := kind.GroupVersion().WithResource(resource)
	m.AddSpecific(kind, r, r, scope)
	// Caches of one namespace ask for the list's kind, as discovery has it.
	kind.Kind += "List"
	m.AddSpecific(kind, r, r, scope)
}

// What the caches return is shared and never changed: a tenant with 10,000 Services would be
// copied for each look.
var shared = true

func tenantCache() cache.Options {
	return cache.Options{
		DefaultTransform:             cache.TransformStripManagedFields(),
		DefaultUnsafeDisableDeepCopy: &shared,
		ByObject: map[client.Object]cache.ByObject{
			&v1.Node{}: {Transform: slimNode},
			// In a management cluster the controller of members reads these, too, and changes its copies.
			&clusterv1.LoadBalancer{}: {UnsafeDisableDeepCopy: new(bool)},
			&v1alpha1.TargetGroup{}:   {UnsafeDisableDeepCopy: new(bool)},
			// And these are those of its Clusters.
			&clusterv1.ClusterEndpoint{}:           {UnsafeDisableDeepCopy: new(bool)},
			&controlplanev1.ExternalControlPlane{}: {UnsafeDisableDeepCopy: new(bool)},
			&infrav1.UnmanagedCluster{}:            {UnsafeDisableDeepCopy: new(bool)},
		},
	}
}

func hubCache(namespace string) cache.Options {
	return cache.Options{
		DefaultNamespaces:            map[string]cache.Config{namespace: {}},
		DefaultTransform:             cache.TransformStripManagedFields(),
		DefaultUnsafeDisableDeepCopy: &shared,
	}
}

// defaultsCache holds one Tenant and all classes.
func defaultsCache(tenant string) cache.Options {
	return cache.Options{
		DefaultTransform:             cache.TransformStripManagedFields(),
		DefaultUnsafeDisableDeepCopy: &shared,
		ByObject: map[client.Object]cache.ByObject{
			&v1alpha1.Tenant{}: {Field: fields.OneTermEqualSelector("metadata.name", tenant)},
		},
	}
}

// slimNode keeps of a Node what package node reads.
func slimNode(obj any) (any, error) {
	n, ok := obj.(*v1.Node)
	if !ok {
		return obj, nil
	}
	n.ManagedFields = nil
	n.Spec = v1.NodeSpec{Taints: n.Spec.Taints}
	status := v1.NodeStatus{Addresses: n.Status.Addresses}
	for _, c := range n.Status.Conditions {
		if c.Type == v1.NodeReady {
			status.Conditions = []v1.NodeCondition{{Type: c.Type, Status: c.Status}}
		}
	}
	n.Status = status
	return n, nil
}

// informers is what a cluster's cache does for who waits for it.
type informers interface {
	// GetInformer returns once the kind is cached as a whole, and fails when ctx ends before.
	GetInformer(ctx context.Context, of client.Object, opts ...cache.InformerGetOption) (cache.Informer, error)
}

// known returns once all that the controllers read is cached, of both clusters. Whoever doesn't lead caches none of it, and should not
// ask: it would begin to.
func known(ctx context.Context, tenant, hub informers, mirrors bool) error {
	type read struct {
		where string
		cache informers
		kind  client.Object
	}
	all := []read{
		{"the tenant's cluster", tenant, &v1.Service{}}, {"the tenant's cluster", tenant, &v1.Node{}},
		{"the hub", hub, &clusterv1.LoadBalancer{}}, {"the hub", hub, &v1alpha1.TargetGroup{}},
	}
	if mirrors {
		all = append(all, read{"the tenant's cluster", tenant, &clusterv1.LoadBalancer{}}, read{"the tenant's cluster", tenant, &v1alpha1.TargetGroup{}})
	}
	for _, k := range all {
		if _, err := k.cache.GetInformer(ctx, k.kind); err != nil {
			return fmt.Errorf("caching %T of %s: %w", k.kind, k.where, err)
		}
	}
	return nil
}

// looked is how many of the hub's objects are looked at, to tell whether it is older than the caches.
const looked = 8

// newest returns what finds the objects of the hub's cache that changed last.
func newest(hub client.Reader, namespace string) func(context.Context) ([]client.Object, error) {
	return func(ctx context.Context) ([]client.Object, error) {
		groups, balancers := &v1alpha1.TargetGroupList{}, &clusterv1.LoadBalancerList{}
		for _, list := range []client.ObjectList{groups, balancers} {
			if err := hub.List(ctx, list, client.InNamespace(namespace)); err != nil {
				return nil, fmt.Errorf("listing what is cached: %w", err)
			}
		}
		var all []client.Object
		for i := range groups.Items {
			all = append(all, &groups.Items[i])
		}
		for i := range balancers.Items {
			all = append(all, &balancers.Items[i])
		}
		slices.SortFunc(all, func(a, b client.Object) int {
			switch x, y := a.GetResourceVersion(), b.GetResourceVersion(); {
			case older(x, y):
				return 1
			case older(y, x):
				return -1
			}
			return 0
		})
		return all[:min(looked, len(all))], nil
	}
}
