package member

import (
	"maps"
	"strings"
)

// Strip returns annotations without what any LoadBalancer wrote there: its state, its hook of whatever type, what it
// asked, and the names of LoadBalancers that went with the states. What others wrote stays: so does a NameAnnotation that a control plane gives to its
// Machines, a hook of somebody else, and the annotation disabled, which is a person's. The map that it is given isn't changed.
func Strip(annotations map[string]string) map[string]string {
	out := annotations
	for name := range statesIn(annotations) {
		out = Annotate(out, name, Decision{}, "", false)
	}
	out = maps.Clone(out)
	maps.DeleteFunc(out, func(key, value string) bool {
		return isHook(key, value) || key == StatusAnnotation || strings.HasPrefix(key, WantedPrefix)
	})
	return out
}

// HookedByAny says that annotations hold a hook of any LoadBalancer.
func HookedByAny(annotations map[string]string) bool {
	for key, value := range annotations {
		if isHook(key, value) {
			return true
		}
	}
	return false
}

func isHook(key, value string) bool {
	return value == HookValue && (strings.HasPrefix(key, preDrain+hookPrefix) || strings.HasPrefix(key, preTerminate+hookPrefix))
}
