package member

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Kind of the objects that a LoadBalancer's targets are made from, as the API names it, and as TargetGroups are labelled.
type Kind string

const (
	// Machines of Cluster API, of the LoadBalancer's namespace.
	Machines Kind = "Machine"
	// Nodes of the hub itself, which are of no namespace. Nobody holds them.
	Nodes Kind = "Node"
)

// Kinds are all of them.
func Kinds() []Kind { return []Kind{Machines, Nodes} }

// KindOf is the kind that a word of the API names; "": none of these.
func KindOf(word string) Kind {
	if k := Kind(word); slices.Contains(Kinds(), k) {
		return k
	}
	return ""
}

// Key names a LoadBalancer in annotations: by its name on what is of its namespace, and with that on Nodes, of which LoadBalancers
// of several namespaces speak.
func (k Kind) Key(namespace, name string) string {
	if k == Nodes {
		return namespace + "/" + name
	}
	return name
}

// Names reads a key of an object of a namespace; false: it is none.
func (k Kind) Names(key, namespace string) (ofNamespace, name string, ok bool) {
	if k != Nodes {
		return namespace, key, key != ""
	}
	ofNamespace, name, ok = strings.Cut(key, "/")
	return ofNamespace, name, ok && ofNamespace != "" && name != ""
}

// Annotate returns what annotations are to be for a LoadBalancer whose target's decision is d, as the package's function does. On Nodes
// that is its state alone, with its key, be there one or several: NameAnnotation is whosever it is.
func (k Kind) Annotate(annotations map[string]string, key string, d Decision, t clusterv1.HookType, deleting bool) map[string]string {
	if k != Nodes {
		return Annotate(annotations, key, d, t, deleting)
	}
	out := maps.Clone(annotations)
	if out == nil {
		out = map[string]string{}
	}
	states := listed(annotations[StatusAnnotation])
	had := len(states) > 0
	delete(states, key)
	if d.State != "" {
		states[key] = d.State
	}
	switch {
	case len(states) > 0:
		out[StatusAnnotation] = list(states)
	case had:
		delete(out, StatusAnnotation)
	}
	return out
}

// StateIn is the state that annotations give a LoadBalancer's target; "": none.
func (k Kind) StateIn(annotations map[string]string, key string) State {
	if k != Nodes {
		return StateIn(annotations, key)
	}
	return listed(annotations[StatusAnnotation])[key]
}

// Named are the keys of the LoadBalancers that annotations speak of, each once, be they there or not.
func (k Kind) Named(annotations map[string]string) []string {
	if k != Nodes {
		return Named(annotations)
	}
	return slices.Sorted(maps.Keys(listed(annotations[StatusAnnotation])))
}

// Hooked says that annotations hold a hook of the LoadBalancer.
func (k Kind) Hooked(annotations map[string]string, key string) bool {
	return k != Nodes && Hooked(annotations, key)
}

// Strip returns annotations without what any LoadBalancer wrote there, as the package's function does.
func (k Kind) Strip(annotations map[string]string) map[string]string {
	if k != Nodes {
		return Strip(annotations)
	}
	out := maps.Clone(annotations)
	for key := range listed(annotations[StatusAnnotation]) {
		out = k.Annotate(out, key, Decision{}, "", false)
	}
	return out
}

// Selector says which objects of the kind are a LoadBalancer's targets, as the package's function does for Machines. Nodes are those
// that spec.selector selects, and none where it says nothing; Excluded ones aren't meant.
func (k Kind) Selector(l *clusterv1.LoadBalancer) (labels.Selector, error) {
	if k != Nodes {
		return Selector(l)
	}
	if l.Spec.ClusterName != "" {
		return labels.Nothing(), fmt.Errorf("spec.clusterName: Nodes are this cluster's own, of no Cluster %s: remove it, or use targets of kind Machine", l.Spec.ClusterName)
	}
	s := l.Spec.Selector
	if s == nil || len(s.MatchLabels)+len(s.MatchExpressions) == 0 {
		return labels.Nothing(), errors.New("spec.selector: it doesn't say which Nodes are meant: set it, as to matchExpressions with key kubernetes.io/hostname and operator Exists for all")
	}
	out, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return labels.Nothing(), fmt.Errorf("spec.selector: %w; mend it", err)
	}
	return out, nil
}

// ScaleDownTaint is the key of the cluster autoscaler's taint, on a Node that it is about to take away.
const ScaleDownTaint = "ToBeDeletedByClusterAutoscaler"

// Excluded says that a Node of such labels is to be behind no load balancer: the label counts by presence, unless it says false.
func Excluded(labels map[string]string) bool {
	value, labelled := labels[corev1.LabelNodeExcludeBalancers]
	if !labelled {
		return false
	}
	excluded, err := strconv.ParseBool(value)
	return err != nil || excluded
}

// list writes states as listed reads them, in order.
func list(states map[string]State) string {
	var each []string
	for _, key := range slices.Sorted(maps.Keys(states)) {
		each = append(each, key+"="+string(states[key]))
	}
	return strings.Join(each, ",")
}

// listed reads key=state of each. What isn't written so is left out.
func listed(status string) map[string]State {
	out := map[string]State{}
	for _, each := range strings.Split(status, ",") {
		if key, state, ok := strings.Cut(each, "="); ok && key != "" && state != "" && !strings.Contains(state, "=") {
			out[key] = State(state)
		}
	}
	return out
}
