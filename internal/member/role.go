package member

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Labels of Cluster API, and of the load balancer proposal for it, on Machines.
const (
	ClusterNameLabel  = "cluster.x-k8s.io/cluster-name"
	ControlPlaneLabel = "cluster.x-k8s.io/control-plane"
	// NameLabel names the LoadBalancer of the Cluster's control plane; its annotation of the same name tells the state.
	NameLabel = "loadbalancer.cluster.x-k8s.io/name"
)

// ClusterName of a LoadBalancer; "": it is of none.
func ClusterName(l *clusterv1.LoadBalancer) string {
	if l.Spec.ClusterName != "" {
		return l.Spec.ClusterName
	}
	if l.Spec.Selector != nil {
		return l.Spec.Selector.MatchLabels[ClusterNameLabel]
	}
	return ""
}

// NamedBy is the LoadBalancer that a Cluster of that name calls its control plane's, by an annotation of itself or else of its
// control plane object, or which is made for it because it names a class; "": none.
func NamedBy(name string, cluster, controlPlane map[string]string) string {
	switch {
	case cluster[NameAnnotation] != "":
		return cluster[NameAnnotation]
	case controlPlane[NameAnnotation] != "":
		return controlPlane[NameAnnotation]
	case cluster[clusterv1.ClassAnnotation] != "":
		return MadeFor(name)
	}
	return ""
}

// maxName is how long a LoadBalancer's name may be, for it is a label value too.
const maxName = 63

// MadeFor is the name of the LoadBalancer that is made for a Cluster's control plane, where none is named.
func MadeFor(cluster string) string {
	const suffix = "-api"
	if len(cluster)+len(suffix) <= maxName {
		return cluster + suffix
	}
	sum := sha256.Sum256([]byte(cluster))
	short := "-" + hex.EncodeToString(sum[:4])
	return strings.TrimRight(cluster[:maxName-len(suffix)-len(short)], "-.") + short + suffix
}

// RoleOf a LoadBalancer of whose Cluster it is known which one it names.
func RoleOf(l *clusterv1.LoadBalancer, named string) clusterv1.Role {
	switch {
	case l.Spec.Role != "":
		return l.Spec.Role
	case named == l.Name:
		return clusterv1.RoleControlPlane
	}
	return clusterv1.RoleWorkload
}

// Selector says which Machines of its namespace are a LoadBalancer's targets: those that spec.selector selects; where that
// isn't defined, those of its Cluster that name it. An error says which field is to be mended, and selects nothing.
func Selector(l *clusterv1.LoadBalancer) (labels.Selector, error) {
	if s := l.Spec.Selector; s != nil && len(s.MatchLabels)+len(s.MatchExpressions) > 0 {
		out, err := metav1.LabelSelectorAsSelector(s)
		if err != nil {
			return labels.Nothing(), fmt.Errorf("spec.selector: %w; mend it", err)
		}
		return out, nil
	}
	name := ClusterName(l)
	if name == "" {
		return labels.Nothing(), errors.New("spec.clusterName: neither it nor a selector says which Machines are meant: set one of them")
	}
	return labels.SelectorFromSet(labels.Set{ClusterNameLabel: name, NameLabel: l.Name}), nil
}

// WantsLabel says whether a Machine is to get the label that names a LoadBalancer, so that the default selector finds it: it
// is of the control plane of the Cluster that names the LoadBalancer, and isn't being deleted. Whether somebody else gave it
// another name is for the API server to say, which knows who owns the label.
func WantsLabel(machine labels.Set, deleting bool, cluster, named string) bool {
	_, controlPlane := machine[ControlPlaneLabel]
	return named != "" && controlPlane && !deleting && machine[ClusterNameLabel] == cluster && machine[NameLabel] != named
}
