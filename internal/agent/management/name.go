package management

import (
	"fmt"
	"strconv"
	"strings"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/agent/service"
	"fairlead.dev/fairlead/internal/machines"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const originKind = "LoadBalancer/"

// FromMachine is the value of v1alpha1.LabelGeneratedFrom.
const FromMachine = "Machine"

// Name is that of a LoadBalancer in the hub. It is the same after a backup is restored, and no Service's.
func Name(of types.NamespacedName) string {
	return service.Name(types.NamespacedName{Namespace: originKind + of.Namespace, Name: of.Name})
}

// GroupName is that of a TargetGroup in the hub, by the LoadBalancer's name there. It isn't one that the hub's own controller of
// members makes.
func GroupName(inHub string, number int) string { return fmt.Sprintf("%s-machines-%d", inHub, number) }

// NumberOf reads such a name; false: it is none of that LoadBalancer's.
func NumberOf(inHub, group string) (int, bool) {
	rest, ok := strings.CutPrefix(group, inHub+"-machines-")
	n, err := strconv.Atoi(rest)
	return n, ok && err == nil && n >= 0 && GroupName(inHub, n) == group
}

// OriginOf is what an object in the hub says of the LoadBalancer that it was made from.
func OriginOf(of types.NamespacedName) string { return originKind + of.Namespace + "/" + of.Name }

// Origin is the LoadBalancer that a LoadBalancer or TargetGroup of the hub was made from; false: from none, or it hasn't the name
// that goes with that.
func Origin(o metav1.Object) (types.NamespacedName, bool) {
	rest, ok := strings.CutPrefix(o.GetAnnotations()[v1alpha1.AnnotationOrigin], originKind)
	namespace, name, slash := strings.Cut(rest, "/")
	of := types.NamespacedName{Namespace: namespace, Name: name}
	if !ok || !slash || namespace == "" || name == "" {
		return of, false
	}
	_, isGroup := NumberOf(Name(of), o.GetName())
	return of, isGroup || o.GetName() == Name(of)
}

// Local is the number of a TargetGroup that was made here for a LoadBalancer's Machines; false: it is none.
func Local(g *v1alpha1.TargetGroup) (of types.NamespacedName, number int, ok bool) {
	name, number, ok := machines.GroupOf(g.Name)
	if !ok || g.Labels[v1alpha1.LabelGeneratedFrom] != FromMachine || g.Labels[v1alpha1.LabelFor] != name {
		return of, 0, false
	}
	return types.NamespacedName{Namespace: g.Namespace, Name: name}, number, true
}
