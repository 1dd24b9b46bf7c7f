package member

import (
	"crypto/sha256"
	"encoding/base32"
	"maps"
	"slices"
	"strings"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
)

// Annotations of the load balancer proposal for Cluster API, on Machines and Nodes.
const (
	// NameAnnotation lists the LoadBalancers whose target it is.
	NameAnnotation = "loadbalancer.cluster.x-k8s.io/name"
	// StatusAnnotation is its state there: one word, or name=state for each where there are several, as always on Nodes.
	StatusAnnotation = "loadbalancer.cluster.x-k8s.io/status"
)

// Prefixes of Cluster API's hooks: an annotation of a Machine whose key begins so holds its deletion.
const (
	preDrain     = "pre-drain.delete.hook.machine.cluster.x-k8s.io/"
	preTerminate = "pre-terminate.delete.hook.machine.cluster.x-k8s.io/"
)

// HookValue says whose the hooks are.
const HookValue = "fairlead.dev"

// hookPrefix begins the names of our hooks.
const hookPrefix = "lb-"

// HookKey is the annotation by which a LoadBalancer holds Machines of its namespace; "": it doesn't.
func HookKey(t clusterv1.HookType, loadBalancer string) string {
	sum := sha256.Sum256([]byte(loadBalancer))
	name := hookPrefix + strings.ToLower(base32.StdEncoding.EncodeToString(sum[:10]))
	switch t {
	case clusterv1.HookPreDrain, "":
		return preDrain + name
	case clusterv1.HookPreTerminate:
		return preTerminate + name
	}
	return ""
}

// Hooked says that annotations hold a hook of the LoadBalancer, of whatever type.
func Hooked(annotations map[string]string, loadBalancer string) bool {
	_, drain := annotations[HookKey(clusterv1.HookPreDrain, loadBalancer)]
	_, terminate := annotations[HookKey(clusterv1.HookPreTerminate, loadBalancer)]
	return drain || terminate
}

// Annotate returns what annotations are to be for a LoadBalancer whose target's decision is d: its state, what is asked, and the
// hook of its type where d wants one. State "" takes away all that is the LoadBalancer's. A Machine that is being deleted keeps the hook
// that it has, of whatever type. What others wrote stays as it is: so does a NameAnnotation that doesn't go with the states, as
// where a control plane gives it to its Machines; then the states have their names. The map that it is given isn't changed.
func Annotate(annotations map[string]string, loadBalancer string, d Decision, t clusterv1.HookType, deleting bool) map[string]string {
	out := maps.Clone(annotations)
	if out == nil {
		out = map[string]string{}
	}
	states := statesIn(annotations)
	others := out[NameAnnotation] != "" && out[NameAnnotation] != strings.Join(slices.Sorted(maps.Keys(states)), ",") && out[NameAnnotation] != loadBalancer
	had := len(states) > 0
	delete(states, loadBalancer)
	if d.State != "" {
		states[loadBalancer] = d.State
	}
	names := slices.Sorted(maps.Keys(states))
	switch {
	case len(names) == 0 && !had:
	case len(names) == 0:
		delete(out, StatusAnnotation)
		if !others {
			delete(out, NameAnnotation)
		}
	case others:
		out[StatusAnnotation] = list(states)
	case len(names) == 1:
		out[NameAnnotation], out[StatusAnnotation] = names[0], string(states[names[0]])
	default:
		out[NameAnnotation], out[StatusAnnotation] = strings.Join(names, ","), list(states)
	}
	ask(out, loadBalancer, d.Asked)
	want := ""
	if d.Hook {
		if want = HookKey(t, loadBalancer); deleting && Hooked(annotations, loadBalancer) {
			return out
		}
	}
	for _, t := range []clusterv1.HookType{clusterv1.HookPreDrain, clusterv1.HookPreTerminate} {
		if key := HookKey(t, loadBalancer); key != want {
			delete(out, key)
		}
	}
	if want != "" {
		out[want] = HookValue
	}
	return out
}

// StateIn is the state that annotations give a LoadBalancer's target; "": none.
func StateIn(annotations map[string]string, loadBalancer string) State {
	return statesIn(annotations)[loadBalancer]
}

// Named are the LoadBalancers that annotations speak of, each once, be they there or not.
func Named(annotations map[string]string) []string {
	states := statesIn(annotations)
	names := slices.AppendSeq(strings.Split(annotations[NameAnnotation], ","), maps.Keys(states))
	slices.Sort(names)
	return slices.DeleteFunc(slices.Compact(names), func(n string) bool { return n == "" })
}

// statesIn reads them. What isn't written as we write it is left out: a person may have written it.
func statesIn(annotations map[string]string) map[string]State {
	status := annotations[StatusAnnotation]
	if strings.Contains(status, "=") {
		return listed(status)
	}
	out := map[string]State{}
	if name := annotations[NameAnnotation]; name != "" && status != "" && !strings.ContainsAny(name+status, ",=") {
		out[name] = State(status)
	}
	return out
}
