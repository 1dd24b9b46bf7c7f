package provider

import (
	"context"
	"fmt"
	"slices"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/internal/build"
	"fairlead.dev/fairlead/internal/member"
	"fairlead.dev/fairlead/provider/contract"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// defaultPort is a control plane's.
const defaultPort = 6443

var clusterKind = schema.GroupKind{Group: clusterv1.GroupVersion.Group, Kind: "Cluster"}

// refersTo is the name of the object of the provider's kind that a LoadBalancer refers to.
func (r *reconciler) refersTo(l *clusterv1.LoadBalancer) (string, bool) {
	ref := l.Spec.InfrastructureRef
	if ref == nil || ref.APIGroup != r.kind.Group || ref.Kind != r.kind.Kind {
		return "", false
	}
	return ref.Name, true
}

// loadBalancers are those that an object implements: one, if all is well.
func (r *reconciler) loadBalancers(ctx context.Context, o Object) ([]*clusterv1.LoadBalancer, error) {
	all := &clusterv1.LoadBalancerList{}
	if err := r.client.List(ctx, all, client.InNamespace(o.GetNamespace())); err != nil {
		return nil, fmt.Errorf("listing LoadBalancers: %w", err)
	}
	var out []*clusterv1.LoadBalancer
	for i := range all.Items {
		l := &all.Items[i]
		if name, ok := r.refersTo(l); ok && name == o.GetName() || ownedBy(o, l.Name) {
			out = append(out, l)
		}
	}
	return out, nil
}

// cluster reads the Cluster of an object or its LoadBalancer, from the API server itself; nil: there is none.
func (r *reconciler) cluster(ctx context.Context, o Object, l *clusterv1.LoadBalancer) (*unstructured.Unstructured, error) {
	name := o.GetLabels()[clusterv1.ClusterNameLabel]
	if l != nil && member.ClusterName(l) != "" {
		name = member.ClusterName(l)
	}
	if name == "" {
		return nil, nil
	}
	return r.read(ctx, clusterKind, o.GetNamespace(), name)
}

// read gets an object in the version that the hub prefers, from the API server itself; nil: it isn't there, or its kind isn't.
func (r *reconciler) read(ctx context.Context, kind schema.GroupKind, namespace, name string) (*unstructured.Unstructured, error) {
	m, err := r.kinds.RESTMapping(kind)
	if meta.IsNoMatchError(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("looking for kind %s: %w", kind, err)
	}
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(m.GroupVersionKind)
	err = r.live.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, u)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s %s: %w", kind.Kind, name, err)
	}
	return u, nil
}

// reference is what a field of a Cluster's spec refers to.
type reference struct {
	schema.GroupKind
	namespace, name string
}

func (f reference) String() string { return f.Kind + " " + f.name }

// referenceOf reads a field of a Cluster's spec; false: it refers to nothing, or isn't as the API has it.
func referenceOf(cluster *unstructured.Unstructured, field string) (reference, bool) {
	if cluster == nil {
		return reference{}, false
	}
	ref, found, err := unstructured.NestedStringMap(cluster.Object, "spec", field)
	if err != nil || !found || ref["name"] == "" {
		return reference{}, false
	}
	kind := schema.GroupKind{Group: ref["apiGroup"], Kind: ref["kind"]}
	if v := ref["apiVersion"]; v != "" {
		kind.Group = schema.FromAPIVersionAndKind(v, kind.Kind).Group
	}
	return reference{kind, cluster.GetNamespace(), ref["name"]}, true
}

// controlPlane says whether a LoadBalancer is its Cluster's control plane's. A problem says why that can't be seen.
func (r *reconciler) controlPlane(ctx context.Context, l *clusterv1.LoadBalancer, cluster *unstructured.Unstructured) (bool, *problem, error) {
	if l.Spec.Role != "" || cluster == nil {
		return member.RoleOf(l, "") == clusterv1.RoleControlPlane, nil, nil
	}
	var annotations map[string]string
	if ref, found := referenceOf(cluster, "controlPlaneRef"); found && cluster.GetAnnotations()[member.NameAnnotation] == "" {
		plane, err := r.read(ctx, ref.GroupKind, ref.namespace, ref.name)
		switch {
		case apierrors.IsForbidden(err):
			return false, &problem{contract.ReasonRoleUnknown, fmt.Sprintf("%s of Cluster %s may name LoadBalancer %s as its own, and can't be read: %v. Give the provider that right, or set spec.role of the LoadBalancer.", ref, cluster.GetName(), l.Name, err)}, nil
		case err != nil:
			return false, nil, err
		case plane != nil:
			annotations = plane.GetAnnotations()
		}
	}
	return member.RoleOf(l, member.NamedBy(cluster.GetName(), cluster.GetAnnotations(), annotations)) == clusterv1.RoleControlPlane, nil, nil
}

// endpointOf is a Cluster's; empty: it has none.
func endpointOf(cluster *unstructured.Unstructured) clusterv1.Endpoint {
	if cluster == nil {
		return clusterv1.Endpoint{}
	}
	host, _, err := unstructured.NestedString(cluster.Object, "spec", "controlPlaneEndpoint", "host")
	if err != nil {
		return clusterv1.Endpoint{}
	}
	port, _, err := unstructured.NestedInt64(cluster.Object, "spec", "controlPlaneEndpoint", "port")
	if err != nil || port < 0 || port > 65535 {
		return clusterv1.Endpoint{}
	}
	return clusterv1.Endpoint{Host: host, Port: int32(port)}
}

// heldBy says why nothing may be done outside; "": it may. A move of a Cluster to another hub wipes annotations and then
// deletes: the load balancer goes on, for the other hub.
func heldBy(o Object, l *clusterv1.LoadBalancer, cluster *unstructured.Unstructured) string {
	objects := []client.Object{o}
	if l != nil {
		objects = append(objects, l)
	}
	if cluster != nil {
		if paused, _, err := unstructured.NestedBool(cluster.Object, "spec", "paused"); err == nil && paused {
			return fmt.Sprintf("Cluster %s is paused, by spec.paused.", cluster.GetName())
		}
		objects = append(objects, cluster)
	}
	for _, x := range objects {
		for _, key := range []string{clusterv1.PausedAnnotation, clusterv1.MoveAnnotation} {
			if _, ok := x.GetAnnotations()[key]; ok {
				return fmt.Sprintf("%s has the annotation %s.", x.GetName(), key)
			}
		}
	}
	return ""
}

// selects says whether a LoadBalancer sends to TargetGroups with these labels.
func selects(l *clusterv1.LoadBalancer, of map[string]string) bool {
	s, err := build.Selector(l)
	return err == nil && s.Matches(labels.Set(of))
}

// portsOf a LoadBalancer, with their defaults; for a control plane one, which goes to the API server's own.
func portsOf(l *clusterv1.LoadBalancer, controlPlane bool, e clusterv1.Endpoint) []clusterv1.Port {
	ports := slices.Clone(l.Spec.Ports)
	if len(ports) == 0 && controlPlane {
		ports = []clusterv1.Port{{Name: "https", Port: defaultPort, TargetPort: defaultPort}}
		if e.Port != 0 {
			ports[0].Port = e.Port
		}
	}
	for i := range ports {
		p := &ports[i]
		if p.Protocol == "" {
			p.Protocol = clusterv1.ProtocolTCP
		}
		if p.TargetPort == 0 {
			p.TargetPort = p.Port
		}
	}
	return ports
}
