package simulation

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// kind is a resource of the hub.
type kind int

const (
	loadBalancers kind = iota
	targetGroups
	addresses
	classes
	tenants
	proxies
	reports
	leases
	namespaceKind
	machineKind
	clusterKind
	kinds
)

func (k kind) String() string {
	return [...]string{"loadbalancers", "targetgroups", "addresses", "loadbalancerclasses", "tenants", "proxies", "proxyreports", "leases", "namespaces", "machines", "clusters"}[k]
}

func (k kind) resource() schema.GroupResource { return schema.GroupResource{Resource: k.String()} }

func kindOf(o client.Object) kind {
	switch o := o.(type) {
	case *clusterv1.LoadBalancer:
		return loadBalancers
	case *v1alpha1.TargetGroup:
		return targetGroups
	case *v1alpha1.Address:
		return addresses
	case *v1alpha1.LoadBalancerClass:
		return classes
	case *v1alpha1.Tenant:
		return tenants
	case *v1alpha1.Proxy:
		return proxies
	case *v1alpha1.ProxyReport:
		return reports
	case *coordinationv1.Lease:
		return leases
	case *metav1.PartialObjectMetadata:
		return namespaceKind
	case *unstructured.Unstructured:
		return kindOfUnstructured(o)
	}
	panic(fmt.Sprintf("simulation: no kind of %T", o))
}

// event is a change of one object; gone: with the version of its deletion.
type event struct {
	version int64
	object  client.Object
	gone    bool
}

// server is the API server: one counter of versions, and a log of each
// resource. What it holds is shared and never changed.
type server struct {
	version int64
	// uid is that of the namespace kube-system.
	uid     string
	objects [kinds]map[types.NamespacedName]client.Object
	log     [kinds][]event
	// floor: a watch from before it must list anew.
	floor [kinds]int64
	// refusing takes no report in these namespaces.
	refusing map[string]bool
	// writes are those of anything but Leases.
	writes int
	// observe is told of each change; now is nil for a deletion.
	observe func(k kind, old, now client.Object)
}

func newServer() *server {
	s := &server{uid: "hub-0", observe: func(kind, client.Object, client.Object) {}, refusing: map[string]bool{}}
	for k := range s.objects {
		s.objects[k] = map[types.NamespacedName]client.Object{}
	}
	return s
}

func versionOf(o client.Object) int64 {
	v, err := strconv.ParseInt(o.GetResourceVersion(), 10, 64)
	if err != nil {
		return 0
	}
	return v
}

func (s *server) stamp(o client.Object) {
	s.version++
	o.SetResourceVersion(strconv.FormatInt(s.version, 10))
}

// put stores o, which nobody else has.
func (s *server) put(o client.Object) client.Object {
	k := kindOf(o)
	s.stamp(o)
	old := s.objects[k][keyOf(o)]
	s.objects[k][keyOf(o)] = o
	s.note(k, event{s.version, o, false}, old, o)
	return o
}

func (s *server) note(k kind, e event, old, now client.Object) {
	s.log[k] = append(s.log[k], e)
	if k != leases {
		s.writes++
	}
	s.observe(k, old, now)
}

func (s *server) drop(o client.Object) {
	k := kindOf(o)
	delete(s.objects[k], keyOf(o))
	gone := deepCopy(o)
	s.stamp(gone)
	s.note(k, event{s.version, gone, true}, o, nil)
}

func deepCopy(o client.Object) client.Object { return o.DeepCopyObject().(client.Object) }

// list returns a resource's objects in order.
func (s *server) list(k kind) []client.Object {
	out := make([]client.Object, 0, len(s.objects[k]))
	for _, o := range s.objects[k] {
		out = append(out, o)
	}
	slices.SortFunc(out, func(a, b client.Object) int { return compareKeys(keyOf(a), keyOf(b)) })
	return out
}

func (s *server) get(k kind, key types.NamespacedName) (client.Object, error) {
	if o := s.objects[k][key]; o != nil {
		return o, nil
	}
	return nil, apierrors.NewNotFound(k.resource(), key.Name)
}

func (s *server) create(o client.Object) (client.Object, error) {
	k := kindOf(o)
	if s.objects[k][keyOf(o)] != nil {
		return nil, apierrors.NewAlreadyExists(k.resource(), o.GetName())
	}
	if err := s.takes(k, o.GetNamespace()); err != nil {
		return nil, err
	}
	if k == loadBalancers || k == targetGroups || k == machineKind || k == clusterKind || k == reports && o.GetNamespace() != v1alpha1.SystemNamespace {
		switch ns := s.objects[namespaceKind][types.NamespacedName{Name: o.GetNamespace()}]; {
		case ns == nil:
			return nil, apierrors.NewNotFound(namespaceKind.resource(), o.GetNamespace())
		case ns.GetDeletionTimestamp() != nil:
			err := apierrors.NewForbidden(k.resource(), o.GetName(), errors.New("the namespace is being terminated"))
			err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{Type: corev1.NamespaceTerminatingCause})
			return nil, err
		}
	}
	o = deepCopy(o)
	o.SetUID(types.UID(fmt.Sprintf("u%d", s.version+1)))
	o.SetCreationTimestamp(metav1.NewTime(time.Now().Truncate(time.Second)))
	o.SetGeneration(1)
	return s.put(o), nil
}

// update replaces an object, whole. A version or UID in it must be the present one.
func (s *server) update(o client.Object) (client.Object, error) {
	k := kindOf(o)
	old := s.objects[k][keyOf(o)]
	switch {
	case old == nil:
		return nil, apierrors.NewNotFound(k.resource(), o.GetName())
	case o.GetResourceVersion() != "" && o.GetResourceVersion() != old.GetResourceVersion(), o.GetUID() != "" && o.GetUID() != old.GetUID():
		return nil, apierrors.NewConflict(k.resource(), o.GetName(), nil)
	}
	if err := s.takes(k, o.GetNamespace()); err != nil {
		return nil, err
	}
	o = deepCopy(o)
	o.SetUID(old.GetUID())
	o.SetCreationTimestamp(old.GetCreationTimestamp())
	o.SetDeletionTimestamp(old.GetDeletionTimestamp())
	o.SetResourceVersion(old.GetResourceVersion())
	o.SetGeneration(old.GetGeneration())
	if specDiffers(old, o) {
		o.SetGeneration(old.GetGeneration() + 1)
	}
	if equality.Semantic.DeepEqual(old, o) {
		return old, nil // it stays as it is, its version too
	}
	if o.GetDeletionTimestamp() != nil && len(o.GetFinalizers()) == 0 {
		s.drop(o)
		return o, nil
	}
	return s.put(o), nil
}

// takes says that it takes writes of a resource in a namespace.
func (s *server) takes(k kind, namespace string) error {
	if k == reports && s.refusing[namespace] {
		return apierrors.NewForbidden(k.resource(), namespace, errors.New("a policy forbids it"))
	}
	return nil
}

func specDiffers(a, b client.Object) bool {
	switch a := a.(type) {
	case *clusterv1.LoadBalancer:
		return !equality.Semantic.DeepEqual(a.Spec, b.(*clusterv1.LoadBalancer).Spec)
	case *v1alpha1.TargetGroup:
		return !equality.Semantic.DeepEqual(a.Spec, b.(*v1alpha1.TargetGroup).Spec)
	case *v1alpha1.Address:
		return !equality.Semantic.DeepEqual(a.Spec, b.(*v1alpha1.Address).Spec)
	case *v1alpha1.Proxy:
		return !equality.Semantic.DeepEqual(a.Spec, b.(*v1alpha1.Proxy).Spec)
	}
	return false
}

// remove deletes an object, or marks it where it has finalizers.
func (s *server) remove(k kind, key types.NamespacedName, p *metav1.Preconditions) error {
	old := s.objects[k][key]
	switch {
	case old == nil:
		return apierrors.NewNotFound(k.resource(), key.Name)
	case p != nil && (p.UID != nil && *p.UID != old.GetUID() || p.ResourceVersion != nil && *p.ResourceVersion != old.GetResourceVersion()):
		return apierrors.NewConflict(k.resource(), key.Name, nil)
	case len(old.GetFinalizers()) == 0:
		s.drop(old)
	case old.GetDeletionTimestamp() == nil:
		o := deepCopy(old)
		now := metav1.NewTime(time.Now().Truncate(time.Second))
		o.SetDeletionTimestamp(&now)
		o.SetGeneration(o.GetGeneration() + 1)
		s.put(o)
	}
	return nil
}
