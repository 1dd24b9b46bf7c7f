package service

import (
	"fmt"
	"strings"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ConditionProgrammed of a Service: the hub's proxies serve it as it stands. Its reason
// is one of package clusterv1's, or of those below.
const ConditionProgrammed = "fairlead.dev/Programmed"

// Reasons beside those of package clusterv1. Each comment says what the user does.
const (
	// ReasonNoNodePort: a port has no nodePort; set one, or let one be allocated.
	ReasonNoNodePort = "NoNodePort"
	// ReasonNameTaken: somebody else made a LoadBalancer of that name in the hub; ask the hub's operator.
	ReasonNameTaken = "NameTaken"
	// ReasonHubRefuses: the hub doesn't let the agent write; the message says why.
	ReasonHubRefuses = "HubRefuses"
	// ReasonHubUnreachable: the agent can't write to the hub; ask the hub's operator. It goes on by itself.
	ReasonHubUnreachable = "HubUnreachable"
	// ReasonNoBackend: the Service's own load balancer has no address, to which the hub would send; see to the controller that gives it one.
	ReasonNoBackend = "NoBackend"
	// ReasonBackendMissing: the Service's own load balancer shows no address any more and nobody was seen to take it; see to the controller that gives it one. The last one is sent to for a day.
	ReasonBackendMissing = "BackendMissing"
	// ReasonServicesMissing: Services are gone and nobody was seen to delete them; create again what should stay. The rest is given up after a day.
	ReasonServicesMissing = "ServicesMissing"
	// ReasonLoadBalancersMissing: LoadBalancers of a management cluster are gone and nobody was seen to delete them; create again what should stay. The rest is given up after a day.
	ReasonLoadBalancersMissing = "LoadBalancersMissing"
	// ReasonNodesMissing: most Nodes are gone and nobody was seen to delete them; see to the cluster. They stay targets for a day.
	ReasonNodesMissing = "NodesMissing"
)

// Verdict is what a Service's user reads. The zero value says nothing yet: what was said before stays.
type Verdict struct {
	Status  metav1.ConditionStatus
	Reason  string
	Message string
	// Quiet: it passes by itself, and deserves no event.
	Quiet bool
}

// Good tells whether all is as wanted.
func (v Verdict) Good() bool {
	return v.Status == metav1.ConditionTrue && v.Reason == clusterv1.ReasonProgrammed
}

// maxMessage bounds an event's note.
const maxMessage = 1024

// Cut shortens a message to what an event takes.
func Cut(message string) string {
	if len(message) > maxMessage {
		return strings.ToValidUTF8(message[:maxMessage-3], "") + "..."
	}
	return message
}

func verdict(status metav1.ConditionStatus, reason, message string) Verdict {
	return Verdict{Status: status, Reason: reason, Message: Cut(message)}
}

// Judge says what became of a Service. Nothing that passes by itself is said: a proxy that
// is about to follow, an address about to be granted.
func Judge(s *v1.Service, problems []Problem, l *clusterv1.LoadBalancer) Verdict {
	const yes, no = metav1.ConditionTrue, metav1.ConditionFalse
	for _, p := range problems {
		if p.Refuses {
			v := verdict(no, p.Reason, p.text())
			v.Quiet = p.Quiet
			return v
		}
	}
	if allRefused(s, problems) {
		return verdict(no, problems[0].Reason, problems[0].text())
	}
	if l == nil || l.DeletionTimestamp != nil {
		return Verdict{}
	}
	for _, kind := range []string{clusterv1.ConditionAccepted, clusterv1.ConditionAddressGranted} {
		c := current(l, kind)
		switch {
		case c == nil || c.Status == yes || passing(c.Reason):
		case kind == clusterv1.ConditionAccepted: // the field that it names is none of the Service's
			return verdict(no, c.Reason, fmt.Sprintf("LoadBalancer %s of the hub: %s", l.Name, c.Message))
		default:
			return verdict(no, c.Reason, c.Message)
		}
	}
	c := current(l, clusterv1.ConditionProgrammed)
	if c == nil {
		return Verdict{}
	}
	failed := portProblems(s, problems, l)
	switch {
	case c.Status != yes && passing(c.Reason):
		return Verdict{}
	case c.Status != yes && c.Reason == clusterv1.ReasonNotServed && len(failed) > 0:
		return verdict(no, failed[0].Reason, failed[0].text())
	case c.Status != yes:
		return verdict(no, c.Reason, c.Message)
	case len(failed) > 0:
		return verdict(no, failed[0].Reason, failed[0].text())
	}
	if d := current(l, clusterv1.ConditionDegraded); d != nil && d.Status == yes {
		return verdict(yes, d.Reason, d.Message)
	}
	for _, p := range problems {
		return verdict(yes, p.Reason, p.text())
	}
	var at []string
	for _, a := range l.Status.Addresses {
		at = append(at, a.Value)
	}
	return verdict(yes, clusterv1.ReasonProgrammed, "Served at "+strings.Join(at, ", "))
}

// Waits says what a Service waits for, once it has waited for long.
func Waits(l *clusterv1.LoadBalancer) Verdict {
	v := verdict(metav1.ConditionFalse, clusterv1.ReasonPending, "The hub has not answered yet: ask its operator whether fairlead manager runs")
	if l != nil {
		for _, kind := range []string{clusterv1.ConditionAddressGranted, clusterv1.ConditionProgrammed} {
			if c := current(l, kind); c != nil && c.Status != metav1.ConditionTrue {
				v = verdict(metav1.ConditionFalse, c.Reason, c.Message)
				break
			}
		}
	}
	v.Quiet = true
	return v
}

func (p Problem) text() string {
	switch {
	case p.Port != 0 && strings.Contains(p.Message, fmt.Sprintf("%s/%d ", p.Protocol, p.Port)):
		return p.Message // which names the port
	case p.Port != 0:
		return fmt.Sprintf("Port %d/%s: %s", p.Port, p.Protocol, p.Message)
	case p.Field != "":
		return p.Field + ": " + p.Message
	}
	return p.Message
}

// passing tells the reasons that ask nothing of anybody.
func passing(reason string) bool {
	return reason == clusterv1.ReasonPending || reason == clusterv1.ReasonWaitingForProxies || reason == clusterv1.ReasonDeleting
}

// current is a condition that speaks of the present generation.
func current(l *clusterv1.LoadBalancer, kind string) *metav1.Condition {
	c := meta.FindStatusCondition(l.Status.Conditions, kind)
	if c == nil || c.ObservedGeneration != l.Generation {
		return nil
	}
	return c
}

func allRefused(s *v1.Service, problems []Problem) bool {
	n := 0
	for _, p := range problems {
		if p.Port != 0 {
			n++
		}
	}
	return n > 0 && n == len(s.Spec.Ports)
}

// portProblems are those of single ports, in the Service's order.
func portProblems(s *v1.Service, problems []Problem, l *clusterv1.LoadBalancer) []Problem {
	var out []Problem
	for _, p := range s.Spec.Ports {
		if x := portProblem(p, problems, l); x != nil {
			out = append(out, *x)
		}
	}
	return out
}

func portProblem(p v1.ServicePort, problems []Problem, l *clusterv1.LoadBalancer) *Problem {
	protocol := p.Protocol
	if protocol == "" {
		protocol = v1.ProtocolTCP
	}
	for _, x := range problems {
		if x.Refuses && !x.Outside || x.Port == p.Port && x.Protocol == protocol {
			x.Port, x.Protocol = p.Port, protocol
			return &x
		}
	}
	if l == nil {
		return nil
	}
	for _, x := range l.Status.Ports {
		if x.Port == p.Port && x.Protocol == clusterv1.Protocol(protocol) && x.Error != "" {
			return &Problem{Port: p.Port, Protocol: protocol, Reason: x.Error, Message: x.Message}
		}
	}
	return nil
}
