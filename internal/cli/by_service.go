package cli

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/build"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// byService says that a Service of the hub serves l, and not proxies.
func byService(o *Objects, l *clusterv1.LoadBalancer) bool {
	_, class := o.classOf(l)
	return class != nil && class.Spec.Service != nil && l.Spec.InfrastructureRef == nil
}

// byProvider says that an object of a provider kind serves l, and not proxies.
func byProvider(o *Objects, l *clusterv1.LoadBalancer) bool {
	_, class := o.classOf(l)
	return build.ByProvider(l, class)
}

// providerObject names the object of a provider kind that serves l, for a message.
func providerObject(l *clusterv1.LoadBalancer) string {
	if ref := l.Spec.InfrastructureRef; ref != nil {
		return ref.Kind + " " + l.Namespace + "/" + ref.Name
	}
	of, name, _ := strings.Cut(l.Annotations[v1alpha1.AnnotationImplementedBy], "/")
	kind := schema.ParseGroupKind(of).Kind
	if kind == "" {
		return "its provider's object"
	}
	return kind + " " + l.Namespace + "/" + name
}

// givenTo is the LoadBalancer that shows an address that no pool gave; nil: none does.
func givenTo(o *Objects, a netip.Addr) *clusterv1.LoadBalancer {
	for _, l := range o.LoadBalancers {
		if (byService(o, l) || byOthers(o, l) || byProvider(o, l)) && slices.ContainsFunc(l.Status.Addresses, func(x clusterv1.LoadBalancerAddress) bool { return sameAddress(x.Value, a) }) {
			return l
		}
	}
	return nil
}

// readyRung counts the members of what a Service of the hub serves: nothing is checked there, and tenants' agents say which nodes
// are ready.
func readyRung(o *Objects, l *clusterv1.LoadBalancer) Rung {
	r := Rung{Name: "members", State: OK}
	good, all := 0, 0
	for _, g := range o.TargetGroups {
		if g.Namespace != l.Namespace || !selects(l, g) {
			continue
		}
		all += len(g.Spec.Targets)
		for i := range g.Spec.Targets {
			t := &g.Spec.Targets[i]
			if mayTakeNew(o, g, i) && ready(t) {
				good++
				continue
			}
			if len(r.Evidence) < shownEvidence {
				text := "gets no new connection"
				if g.Drains(i) {
					text = "draining"
				} else if !ready(t) {
					text = "not ready, by its cluster"
				}
				r.Evidence = append(r.Evidence, Evidence{State: Warning, Text: strings.TrimSpace(t.Name + " " + t.ServedAddress() + " " + text)})
			}
		}
	}
	r.Message = fmt.Sprintf("%d of %d are ready, by what their cluster says: nothing is checked", good, all)
	switch {
	case all == 0:
		r.State, r.Reason, r.Message = Broken, clusterv1.ReasonNoTargets, "no TargetGroup that the selector matches has a target"
	case good < all:
		r.State = Warning
	}
	return r
}

// ready: the target's cluster doesn't say otherwise.
func ready(t *v1alpha1.Target) bool { return t.Ready == nil || *t.Ready }
