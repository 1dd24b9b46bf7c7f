package proxy

import (
	"maps"
	"slices"
	"strings"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// Resource is one of the hub's resources that a Program is built from.
type Resource int

const (
	LoadBalancers Resource = iota
	TargetGroups
	Addresses
	Classes
	Tenants
	resources
)

// String is the resource's name in the API, and the key in Proxy.status.through.
func (r Resource) String() string {
	return [...]string{"loadbalancers", "targetgroups", "addresses", "loadbalancerclasses", "tenants"}[r]
}

func (r Resource) newObject() Object {
	switch r {
	case LoadBalancers:
		return &clusterv1.LoadBalancer{}
	case TargetGroups:
		return &v1alpha1.TargetGroup{}
	case Addresses:
		return &v1alpha1.Address{}
	case Classes:
		return &v1alpha1.LoadBalancerClass{}
	}
	return &v1alpha1.Tenant{}
}

// Object is an object of the hub.
type Object interface {
	metav1.Object
	runtime.Object
}

// Key names an object within its resource.
type Key struct{ Namespace, Name string }

func keyOf(o metav1.Object) Key { return Key{o.GetNamespace(), o.GetName()} }

// Change is an object that is new or different, or gone (Object nil).
type Change struct {
	Resource Resource
	Key      Key
	Object   Object
}

// handTo tells a Builder.
func (c Change) handTo(b Builder) {
	if c.Object != nil {
		b.Set(c.Object)
		return
	}
	gone := c.Resource.newObject()
	gone.SetNamespace(c.Key.Namespace)
	gone.SetName(c.Key.Name)
	b.Delete(gone)
}

// Versions is a resource version for each resource; "" where nothing was listed yet.
type Versions [resources]string

// Through is the form of v in the API.
func (v Versions) Through() v1alpha1.Through {
	return v1alpha1.Through{
		LoadBalancers:       v[LoadBalancers],
		TargetGroups:        v[TargetGroups],
		Addresses:           v[Addresses],
		LoadBalancerClasses: v[Classes],
		Tenants:             v[Tenants],
	}
}

// newer says that resource version a is later than b. Resource versions of one
// resource are comparable since Kubernetes 1.35; "" is before all, and what is
// no number is never newer.
func newer(a, b string) bool {
	if b == "" {
		return a != ""
	}
	c, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && c > 0
}

const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// strip takes away what nothing is built from, so that it is neither kept nor
// compared. o is not shared with anybody yet.
func strip(o Object) {
	o.SetManagedFields(nil)
	delete(o.GetAnnotations(), lastApplied)
	switch o := o.(type) {
	case *clusterv1.LoadBalancer:
		if moves(o) {
			o.SetDeletionTimestamp(nil) // It is served until its users are sent to where it moved.
		}
		o.Status = clusterv1.LoadBalancerStatus{}
	case *v1alpha1.TargetGroup:
		o.Status = quotaOf(o)
	case *v1alpha1.LoadBalancerClass:
		o.Status = v1alpha1.LoadBalancerClassStatus{}
	case *v1alpha1.Tenant:
		o.Status = v1alpha1.TenantStatus{HubEpoch: o.Status.HubEpoch, AgentEpoch: o.Status.AgentEpoch}
	}
}

// servedAlike says that nothing that is built from differs: a write to
// somebody's status, or to the managed fields, changes no traffic.
func servedAlike(a, b Object) bool {
	return a.GetUID() == b.GetUID() &&
		a.GetGeneration() == b.GetGeneration() &&
		(a.GetDeletionTimestamp() == nil) == (b.GetDeletionTimestamp() == nil) &&
		maps.Equal(a.GetLabels(), b.GetLabels()) &&
		maps.Equal(a.GetAnnotations(), b.GetAnnotations()) &&
		epochsOf(a) == epochsOf(b) &&
		quotaAlike(a, b)
}

// quotaOf is what a TargetGroup's status says that matters here: who is within the Tenant's quota, and whether that was judged.
func quotaOf(g *v1alpha1.TargetGroup) v1alpha1.TargetGroupStatus {
	s := v1alpha1.TargetGroupStatus{WithinQuota: g.Status.WithinQuota, BeyondQuota: g.Status.BeyondQuota}
	if len(s.WithinQuota) > 0 || s.BeyondQuota > 0 || g.Status.Members == "" {
		return s
	}
	if s.Members = "1/1"; strings.HasSuffix(g.Status.Members, "/0") { // how many are well matters to nobody here
		s.Members = "0/0"
	}
	return s
}

// quotaAlike says that both say the same of that.
func quotaAlike(a, b Object) bool {
	x, ok := a.(*v1alpha1.TargetGroup)
	y, ok2 := b.(*v1alpha1.TargetGroup)
	if !ok || !ok2 {
		return true
	}
	was, is := quotaOf(x), quotaOf(y)
	return was.Members == is.Members && was.BeyondQuota == is.BeyondQuota && slices.Equal(was.WithinQuota, is.WithinQuota)
}

// epochsOf is what a Tenant's status says that matters here.
func epochsOf(o Object) [2]int64 {
	if t, ok := o.(*v1alpha1.Tenant); ok {
		return [2]int64{t.Status.HubEpoch, t.Status.AgentEpoch}
	}
	return [2]int64{}
}
