package build

import (
	"fmt"
	"slices"
	"strings"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/internal/lb"
)

// findings collects the Problems of one object.
type findings struct {
	object   lb.ObjectRef
	problems []lb.Problem
}

func (f *findings) refuse(field, reason, format string, args ...any) {
	f.add(lb.Refused, field, reason, fmt.Sprintf(format, args...))
}

func (f *findings) without(field, reason, format string, args ...any) {
	f.add(lb.ServedWithout, field, reason, fmt.Sprintf(format, args...))
}

func (f *findings) add(e lb.Effect, field, reason, message string) {
	if len(message) > maxMessage {
		message = strings.ToValidUTF8(message[:maxMessage-3], "") + "..."
	}
	f.problems = append(f.problems, lb.Problem{Object: f.object, Field: field, Reason: reason, Message: message, Effect: e})
}

// maxMessage is what a status and a ProxyReport take. What tenants wrote is quoted in messages.
const maxMessage = 1024

// port collects what concerns one port.
func (f *findings) port(p clusterv1.Port) *findings {
	o := f.object
	o.Port, o.Protocol = portNumber(p.Port), protocol(p)
	return &findings{object: o}
}

func (f *findings) sorted() []lb.Problem {
	slices.SortFunc(f.problems, lb.Problem.Compare)
	return f.problems
}

// Refusal is the Problem that keeps a port of a LoadBalancer from being
// served, the whole LoadBalancer's first; false: none does.
func Refusal(problems []lb.Problem, p clusterv1.Port) (lb.Problem, bool) {
	if whole, ok := RefusalOfAll(problems); ok {
		return whole, true
	}
	for _, x := range problems {
		if x.Effect == lb.Refused && x.Object.Kind == lb.KindLoadBalancer &&
			x.Object.Port == portNumber(p.Port) && x.Object.Protocol == protocol(p) {
			return x, true
		}
	}
	return lb.Problem{}, false
}

// RefusalOfAll is the Problem that keeps the whole LoadBalancer from being served; false: none does.
func RefusalOfAll(problems []lb.Problem) (lb.Problem, bool) {
	for _, x := range problems {
		if x.Effect == lb.Refused && x.Object.Kind == lb.KindLoadBalancer && x.Object.Port == 0 && x.Object.Protocol == "" {
			return x, true
		}
	}
	return lb.Problem{}, false
}

// portNumber is p as the model has it; 0 where it is none.
func portNumber(p int32) uint16 {
	if p < 1 || p > 65535 {
		return 0
	}
	return uint16(p)
}

// protocol is the port's with its default.
func protocol(p clusterv1.Port) lb.Protocol {
	if p.Protocol == "" {
		return lb.TCP
	}
	return lb.Protocol(p.Protocol)
}
