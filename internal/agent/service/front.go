package service

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	v1 "k8s.io/api/core/v1"
)

const (
	// maxTargets of a TargetGroup.
	maxTargets = 100
	// uidSize of a target's UID, in bytes of a hash.
	uidSize = 16
)

// Front turns a Service that another load balancer serves into its LoadBalancer, which sends to that one's address, at the
// Service's own ports. What the Service says of nodes, of addresses by fields or annotations that others read too, and of its
// health checks is that load balancer's.
func Front(s *v1.Service, class string, existing *clusterv1.LoadBalancer) Wanted {
	w := wanted(s, class, Name(Key(s)))
	w.Fronts = true
	for _, p := range s.Spec.Ports {
		protocol := clusterv1.Protocol(cmp.Or(p.Protocol, v1.ProtocolTCP))
		w.Spec.Ports = append(w.Spec.Ports, clusterv1.Port{Name: p.Name, Protocol: protocol, Port: p.Port, TargetPort: p.Port})
	}
	w.addresses(s, InAnnotation, existing)
	w.options(s)
	if _, says := s.Annotations[v1alpha1.AnnotationExposeLoadBalancer]; says {
		w.exposed(s, v1alpha1.AnnotationExposeLoadBalancer)
	}
	return *w
}

// BackendLabels are those of the TargetGroup that a LoadBalancer of Front selects, which has its name.
func BackendLabels(s *v1.Service) map[string]string {
	return map[string]string{v1alpha1.LabelTargets: Name(Key(s))}
}

// Backend is where another load balancer serves a Service, as that one's status says, as targets: the first addresses in the order
// of their text. What is the hub's own is none of them: a connection would come back for ever. l is the hub's LoadBalancer, nil if
// there is none.
func Backend(s *v1.Service, l *clusterv1.LoadBalancer) []v1alpha1.Target {
	hubs := map[string]bool{}
	for _, i := range Shown(s, InAnnotation) {
		hubs[cmp.Or(i.IP, i.Hostname)] = true
	}
	if l != nil {
		for _, a := range l.Status.Addresses {
			hubs[a.Value] = true
		}
	}
	var at []string
	for _, i := range s.Status.LoadBalancer.Ingress {
		text := strings.ToLower(strings.TrimSuffix(i.Hostname, "."))
		if a, err := netip.ParseAddr(i.IP); err == nil && a.Zone() == "" {
			text = a.Unmap().String()
		}
		if text != "" && !hubs[text] {
			at = append(at, text)
		}
	}
	slices.Sort(at)
	at = slices.Compact(at)
	var out []v1alpha1.Target
	for _, text := range at[:min(len(at), maxTargets)] {
		uid := sha256.Sum256([]byte(string(s.UID) + " " + text))
		out = append(out, v1alpha1.Target{Name: text, UID: hex.EncodeToString(uid[:uidSize]), Addresses: []string{text}, State: v1alpha1.TargetServing})
	}
	return out
}

// BackendSpec is the TargetGroup's. A load balancer is asked at the ports that it serves.
func BackendSpec(targets []v1alpha1.Target) v1alpha1.TargetGroupSpec {
	return v1alpha1.TargetGroupSpec{HealthCheck: &clusterv1.HealthCheck{Type: clusterv1.HealthCheckTCP}, Targets: targets}
}

// Emptied is what is known when a Service's status is compared with the TargetGroup that was made from it.
type Emptied struct {
	// Have are the targets that the hub has, Backend those that the status shows.
	Have, Backend []v1alpha1.Target
	// Seen: a watch saw the address being taken.
	Seen bool
	// HeldUntil is what the TargetGroup says about that, in RFC 3339; empty, or no time: nothing.
	HeldUntil string
	Now       time.Time
}

// Hold returns the targets that the TargetGroup is to have; until when, where they are held though the status shows none.
//
// A status that is empty doesn't say that its load balancer is gone: a Service that is restored from a copy has none until its
// controller has looked.
func Hold(e Emptied) (targets []v1alpha1.Target, until time.Time) {
	if len(e.Backend) > 0 || len(e.Have) == 0 || e.Seen {
		return e.Backend, until
	}
	until, err := time.Parse(time.RFC3339, e.HeldUntil)
	if err != nil {
		until = e.Now.Add(HeldFor).Truncate(time.Second)
	}
	if !e.Now.Before(until) {
		return nil, time.Time{}
	}
	return e.Have, until
}

// BackendProblem says what is wrong with what Hold returned, nil if nothing is.
func BackendProblem(backend, targets []v1alpha1.Target, until time.Time) *Problem {
	switch {
	case len(backend) > 0:
		return nil
	case len(targets) > 0:
		return &Problem{Field: "status.loadBalancer", Reason: ReasonBackendMissing, Outside: true,
			Message: fmt.Sprintf("it shows no address, though nobody was seen to take it: traffic goes on to %s until %s, or until there is one again. See to the controller that serves the Service in its own cluster", targets[0].Name, until.UTC().Format(time.RFC3339))}
	}
	return &Problem{Field: "status.loadBalancer", Reason: ReasonNoBackend, Refuses: true, Outside: true, Quiet: true,
		Message: "the load balancer of the Service's own cluster has no address yet, to which the hub would send: see to the controller that serves it there"}
}
