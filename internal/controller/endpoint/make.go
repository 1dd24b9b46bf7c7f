package endpoint

import (
	"context"
	"fmt"
	"net/netip"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/internal/controller/kit"
	rules "fairlead.dev/fairlead/internal/endpoint"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Reasons of events about Clusters whose annotation asks for a LoadBalancer.
const (
	// EventMade asks nothing of anybody.
	EventMade = "LoadBalancerMade"
	// EventNotMade: none is made, for the reason that the message gives.
	EventNotMade = "LoadBalancerNotMade"
	// EventOtherClass: there is one, of another class than the annotation's; delete it, and it is made of that.
	EventOtherClass = "LoadBalancerOfOtherClass"
)

// Recorder writes one event about a Cluster.
type Recorder interface {
	Event(cluster *unstructured.Unstructured, kind, reason, message string)
}

// make makes the LoadBalancer that a Cluster asks for by naming a class, if there is none of its name. One that is there is left
// as it is, and one whose Cluster asks no more, too: only people take a control plane's address away.
func (r *Reconciler) make(ctx context.Context, c *unstructured.Unstructured, named string, f *fronts, mirrored rules.HostPort) error {
	class := c.GetAnnotations()[clusterv1.ClassAnnotation]
	if class == "" {
		return nil
	}
	switch {
	case f.refused != "":
		r.tell(c, "Warning", EventNotMade, sentence(f.refused))
		return nil
	case f.foreign != "":
		r.tell(c, "Warning", EventNotMade, sentence(f.foreign+": name another one in the annotation loadbalancer.cluster.x-k8s.io/name"))
		return nil
	case f.exists:
		if l := f.primary; l != nil && l.Name == named && l.Spec.ClassName != "" && l.Spec.ClassName != class {
			r.tell(c, "Warning", EventOtherClass, fmt.Sprintf("LoadBalancer %s is of class %s, which can't be changed, and the annotation says %s: delete it to have it made of that.", l.Name, l.Spec.ClassName, class))
		}
		return nil
	}
	l := wanted(c, named, class, mirrored)
	if err := r.Client.Create(ctx, l, client.FieldOwner(kit.FieldManager)); err != nil {
		return fmt.Errorf("creating LoadBalancer %s/%s for Cluster %s: %w", l.Namespace, l.Name, c.GetName(), err)
	}
	r.Logger.Info("loadbalancer made", "loadbalancer", l.Namespace+"/"+l.Name, "cluster", c.GetName(), "class", class)
	r.tell(c, "Normal", EventMade, fmt.Sprintf("LoadBalancer %s of class %s was made for its control plane.", l.Name, class))
	return nil
}

// apiServerPort is where API servers listen whose Cluster doesn't say.
const apiServerPort = 6443

// wanted is the LoadBalancer of a class for a Cluster's control plane. An endpoint that was another LoadBalancer's before, as
// mirrored, and is an address, is wanted again: that is where clients look for it.
func wanted(c *unstructured.Unstructured, name, class string, mirrored rules.HostPort) *clusterv1.LoadBalancer {
	listens := int32(apiServerPort)
	if n, _, err := unstructured.NestedInt64(c.Object, "spec", "clusterNetwork", "apiServerPort"); err == nil && n > 0 && n < 1<<16 {
		listens = int32(n)
	}
	l := &clusterv1.LoadBalancer{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: c.GetNamespace(), Name: name,
			Labels:          map[string]string{clusterv1.ClusterNameLabel: c.GetName()},
			OwnerReferences: []metav1.OwnerReference{ownedBy(c)},
		},
		Spec: clusterv1.LoadBalancerSpec{
			Role: clusterv1.RoleControlPlane, ClusterName: c.GetName(), ClassName: class,
			Ports: []clusterv1.Port{{Protocol: clusterv1.ProtocolTCP, Port: listens, TargetPort: listens}},
		},
	}
	if h := endpointOf(c); h.Whole() {
		l.Spec.Endpoint, l.Spec.Ports[0].Port = &clusterv1.Endpoint{Host: h.Host, Port: h.Port}, h.Port
		if a, err := netip.ParseAddr(h.Host); err == nil && mirrored.Same(h) {
			l.Spec.Addresses = []string{a.Unmap().String()}
		}
	}
	return l
}

// ofLoadBalancer is the endpoint that a Cluster has from a LoadBalancer, be that there or not; empty: it has none from one.
func ofLoadBalancer(all []clusterv1.ClusterEndpoint) rules.HostPort {
	for i := range all {
		if e := read(&all[i]); e.Generated && e.Source == rules.FromLoadBalancer {
			return e.HostPort
		}
	}
	return rules.HostPort{}
}

// tell writes an event about a Cluster, once until another one is to be written.
func (r *Reconciler) tell(c *unstructured.Unstructured, kind, reason, message string) {
	of := client.ObjectKeyFromObject(c)
	r.mu.Lock()
	before := r.told[of]
	r.told[of] = message
	r.mu.Unlock()
	if before != message && r.Events != nil {
		r.Events.Event(c, kind, reason, message)
	}
}
