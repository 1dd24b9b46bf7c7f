package loadbalancer

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/internal/build"
	"fairlead.dev/fairlead/internal/controller/ledger"
	"fairlead.dev/fairlead/internal/controller/service"
	"fairlead.dev/fairlead/internal/ipam"
	"fairlead.dev/fairlead/internal/lb"
	"fairlead.dev/fairlead/internal/member"
	"fairlead.dev/fairlead/internal/proof"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// facts are all that a LoadBalancer's status is made from.
type facts struct {
	lb       *clusterv1.LoadBalancer
	problems []lb.Problem // build.Validate's
	grant    ledger.Grant
	pool     string                          // of proxies
	hosts    []clusterv1.LoadBalancerAddress // those of proxies' hosts on which it is served
	// kept: Programmed was believed for this generation and address, and is never taken back by a comparison.
	kept       bool
	programmed proof.Programmed
	aside      []proof.Problem // of proxies whose hosts aren't shown; programmed has them not
	somewhere  bool            // a host that is shown serves a port, whatever others refuse
	said       string          // of the proxies that are waited for; empty: it is to be said anew
	selector   string
	targetKind string
	members    member.Kind                // of its targets, of which the controller of members speaks in the status; "": they are TargetGroups
	groups     []string                   // selected TargetGroups, sorted
	barren     *proofless                 // none of their targets may be sent to; nil: one may
	service    *service.State             // of the hub's Service, or a provider's object, where that serves it in place of proxies
	mirrored   []metav1.Condition         // of a provider's object
	others     *clusterv1.ObjectReference // the load balancer, where somebody else manages it
}

// granted says whether it has all addresses that it can't do without, and where from, or else why not.
func (f *facts) granted() (ok bool, reason, message string) {
	switch {
	case f.others != nil:
		return true, clusterv1.ReasonManagedElsewhere, fmt.Sprintf("whoever manages %s %s gives the address", f.others.Kind, f.others.Name)
	case f.service != nil && len(f.service.Addresses) > 0:
		return true, clusterv1.ReasonAddressGranted, f.service.Given()
	case f.service != nil:
		return false, f.service.Reason, f.service.Message
	case len(f.grant.Held) > 0 && !f.grant.Short:
		return true, clusterv1.ReasonAddressGranted, grantedText(f.grant)
	}
	return false, f.grant.Reason, f.grant.Message
}

// refusedAll is why no port can be served at all; false: some can.
func refusedAll(problems []lb.Problem, ports []clusterv1.Port) (lb.Problem, bool) {
	if p, ok := build.RefusalOfAll(problems); ok {
		return p, true
	}
	var last lb.Problem
	for _, port := range ports {
		p, ok := build.Refusal(problems, port)
		if !ok {
			return lb.Problem{}, false
		}
		last = p
	}
	return last, len(ports) > 0
}

// Bounds of what a status says of a selector, and of what it selects; a tenant may write more than fits.
const (
	maxSelector = 4000
	maxTargets  = 1000
)

// describe returns the status that the facts make, on top of what others wrote there.
func describe(f facts) clusterv1.LoadBalancerStatus {
	s := *f.lb.Status.DeepCopy()
	ports := build.Ports(f.lb)
	refusal, refused := refusedAll(f.problems, ports)
	s.Addresses, s.TargetKind, s.TargetSelector = nil, f.targetKind, f.selector
	if len(s.TargetSelector) > maxSelector {
		s.TargetSelector = strings.ToValidUTF8(s.TargetSelector[:maxSelector], "") + "…"
	}
	if f.members == "" {
		s.Targets, s.ActiveTargets, s.Members = nil, nil, ""
		for _, name := range f.groups[:min(len(f.groups), maxTargets)] {
			s.Targets = append(s.Targets, clusterv1.TargetStatus{Name: name})
		}
	}
	for _, e := range f.grant.Held {
		if a := statusAddress(e.Address, e.Pool); !e.OfHosts() && !slices.Contains(s.Addresses, a) {
			s.Addresses = append(s.Addresses, a)
		}
	}
	s.Addresses = append(s.Addresses, f.hosts...)
	if f.service != nil {
		s.Addresses = append(s.Addresses, f.service.Addresses...)
	}
	if e := f.lb.Spec.Endpoint; f.others != nil && e != nil && e.Host != "" {
		s.Addresses = append(s.Addresses, givenBy(e.Host))
	}
	s.Ports = portStatuses(f, ports)
	failed := slices.DeleteFunc(slices.Clone(s.Ports), func(p clusterv1.PortStatus) bool { return p.Error == "" })

	set := func(kind string, status metav1.ConditionStatus, reason, message string) {
		meta.SetStatusCondition(&s.Conditions, metav1.Condition{
			Type: kind, Status: status, Reason: reason, Message: sentence(message), ObservedGeneration: f.lb.Generation,
		})
	}
	const yes, no = metav1.ConditionTrue, metav1.ConditionFalse

	// The first rung that fails is the reason of Ready.
	var cause *proofless
	fail := func(reason, message string) {
		if cause == nil {
			cause = &proofless{reason, message}
		}
	}
	if refused {
		set(clusterv1.ConditionAccepted, no, refusal.Reason, located(refusal))
		fail(refusal.Reason, located(refusal))
	} else {
		set(clusterv1.ConditionAccepted, yes, clusterv1.ReasonAccepted, "")
	}
	switch ok, reason, message := f.granted(); {
	case ok:
		set(clusterv1.ConditionAddressGranted, yes, reason, message)
	case refused:
		set(clusterv1.ConditionAddressGranted, no, clusterv1.ReasonPending, "no address is granted before the LoadBalancer is accepted")
	default:
		set(clusterv1.ConditionAddressGranted, no, reason, message)
		fail(reason, message)
	}
	programmed, reason, message := judgeProgrammed(f, ports, failed)
	switch {
	case refused:
		set(clusterv1.ConditionProgrammed, no, clusterv1.ReasonPending, "nothing is served before the LoadBalancer is accepted")
	case len(s.Addresses) == 0 && len(f.grant.Held) == 0 && f.others == nil:
		set(clusterv1.ConditionProgrammed, no, clusterv1.ReasonPending, "nothing is served before an address is granted")
	case programmed:
		set(clusterv1.ConditionProgrammed, yes, reason, message)
	default:
		set(clusterv1.ConditionProgrammed, no, reason, message)
		fail(reason, message)
	}
	if c := build.Unpublished(f.lb); c != nil {
		fail(c.Reason, c.Message)
	}
	if cause == nil {
		set(clusterv1.ConditionReady, yes, clusterv1.ReasonReady, "")
	} else {
		set(clusterv1.ConditionReady, no, cause.reason, cause.message)
	}
	if reason, message := degraded(f, programmed && !refused && (len(s.Addresses) > 0 || f.others != nil), ports, failed); reason != "" {
		set(clusterv1.ConditionDegraded, yes, reason, message)
	} else {
		set(clusterv1.ConditionDegraded, no, clusterv1.ReasonAsExpected, "")
	}
	f.mirror(&s)
	return s
}

// grantedText names the addresses and where they come from.
func grantedText(g ledger.Grant) string {
	var out []string
	for _, e := range g.Held {
		text := fmt.Sprintf("%s of pool %s", e.Address, e.Pool)
		if e.OfHosts() {
			text = fmt.Sprintf("the proxies' hosts' %s addresses, of pool %s", ipam.FamilyOf(e.Address), e.Pool)
		}
		if !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	return strings.Join(out, ", ")
}

// located is a Problem's message after the field that it is about.
func located(p lb.Problem) string {
	if p.Field == "" {
		return p.Message
	}
	return p.Field + ": " + p.Message
}

// proofless is a rung that isn't proven.
type proofless struct{ reason, message string }

// portStatuses says what became of each port: refused by the spec, by the ledger, or by a proxy.
func portStatuses(f facts, ports []clusterv1.Port) []clusterv1.PortStatus {
	var out []clusterv1.PortStatus
	ref := ipam.Ref{Namespace: f.lb.Namespace, Name: f.lb.Name}
	has := map[netip.Addr][]ipam.Port{} // by address, of which it may hold single ports
	for _, e := range f.grant.Held {
		if h, holds := e.Holder(ref); holds {
			has[e.Address] = append(has[e.Address], h.Ports...)
		}
	}
	lacks := func(port ipam.Port) bool {
		for _, ports := range has {
			if !slices.Contains(ports, port) {
				return true
			}
		}
		return false
	}
	for _, p := range ports {
		s := clusterv1.PortStatus{Port: p.Port, Protocol: cmp.Or(p.Protocol, clusterv1.ProtocolTCP)}
		if refusal, ok := build.Refusal(f.problems, p); ok {
			s.Error, s.Message = refusal.Reason, sentence(located(refusal))
		} else if f.grant.Reason != "" && lacks(ipam.Port{Protocol: string(s.Protocol), Number: s.Port}) {
			s.Error, s.Message = f.grant.Reason, sentence(f.grant.Message)
		} else if given, ok := f.fromService(s); ok {
			s.Error, s.Message = given.Error, sentence(given.Message)
		} else {
			s = refusedAt(f.programmed.Problems, s)
		}
		out = append(out, s)
	}
	return out
}

// refusedAt is what the first of the problems says of a port, if one is of it.
func refusedAt(problems []proof.Problem, port clusterv1.PortStatus) clusterv1.PortStatus {
	for _, x := range problems {
		if x.Port == 0 || x.Port == port.Port && x.Protocol == string(port.Protocol) {
			port.Error, port.Message = x.Reason, sentence(x.Message)
			break
		}
	}
	return port
}

// fromService is what the hub's implementation of Services says of a port; false: nothing.
func (f *facts) fromService(p clusterv1.PortStatus) (clusterv1.PortStatus, bool) {
	if f.service == nil {
		return clusterv1.PortStatus{}, false
	}
	return f.service.Port(p.Port, p.Protocol)
}

func judgeProgrammed(f facts, ports []clusterv1.Port, failed []clusterv1.PortStatus) (bool, string, string) {
	p := &f.programmed
	switch {
	case f.others != nil:
		return true, clusterv1.ReasonManagedElsewhere, fmt.Sprintf("nobody here looks whether %s %s serves", f.others.Kind, f.others.Name)
	case f.service != nil && f.service.Reason != "":
		return false, f.service.Reason, f.service.Message
	case f.service != nil && len(ports) > 0 && len(failed) == len(ports):
		return false, clusterv1.ReasonNotServed, "no port is served: " + portErrors(failed)
	case f.service != nil:
		return true, clusterv1.ReasonProgrammed, ""
	case f.kept:
		return true, clusterv1.ReasonProgrammed, ""
	case f.said != "" && waits(f):
		return false, clusterv1.ReasonWaitingForProxies, f.said
	case len(p.Waiting) > 0:
		return false, clusterv1.ReasonWaitingForProxies, "waiting for proxies: " + proof.Names(p.Waiting)
	case len(p.Serving) == 0 && len(p.Starting) > 0:
		return false, clusterv1.ReasonWaitingForProxies, fmt.Sprintf("the proxies of pool %s are starting", f.pool)
	case len(p.Serving) == 0 && len(p.Silent) > 0:
		return false, clusterv1.ReasonNoProxies, fmt.Sprintf("no proxy of pool %s is alive (%d are silent): see to them, or start another", f.pool, len(p.Silent))
	case len(p.Serving) == 0:
		return false, clusterv1.ReasonNoProxies, fmt.Sprintf("there is no proxy of pool %s: start one", f.pool)
	case len(failed) == len(ports) && !f.somewhere:
		return false, clusterv1.ReasonNotServed, "no port is served: " + portErrors(failed)
	case f.homeless() != "":
		return false, clusterv1.ReasonNotServed, f.missedText(f.homeless())
	}
	return true, clusterv1.ReasonProgrammed, ""
}

// degraded says what is amiss with a LoadBalancer that is served; empty: nothing.
func degraded(f facts, programmed bool, ports []clusterv1.Port, failed []clusterv1.PortStatus) (reason, message string) {
	if !programmed {
		return "", ""
	}
	missed, _ := f.missed()
	amiss := membersAmiss(f.members, &f.lb.Status)
	var aside []clusterv1.PortStatus
	for _, p := range ports {
		if s := refusedAt(f.aside, clusterv1.PortStatus{Port: p.Port, Protocol: cmp.Or(p.Protocol, clusterv1.ProtocolTCP)}); s.Error != "" {
			aside = append(aside, s)
		}
	}
	switch {
	case len(failed) > 0 && len(failed) == len(ports):
		return clusterv1.ReasonNotServed, "no port is served everywhere: " + portErrors(failed)
	case len(failed) > 0:
		return clusterv1.ReasonPartlyServed, "some ports are not served: " + portErrors(failed)
	case f.grant.Reason != "":
		return f.grant.Reason, f.grant.Message
	case missed != "":
		return clusterv1.ReasonFamilyNotInPool, f.missedText(missed)
	case len(aside) > 0:
		return aside[0].Error, "refused by proxies whose hosts are not shown: " + portErrors(aside)
	case f.members != "" && amiss.reason != "":
		return amiss.reason, amiss.message
	case f.members == "" && len(f.groups) == 0:
		return clusterv1.ReasonNoTargets, "no TargetGroup matches the selector: label one, or mend the selector; clients are refused meanwhile"
	case f.members == "" && f.barren != nil:
		return f.barren.reason, f.barren.message
	case f.service != nil && f.service.Lack != nil:
		return f.service.Lack.Reason, f.service.Lack.Message
	}
	var fields []string
	first := ""
	for _, p := range f.problems {
		if p.Effect == lb.ServedWithout {
			first = cmp.Or(first, p.Reason)
			fields = append(fields, located(p))
		}
	}
	for _, p := range f.programmed.Without {
		first = cmp.Or(first, p.Reason)
		fields = append(fields, p.Field+": "+p.Message)
	}
	return first, strings.Join(fields, "; ")
}

// membersAmiss is what the controller of members says that clients would notice; empty: nothing.
func membersAmiss(kind member.Kind, s *clusterv1.LoadBalancerStatus) proofless {
	c := meta.FindStatusCondition(s.Conditions, clusterv1.ConditionTargetsFollowed)
	switch {
	case c == nil:
		return proofless{}
	case c.Status != metav1.ConditionTrue:
		return proofless{c.Reason, c.Message}
	case len(s.Targets) == 0:
		return proofless{clusterv1.ReasonNoTargets, fmt.Sprintf("no %s matches the selector: label one, or mend the selector; clients are refused meanwhile", kind)}
	case len(s.ActiveTargets) == 0:
		return proofless{clusterv1.ReasonNoActiveTargets, "no target takes new connections: status.targets says why of each"}
	}
	return proofless{}
}

func portErrors(failed []clusterv1.PortStatus) string {
	var out []string
	for i, p := range failed {
		if i == 3 {
			out = append(out, fmt.Sprintf("%d more", len(failed)-i))
			break
		}
		name, message := fmt.Sprintf("%s/%d ", p.Protocol, p.Port), strings.TrimSuffix(p.Message, ".")
		if strings.Contains(message, name) {
			name = "" // it is named once
		}
		out = append(out, fmt.Sprintf("%s%s (%s)", name, p.Error, message))
	}
	return strings.Join(out, "; ")
}

// sentence bounds a message and makes it one: a capital letter, a full stop.
func sentence(s string) string {
	if s == "" {
		return ""
	}
	if len(s) > 1000 {
		s = strings.ToValidUTF8(s[:1000], "") + "…"
	}
	if c := s[0]; c >= 'a' && c <= 'z' && !strings.ContainsAny(firstWord(s), "./[0123456789") {
		s = strings.ToUpper(s[:1]) + s[1:]
	}
	if !strings.HasSuffix(s, ".") && !strings.HasSuffix(s, "…") {
		s += "."
	}
	return s
}

func firstWord(s string) string {
	word, _, _ := strings.Cut(s, " ")
	return word
}

// waits says that a status adds nothing but that live proxies are waited for, which most often is over in a moment.
func waits(f facts) bool {
	return len(f.grant.Held) > 0 && !f.kept && !f.programmed.Done() && len(f.programmed.Waiting)+len(f.programmed.Starting) > 0
}

// saidWaiting is what the status says of the proxies that this generation waits for; empty: nothing.
func saidWaiting(l *clusterv1.LoadBalancer) string {
	c := meta.FindStatusCondition(l.Status.Conditions, clusterv1.ConditionProgrammed)
	if c == nil || c.ObservedGeneration != l.Generation || c.Reason != clusterv1.ReasonWaitingForProxies {
		return ""
	}
	return c.Message
}
