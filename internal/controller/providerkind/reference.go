package providerkind

import (
	"cmp"
	"strings"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/build"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// reference names an object of a LoadBalancer's namespace.
type reference struct {
	schema.GroupKind
	Name string
}

func (r reference) String() string { return r.GroupKind.String() + "/" + r.Name }

// text is how messages name it.
func (r reference) text(namespace string) string { return r.Kind + " " + namespace + "/" + r.Name }

// wanted is the object that a LoadBalancer is to have; template, if there is one, is what it is made from. false: none, or none
// of a provider kind.
func wanted(l *clusterv1.LoadBalancer, class *v1alpha1.LoadBalancerClass) (of reference, template *clusterv1.ObjectReference, ok bool) {
	switch ref := l.Spec.InfrastructureRef; {
	case ref != nil:
		of = reference{schema.GroupKind{Group: ref.APIGroup, Kind: ref.Kind}, ref.Name}
	case class != nil && class.Spec.InfrastructureTemplate != nil:
		template = class.Spec.InfrastructureTemplate
		of = reference{schema.GroupKind{Group: template.APIGroup, Kind: build.KindOfTemplate(template.Kind)}, l.Name}
	}
	if !of.mayServe() {
		return reference{}, nil, false
	}
	return of, template, true
}

// mayServe says whether the object may be one of a provider kind.
func (r reference) mayServe() bool {
	return r.Group == build.ProviderGroup && r.Kind != "" && r.Name != ""
}

// noted is the object that a LoadBalancer has, as it is noted there; false: none.
func noted(l *clusterv1.LoadBalancer) (reference, bool) {
	kind, name, ok := strings.Cut(l.Annotations[v1alpha1.AnnotationImplementedBy], "/")
	r := reference{schema.ParseGroupKind(kind), name}
	// Whoever writes LoadBalancers writes the annotation too: it leads to no other kinds than a reference does.
	return r, ok && r.mayServe()
}

// Has says that a provider object implements a LoadBalancer, or did.
func Has(l *clusterv1.LoadBalancer) bool {
	_, has := noted(l)
	return has
}

// ownedBy is the LoadBalancer's part in an object's metadata.
func ownedBy(l *clusterv1.LoadBalancer) metav1.OwnerReference {
	yes := true
	return metav1.OwnerReference{APIVersion: clusterv1.GroupVersion.String(), Kind: "LoadBalancer", Name: l.Name, UID: l.UID, Controller: &yes}
}

// owner names the LoadBalancer that an object is controlled by, be it an earlier one of that name. other is who else controls it.
func owner(o client.Object) (loadBalancer string, uid types.UID, other string) {
	c := metav1.GetControllerOf(o)
	if c == nil {
		return "", "", ""
	}
	gv, err := schema.ParseGroupVersion(c.APIVersion)
	if err == nil && gv.Group == clusterv1.GroupVersion.Group && c.Kind == "LoadBalancer" {
		return c.Name, c.UID, ""
	}
	return "", "", c.Kind + " " + c.Name
}

// others are an object's owners but for the one that controls it.
func others(o client.Object) (out []metav1.OwnerReference) {
	for _, r := range o.GetOwnerReferences() {
		if r.Controller == nil || !*r.Controller {
			out = append(out, r)
		}
	}
	return out
}

// OwnerOf names the LoadBalancer that an object is controlled by; "": none.
func OwnerOf(o client.Object) string {
	name, _, _ := owner(o)
	return name
}

// Refers says whether a LoadBalancer refers to an object, or has it noted.
func Refers(l *clusterv1.LoadBalancer, o client.Object) bool {
	of := reference{o.GetObjectKind().GroupVersionKind().GroupKind(), o.GetName()}
	have, ok := noted(l)
	if ok && have == of {
		return true
	}
	want, _, ok := wanted(l, nil)
	return ok && want == of
}

// endpointOf reads one of an object's endpoints, by its path. What isn't as the contract has it counts as absent.
func endpointOf(object map[string]any, in string) clusterv1.Endpoint {
	part, _ := object[in].(map[string]any)
	e, _ := part["endpoint"].(map[string]any)
	host, _ := e["host"].(string)
	port, _ := e["port"].(int64)
	if host == "" || len(host) > 253 || port <= 0 || port > 65535 {
		return clusterv1.Endpoint{}
	}
	return clusterv1.Endpoint{Host: host, Port: int32(port)}
}

func endpointValue(e *clusterv1.Endpoint) clusterv1.Endpoint {
	return *cmp.Or(e, &clusterv1.Endpoint{})
}
