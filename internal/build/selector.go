package build

import (
	"fmt"
	"strings"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/lb"
	"fairlead.dev/fairlead/internal/member"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// Kinds of targets.
const (
	kindTargetGroup = "TargetGroup"
	kindMachine     = string(member.Machines)
	kindNode        = string(member.Nodes)
)

// Resolved is the kind of the objects from which the manager resolves a LoadBalancer's targets into TargetGroups, be they Machines or
// Nodes; "": it selects TargetGroups, or why says why they aren't resolved, and what to do. class is the LoadBalancer's, nil if that doesn't
// exist; tenant is its namespace's, nil if that has none.
func Resolved(l *clusterv1.LoadBalancer, class *v1alpha1.LoadBalancerClass, tenant *v1alpha1.Tenant) (kind member.Kind, why string) {
	kind = member.KindOf(targetKind(l))
	switch {
	case kind == "":
		return "", ""
	case tenant != nil:
		// Whoever writes LoadBalancers there could hold Machines, mark the hub's Nodes, and read of both.
		return "", fmt.Sprintf("in a Tenant's namespace %ss are not resolved: select TargetGroups, or make it in a namespace of no Tenant", kind)
	case class == nil:
	case class.Spec.Proxy == nil && class.Spec.Service == nil && class.Spec.InfrastructureTemplate == nil && class.Spec.HooksOnly == nil:
		return "", fmt.Sprintf("%ss are resolved for classes with proxy, service, infrastructureTemplate or hooksOnly alone: use one, or select TargetGroups", kind)
	case class.Spec.HooksOnly != nil && kind == member.Nodes:
		return "", "with hooksOnly somebody else's load balancer is told of Machines, and Nodes have no hooks: use another class"
	}
	return kind, ""
}

// OfMachines says that a LoadBalancer's targets are Machines, whatever else keeps them from being resolved.
func OfMachines(l *clusterv1.LoadBalancer) bool { return targetKind(l) == kindMachine }

// KindOf is the kind of a LoadBalancer's targets that would be resolved, whatever else keeps them from being so; "": it selects TargetGroups.
func KindOf(l *clusterv1.LoadBalancer) member.Kind { return member.KindOf(targetKind(l)) }

// clusterNameLabel is Cluster API's.
const clusterNameLabel = "cluster.x-k8s.io/cluster-name"

// targetKind is the kind of the LoadBalancer's targets with its default;
// unknown ones as they are written, with their group.
func targetKind(l *clusterv1.LoadBalancer) string {
	if k := l.Spec.TargetKind; k != nil && k.Kind != "" {
		switch {
		case k.Kind == kindTargetGroup && (k.APIGroup == "" || k.APIGroup == v1alpha1.GroupVersion.Group),
			k.Kind == kindMachine && (k.APIGroup == "" || k.APIGroup == clusterv1.GroupVersion.Group),
			k.Kind == kindNode && k.APIGroup == "":
			return k.Kind
		}
		return strings.TrimSuffix(k.Kind+"."+k.APIGroup, ".")
	}
	if l.Spec.ClusterName != "" || l.Spec.Selector != nil && l.Spec.Selector.MatchLabels[clusterNameLabel] != "" {
		return kindMachine
	}
	return kindTargetGroup
}

// UnknownKind is what a LoadBalancer calls the kind of its targets, where that is none; "": it is one.
func UnknownKind(l *clusterv1.LoadBalancer) string {
	if kind := targetKind(l); kind != kindTargetGroup && member.KindOf(kind) == "" {
		return kind
	}
	return ""
}

// Selector says which TargetGroups of its namespace a LoadBalancer sends to:
// those that spec.selector selects, or for targets of another kind those that
// were generated for it. An empty selector selects nothing.
func Selector(l *clusterv1.LoadBalancer) (labels.Selector, error) {
	s := l.Spec.Selector
	empty := s == nil || len(s.MatchLabels)+len(s.MatchExpressions) == 0
	if targetKind(l) != kindTargetGroup {
		// Whoever resolves them looks at it, and a proxy doesn't.
		if _, err := metav1.LabelSelectorAsSelector(s); err != nil {
			return labels.Nothing(), err
		}
		return labels.SelectorFromSet(labels.Set{v1alpha1.LabelFor: l.Name}), nil
	}
	if empty {
		return labels.Nothing(), nil
	}
	sel, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return labels.Nothing(), err
	}
	return sel, nil
}

// A selection's key is its selector as text, the same for equal selectors.
// nothingKey is that of the one that selects nothing.
const nothingKey = ""

func selectionKey(s labels.Selector) string {
	if reqs, selectable := s.Requirements(); !selectable || len(reqs) == 0 {
		return nothingKey
	}
	return s.String()
}

// parseSelectionKey is the inverse of selectionKey.
func parseSelectionKey(key string) (labels.Selector, error) {
	if key == nothingKey {
		return labels.Nothing(), nil
	}
	return labels.Parse(key)
}

// pair is one label that the selector demands, as key=value, so that candidates are found by index; "" if there is none.
func pair(s labels.Selector) string {
	reqs, _ := s.Requirements()
	for _, r := range reqs {
		switch r.Operator() {
		case selection.Equals, selection.DoubleEquals, selection.In:
			if v := r.ValuesUnsorted(); len(v) == 1 {
				return r.Key() + "=" + v[0]
			}
		}
	}
	return ""
}

// groupID names the Group of a family's members that a selection selects.
func groupID(f family, selectionKey string) lb.GroupID {
	return lb.GroupID(string(f.name()) + ":" + selectionKey)
}

// parseGroupID is the inverse of groupID.
func parseGroupID(id lb.GroupID) (f family, selectionKey string, ok bool) {
	name, key, ok := strings.Cut(string(id), ":")
	for f := range families {
		if ok && name == string(f.name()) {
			return f, key, true
		}
	}
	return 0, "", false
}
