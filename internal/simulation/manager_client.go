package simulation

import (
	"context"
	"fmt"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/controller/kit"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// cacheClient reads a manager's cache and writes to the API server.
type cacheClient struct {
	client.Client // what is not below is not used
	m             *manager
}

// copyInto gives the caller an object of its own.
func copyInto(to, from client.Object) error {
	switch to := to.(type) {
	case *clusterv1.LoadBalancer:
		from.(*clusterv1.LoadBalancer).DeepCopyInto(to)
	case *v1alpha1.LoadBalancerClass:
		from.(*v1alpha1.LoadBalancerClass).DeepCopyInto(to)
	case *v1alpha1.Address:
		from.(*v1alpha1.Address).DeepCopyInto(to)
	case *v1alpha1.Proxy:
		from.(*v1alpha1.Proxy).DeepCopyInto(to)
	case *coordinationv1.Lease:
		from.(*coordinationv1.Lease).DeepCopyInto(to)
	case *v1alpha1.Tenant:
		from.(*v1alpha1.Tenant).DeepCopyInto(to)
	case *v1alpha1.TargetGroup:
		from.(*v1alpha1.TargetGroup).DeepCopyInto(to)
	case *metav1.PartialObjectMetadata:
		from.(*metav1.PartialObjectMetadata).DeepCopyInto(to)
	case *unstructured.Unstructured:
		from.(*unstructured.Unstructured).DeepCopyInto(to)
	default:
		return fmt.Errorf("simulation: nobody should read a %T", to)
	}
	return nil
}

// Get reads the cache. Pools are there at all times.
func (c *cacheClient) Get(_ context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	switch o := obj.(type) {
	case *v1alpha1.AddressPool:
		o.Name = key.Name
		o.Spec.Quarantine = &metav1.Duration{Duration: c.m.w.quarantine}
		if c.m.w.has(SilentLetGo) {
			o.Spec.OnSilentProxy = "Release"
		}
		o.Spec.Restoring = c.m.w.restoring
		return nil
	}
	k := kindOf(obj)
	have := c.m.cache[k][key]
	if have == nil {
		return apierrors.NewNotFound(k.resource(), key.Name)
	}
	return copyInto(obj, have)
}

// List lists the cache.
func (c *cacheClient) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	var o client.ListOptions
	o.ApplyOptions(opts)
	each := func(k kind, add func(client.Object)) {
		for _, key := range sortedKeys(c.m.cache[k]) {
			x := c.m.cache[k][key]
			if (o.Namespace == "" || key.Namespace == o.Namespace) && (o.LabelSelector == nil || o.LabelSelector.Matches(labels.Set(x.GetLabels()))) {
				add(x)
			}
		}
	}
	switch l := list.(type) {
	case *clusterv1.LoadBalancerList:
		each(loadBalancers, func(o client.Object) { l.Items = append(l.Items, *o.(*clusterv1.LoadBalancer)) })
	case *v1alpha1.TargetGroupList:
		each(targetGroups, func(o client.Object) { l.Items = append(l.Items, *o.(*v1alpha1.TargetGroup)) })
	case *v1alpha1.LoadBalancerClassList:
		each(classes, func(o client.Object) { l.Items = append(l.Items, *o.(*v1alpha1.LoadBalancerClass)) })
	case *v1alpha1.AddressList:
		each(addresses, func(o client.Object) { l.Items = append(l.Items, *o.(*v1alpha1.Address)) })
	case *v1alpha1.TenantList:
		each(tenants, func(x client.Object) {
			if t := x.(*v1alpha1.Tenant); o.FieldSelector == nil || o.FieldSelector.Matches(fields.Set{kit.TenantByNamespace: t.NamespaceName()}) {
				l.Items = append(l.Items, *t)
			}
		})
	default:
		return fmt.Errorf("simulation: nobody should list %T", list)
	}
	return nil
}

// request writes.
func (c *cacheClient) request(write func() (client.Object, error)) (client.Object, error) {
	c.m.w.judgeWriter(c.m)
	c.m.w.hang(c.m)
	return c.m.link.request(c.m.decided(write))
}

// Create creates an Address.
func (c *cacheClient) Create(_ context.Context, obj client.Object, _ ...client.CreateOption) error {
	next := deepCopy(obj)
	return c.answer(obj)(c.request(func() (client.Object, error) { return c.m.w.server.create(next) }))
}

// Update updates an Address.
func (c *cacheClient) Update(_ context.Context, obj client.Object, _ ...client.UpdateOption) error {
	next := deepCopy(obj)
	if c.m.w.has(NoVersionOnUpdate) {
		next.SetResourceVersion("")
	}
	if next.GetResourceVersion() == "" {
		c.m.w.broken("%s updates %s without the version that it has read", c.m.name, keyOf(next))
	}
	return c.answer(obj)(c.request(func() (client.Object, error) { return c.m.w.server.update(next) }))
}

// Delete deletes an Address.
func (c *cacheClient) Delete(_ context.Context, obj client.Object, opts ...client.DeleteOption) error {
	var o client.DeleteOptions
	o.ApplyOptions(opts)
	k, key, p := kindOf(obj), keyOf(obj), o.Preconditions
	if c.m.w.has(NoPreconditions) {
		p = nil
	}
	if k == addresses && (p == nil || p.UID == nil || p.ResourceVersion == nil) {
		c.m.w.broken("%s deletes %s whatever its UID and version", c.m.name, key.Name)
	}
	_, err := c.request(func() (client.Object, error) { return nil, c.m.w.server.remove(k, key, p) })
	return err
}

// answer puts what the API server answered into the caller's object.
func (c *cacheClient) answer(to client.Object) func(client.Object, error) error {
	return func(from client.Object, err error) error {
		if err != nil {
			return err
		}
		return copyInto(to, from)
	}
}

// Patch takes a merge patch of anything but the status.
func (c *cacheClient) Patch(_ context.Context, obj client.Object, patch client.Patch, _ ...client.PatchOption) error {
	return c.patch(obj, patch)
}

// Status patches the status.
func (c *cacheClient) Status() client.SubResourceWriter { return statusWriter{c: c} }

type statusWriter struct {
	client.SubResourceWriter
	c *cacheClient
}

func (s statusWriter) Patch(_ context.Context, obj client.Object, patch client.Patch, _ ...client.SubResourcePatchOption) error {
	return s.c.patch(obj, patch)
}

// patch is a merge patch of anything.
func (c *cacheClient) patch(obj client.Object, patch client.Patch) error {
	data, err := patch.Data(obj)
	if err != nil {
		return err
	}
	k, key := kindOf(obj), keyOf(obj)
	out, err := c.request(func() (client.Object, error) {
		have, err := c.m.w.server.get(k, key)
		if err != nil {
			return nil, err
		}
		next, err := merged(have, data)
		if err != nil {
			return nil, err
		}
		return c.m.w.server.update(next)
	})
	return c.answer(obj)(out, err)
}

// liveReader reads from the API server itself.
type liveReader struct {
	client.Reader
	m *manager
}

func (r *liveReader) Get(_ context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	o, err := r.m.link.get(kindOf(obj), key)
	if err != nil {
		return err
	}
	return copyInto(obj, o)
}
