package providerkind

import (
	"fmt"
	"net/netip"
	"regexp"
	"strings"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/internal/controller/service"
	"fairlead.dev/fairlead/provider/contract"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// patience is how long a provider may take to look at what was changed, before that is said.
const patience = 30 * time.Second

// State is what an object says.
type State struct {
	service.State
	// Endpoint that the object has; empty: none yet.
	Endpoint clusterv1.Endpoint
	// Conditions of the contract, as the object has them, for the LoadBalancer to show.
	Conditions []metav1.Condition
	// Unread: nothing is known of the object yet, so that what was said of it stays.
	Unread bool
}

// unread is what is known where a kind can't be read. What is outside goes on: a LoadBalancer that had its object keeps the addresses.
func unread(t *trouble, l *clusterv1.LoadBalancer, had bool) State {
	out := stopped(t)
	if t == nil || !had {
		return out
	}
	out.Unread, out.From = t.first, " as its provider object had them"
	out.Addresses, out.Conditions = l.Status.Addresses, l.Status.Conditions
	return out
}

func stopped(t *trouble) State {
	if t == nil {
		return State{}
	}
	return State{State: service.State{Reason: t.reason, Message: t.message, Again: t.again}}
}

// mirrored are the conditions that a LoadBalancer shows.
func mirrored() []string {
	return []string{contract.ConditionExists, contract.ConditionMatchesConfig, contract.ConditionDNSResolvable}
}

// conditions of an object, by their type. What isn't as the API has it is left out.
func conditions(o *unstructured.Unstructured) map[string]metav1.Condition {
	list, _, err := unstructured.NestedSlice(o.Object, "status", "conditions")
	if err != nil {
		return nil
	}
	out := map[string]metav1.Condition{}
	for _, x := range list {
		m, _ := x.(map[string]any)
		text := func(key string) string { s, _ := m[key].(string); return s }
		generation, _ := m["observedGeneration"].(int64)
		c := metav1.Condition{
			Type: text("type"), Status: metav1.ConditionStatus(text("status")), Reason: text("reason"), Message: text("message"), ObservedGeneration: generation,
		}
		if c.Type != "" && (c.Status == metav1.ConditionTrue || c.Status == metav1.ConditionFalse || c.Status == metav1.ConditionUnknown) {
			out[c.Type] = c
		}
	}
	return out
}

var reason = regexp.MustCompile(`^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$`)

// typed is a condition's reason, or one of ours where a kind without the API's conditions has none that a status may have.
func typed(c metav1.Condition) string {
	switch {
	case len(c.Reason) <= 256 && reason.MatchString(c.Reason):
		return c.Reason
	case c.Status == metav1.ConditionTrue:
		return contract.ReasonAsExpected
	}
	return clusterv1.ReasonProviderNotReady
}

// exists says that something is there outside, or may be.
func exists(o *unstructured.Unstructured) bool {
	id, _, err := unstructured.NestedString(o.Object, "spec", "id")
	return err == nil && id != "" || conditions(o)[contract.ConditionExists].Status == metav1.ConditionTrue
}

// state is what a LoadBalancer is told of its object.
func (k *Kinds) state(of reference, o *unstructured.Unstructured) State {
	name, all := of.text(o.GetNamespace()), conditions(o)
	out := State{Endpoint: endpointOf(o.Object, "spec")}
	out.From = " of " + name
	for _, kind := range mirrored() {
		if c, ok := all[kind]; ok {
			c.Reason = typed(c)
			out.Conditions = append(out.Conditions, c)
		}
	}
	if all[contract.ConditionExists].Status == metav1.ConditionTrue {
		at := endpointOf(o.Object, "status")
		if at.Host == "" {
			at = out.Endpoint
		}
		if at.Host != "" {
			out.Addresses = []clusterv1.LoadBalancerAddress{addressOf(at.Host)}
		}
	}
	ready, said := all[contract.ConditionReady]
	late, again := k.late(of, o, ready)
	out.Again = again
	switch {
	case !said:
		out.Reason, out.Message = clusterv1.ReasonWaitingForProvider, fmt.Sprintf("%s has had no word of its provider since %s: wait, or see that its program runs", name, o.GetCreationTimestamp().UTC().Format(time.RFC3339))
	case ready.Status != metav1.ConditionTrue && late != "":
		out.Reason, out.Message = clusterv1.ReasonWaitingForProvider, name+" "+late
	case ready.Status != metav1.ConditionTrue:
		out.Reason, out.Message = reasonOf(ready.Reason), fmt.Sprintf("%s says %s: %s", name, ready.Reason, strings.TrimSuffix(ready.Message, "."))
	case len(out.Addresses) == 0:
		out.Reason, out.Message = clusterv1.ReasonWaitingForProvider, name+" is ready, and has no endpoint yet"
	case all[contract.ConditionMatchesConfig].Reason == contract.ReasonEndpointDiffers:
		out.Reason, out.Message = clusterv1.ReasonEndpointDiffers, fmt.Sprintf("%s says: %s", name, strings.TrimSuffix(all[contract.ConditionMatchesConfig].Message, "."))
	}
	switch degraded := all[contract.ConditionDegraded]; {
	case late != "":
		out.Lack = &service.Lack{Reason: clusterv1.ReasonWaitingForProvider, Message: name + " " + late}
	case degraded.Status == metav1.ConditionTrue:
		out.Lack = &service.Lack{Reason: clusterv1.ReasonProviderDegraded, Message: fmt.Sprintf("%s says %s: %s", name, degraded.Reason, strings.TrimSuffix(degraded.Message, "."))}
	}
	return out
}

// reasonOf tells what is waited for from what somebody has to see to, by the provider's own reason.
func reasonOf(theirs string) string {
	switch theirs {
	case contract.ReasonPending, contract.ReasonEndpointNotPushed, contract.ReasonDeleting, contract.ReasonPaused, contract.ReasonNoLoadBalancer:
		return clusterv1.ReasonWaitingForProvider
	}
	return clusterv1.ReasonProviderNotReady
}

// late says since when a provider hasn't looked at what its object says now; "": it has, or has had no time yet. again is when to see.
func (k *Kinds) late(of reference, o *unstructured.Unstructured, ready metav1.Condition) (text string, again time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	key := of.text(o.GetNamespace())
	if ready.ObservedGeneration == 0 || ready.ObservedGeneration >= o.GetGeneration() { // 0: it doesn't say what it has seen
		delete(k.unseen, key)
		return "", 0
	}
	u, ok := k.unseen[key]
	if !ok || u.uid != o.GetUID() || u.generation != o.GetGeneration() {
		u = unseen{o.GetUID(), o.GetGeneration(), k.Now()}
		k.unseen[key] = u
	}
	if waited := k.Now().Sub(u.since); waited < patience {
		return "", patience - waited
	}
	return fmt.Sprintf("hasn't been looked at by its provider since its generation %d, and has %d: see that its program runs", ready.ObservedGeneration, o.GetGeneration()), 0
}

// forget drops what is remembered of an object that a LoadBalancer has no longer.
func (k *Kinds) forget(namespace string, of reference) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.unseen, of.text(namespace))
}

func addressOf(host string) clusterv1.LoadBalancerAddress {
	a, err := netip.ParseAddr(host)
	switch {
	case err != nil:
		return clusterv1.LoadBalancerAddress{Type: clusterv1.AddressTypeHostname, Value: host}
	case a.Unmap().Is4():
		return clusterv1.LoadBalancerAddress{Type: clusterv1.AddressTypeIP, Value: a.Unmap().String(), Family: clusterv1.IPv4}
	}
	return clusterv1.LoadBalancerAddress{Type: clusterv1.AddressTypeIP, Value: a.String(), Family: clusterv1.IPv6}
}
