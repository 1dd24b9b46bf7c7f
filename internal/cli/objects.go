package cli

import (
	"cmp"
	"slices"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/build"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// Objects are what explanations and overviews look at: those of the hub that were
// read, and where asked for, a tenant's Service or Node.
type Objects struct {
	// Now is the hub's time.
	Now           time.Time
	LoadBalancers []*clusterv1.LoadBalancer
	TargetGroups  []*v1alpha1.TargetGroup
	Classes       []*v1alpha1.LoadBalancerClass
	Pools         []*v1alpha1.AddressPool
	Addresses     []*v1alpha1.Address
	Tenants       []*v1alpha1.Tenant
	Proxies       []*v1alpha1.Proxy
	Reports       []*v1alpha1.ProxyReport
	Leases        []*coordinationv1.Lease
	// Services of a tenant cluster; nil: nobody looked.
	Services []*corev1.Service
	// Nodes of a tenant cluster, likewise.
	Nodes []*corev1.Node
	// Machines of the hub that targets stand for; nil: nobody looked. still says why those that were asked about may not be written now.
	Machines []*unstructured.Unstructured
	still    map[types.UID]string
	// Events of the Service and the LoadBalancer that were asked about.
	Events []*eventsv1.Event
	// EventsHidden are the kinds, Service or LoadBalancer, whose events were asked for and may not be read.
	EventsHidden []string
	// HubUID is the UID of the hub's namespace kube-system; empty: it was not read.
	HubUID string
	// Hidden are the resources that the reader may not read, such as proxies.
	Hidden []string
}

func (o *Objects) hidden(resource string) bool { return slices.Contains(o.Hidden, resource) }

// MayNot says whether the reader may not read one of these resources.
func (o *Objects) MayNot(resources ...string) bool { return slices.ContainsFunc(resources, o.hidden) }

// tenantOf is the Tenant that a namespace of the hub belongs to; nil: the hub operator's.
func (o *Objects) tenantOf(namespace string) *v1alpha1.Tenant {
	for _, t := range o.Tenants {
		if t.NamespaceName() == namespace {
			return t
		}
	}
	return nil
}

// admission is what its Tenant's quota leaves out of a namespace, as far as its TargetGroups were read.
func (o *Objects) admission(namespace string) build.Admission {
	groups := slices.DeleteFunc(slices.Clone(o.TargetGroups), func(g *v1alpha1.TargetGroup) bool { return g.Namespace != namespace })
	return build.Admit(groups, o.tenantOf(namespace))
}

// classOf is the class that a LoadBalancer names, else its Tenant's default, else the hub's; with its name where it doesn't exist.
func (o *Objects) classOf(l *clusterv1.LoadBalancer) (string, *v1alpha1.LoadBalancerClass) {
	name := l.Spec.ClassName
	if t := o.tenantOf(l.Namespace); name == "" && t != nil {
		name = t.Spec.DefaultClass
	}
	var marked []*v1alpha1.LoadBalancerClass
	for _, c := range o.Classes {
		if c.Name == name {
			return name, c
		}
		if c.Annotations[v1alpha1.AnnotationDefaultClass] == "true" {
			marked = append(marked, c)
		}
	}
	if name != "" || len(marked) == 0 {
		return name, nil
	}
	oldest := slices.MinFunc(marked, func(a, b *v1alpha1.LoadBalancerClass) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	return oldest.Name, oldest
}

func (o *Objects) lease(namespace, name string) *coordinationv1.Lease {
	for _, l := range o.Leases {
		if l.Namespace == namespace && l.Name == name {
			return l
		}
	}
	return nil
}

// renewed is how long ago a Lease was renewed; false: never, or there is none.
func (o *Objects) renewed(l *coordinationv1.Lease) (time.Duration, bool) {
	if l == nil || l.Spec.RenewTime == nil {
		return 0, false
	}
	return max(o.Now.Sub(l.Spec.RenewTime.Time), 0), true
}

// condition is the one that speaks of the object's present generation; nil: there is none.
func condition(conditions []metav1.Condition, kind string, generation int64) *metav1.Condition {
	if c := meta.FindStatusCondition(conditions, kind); c != nil && (c.ObservedGeneration == generation || c.ObservedGeneration == 0) {
		return c
	}
	return nil
}
