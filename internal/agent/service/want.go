package service

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cloud-provider/service/helpers"
)

// Problem is something that a Service says and that isn't served as it stands.
type Problem struct {
	// Port and Protocol that it costs; port 0: not one port alone.
	Port     int32
	Protocol v1.Protocol
	// Field of the Service.
	Field  string
	Reason string
	// Message says cause, then fix.
	Message string
	// Refuses says that nothing of the Service is served because of it.
	Refuses bool
	// Quiet: it may pass by itself, and deserves no event.
	Quiet bool
	// Outside: the Service is as good as it was; its ports have no error.
	Outside bool
}

// Wanted is what a Service wants of the hub.
type Wanted struct {
	Annotations map[string]string
	Spec        clusterv1.LoadBalancerSpec
	Problems    []Problem
	// Fronts says that the targets are not the Nodes but another load balancer's addresses: those of Backend.
	Fronts bool
}

// maxDrain is the longest drainTimeout that the hub takes.
const maxDrain = 720 * time.Hour

// Want turns a Service into its LoadBalancer. existing is what the hub has now, nil if it has none. Of one that another load
// balancer serves, see Front.
func Want(s *v1.Service, class string, existing *clusterv1.LoadBalancer) Wanted {
	at := InStatus
	if s.Spec.Type == v1.ServiceTypeNodePort {
		at = InAnnotation
	}
	w := wanted(s, class, v1alpha1.TargetsNodes)
	w.ports(s)
	w.healthCheck(s)
	w.distribution(s)
	w.addresses(s, at, existing)
	w.options(s)
	if at == InAnnotation {
		w.exposed(s, v1alpha1.AnnotationExposeNodePort)
	}
	return *w
}

// wanted is what all begin with; targets is the label of the TargetGroups that get the traffic.
func wanted(s *v1.Service, class, targets string) *Wanted {
	w := &Wanted{
		Annotations: map[string]string{
			v1alpha1.AnnotationOrigin:    OriginOf(Key(s)),
			v1alpha1.AnnotationOriginUID: string(s.UID),
		},
		Spec: clusterv1.LoadBalancerSpec{
			ClassName:    class,
			Selector:     &metav1.LabelSelector{MatchLabels: map[string]string{v1alpha1.LabelTargets: targets}},
			AddressPools: list(s.Annotations[v1alpha1.AnnotationAddressPool]),
		},
	}
	if class != "" {
		w.Annotations[v1alpha1.AnnotationClass] = class
	}
	w.families(s)
	return w
}

// options are what a Service may say whatever its targets are.
func (w *Wanted) options(s *v1.Service) {
	w.affinity(s)
	w.drainTimeout(s)
	w.sourceRanges(s)
	w.proxyProtocol(s)
}

// families are those in which the Service's cluster serves it: the nodes answer in no other. One alone is
// SingleStack, whatever the Service would prefer in another cluster.
func (w *Wanted) families(s *v1.Service) {
	for _, f := range s.Spec.IPFamilies {
		w.Spec.IPFamilies = append(w.Spec.IPFamilies, clusterv1.IPFamily(f))
	}
	w.Spec.IPFamilyPolicy = clusterv1.IPFamilyPolicy(deref(s.Spec.IPFamilyPolicy))
	if len(w.Spec.IPFamilies) == 1 && w.Spec.IPFamilyPolicy != "" {
		w.Spec.IPFamilyPolicy = clusterv1.SingleStack
	}
}

// distribution: nearness to a proxy is that of the zone, as a proxy is no node.
func (w *Wanted) distribution(s *v1.Service) {
	switch deref(s.Spec.TrafficDistribution) {
	case v1.ServiceTrafficDistributionPreferClose, v1.ServiceTrafficDistributionPreferSameZone, v1.ServiceTrafficDistributionPreferSameNode:
		w.Spec.TrafficDistribution = clusterv1.PreferSameZone
	}
}

func (w *Wanted) ports(s *v1.Service) {
	for i, p := range s.Spec.Ports {
		protocol := p.Protocol
		if protocol == "" {
			protocol = v1.ProtocolTCP
		}
		if p.NodePort == 0 {
			x := Problem{Port: p.Port, Protocol: protocol, Field: fmt.Sprintf("spec.ports[%d].nodePort", i), Reason: ReasonNoNodePort,
				Message: "the port has no nodePort, and traffic goes to the nodes: set one"}
			if a := s.Spec.AllocateLoadBalancerNodePorts; a != nil && !*a {
				x.Message = "the port has no nodePort, and traffic goes to the nodes: remove spec.allocateLoadBalancerNodePorts or set it to true, or set a nodePort"
			}
			w.Problems = append(w.Problems, x)
			continue
		}
		w.Spec.Ports = append(w.Spec.Ports, clusterv1.Port{Name: p.Name, Protocol: clusterv1.Protocol(protocol), Port: p.Port, TargetPort: p.NodePort})
	}
}

// healthCheck asks each node whether it has an endpoint of its own, where only those may get
// traffic. When none has, clients are refused: a node without one would drop them.
func (w *Wanted) healthCheck(s *v1.Service) {
	closed := false
	if path, port := helpers.GetServiceHealthCheckPathPort(s); port != 0 {
		w.Spec.HealthCheck, w.Spec.FailOpen = &clusterv1.HealthCheck{Type: clusterv1.HealthCheckHTTP, Path: path, Port: port}, &closed
		return
	}
	if s.Spec.Type != v1.ServiceTypeNodePort || s.Spec.ExternalTrafficPolicy != v1.ServiceExternalTrafficPolicyLocal {
		return
	}
	// There is no healthCheckNodePort, but a node without an endpoint drops what comes to a nodePort of TCP.
	for _, p := range w.Spec.Ports {
		if p.Protocol == clusterv1.ProtocolTCP {
			w.Spec.HealthCheck, w.Spec.FailOpen = &clusterv1.HealthCheck{Type: clusterv1.HealthCheckTCP, Port: p.TargetPort}, &closed
			return
		}
	}
	w.refuse("spec.externalTrafficPolicy", "with Local, nodes without a Pod of the Service drop its traffic, and a Service of type NodePort without a TCP port gives no way to tell them: set it to Cluster, or spec.type to LoadBalancer")
}

// exposed says that an annotation that asks for a LoadBalancer makes no sense.
func (w *Wanted) exposed(s *v1.Service, annotation string) {
	text := s.Annotations[annotation]
	if yes, class := readExpose(text); yes == nil && class == "" {
		w.refuse("metadata.annotations["+annotation+"]", fmt.Sprintf("%q is neither true nor a class such as fairlead.dev/edge: write one of them, or remove the annotation", text))
	}
}

func (w *Wanted) affinity(s *v1.Service) {
	if s.Spec.SessionAffinity != v1.ServiceAffinityClientIP {
		return
	}
	w.Spec.SessionAffinity = clusterv1.SessionAffinityClientIP
	if c := s.Spec.SessionAffinityConfig; c != nil && c.ClientIP != nil && c.ClientIP.TimeoutSeconds != nil {
		w.Spec.SessionAffinityTimeout = &metav1.Duration{Duration: time.Duration(*c.ClientIP.TimeoutSeconds) * time.Second}
	}
}

func (w *Wanted) drainTimeout(s *v1.Service) {
	text := strings.TrimSpace(s.Annotations[v1alpha1.AnnotationDrainTimeout])
	if text == "" {
		return
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 || d > maxDrain {
		w.Problems = append(w.Problems, Problem{Field: "metadata.annotations[" + v1alpha1.AnnotationDrainTimeout + "]", Reason: clusterv1.ReasonInvalid,
			Message: fmt.Sprintf("%q is no duration between 0s and 720h, and the class's is used: write one such as 5m", text)})
		return
	}
	w.Spec.DrainTimeout = &metav1.Duration{Duration: d}
}

func (w *Wanted) sourceRanges(s *v1.Service) {
	ranges, err := helpers.GetLoadBalancerSourceRanges(s)
	if err != nil {
		w.refuse("spec.loadBalancerSourceRanges", fmt.Sprintf("nobody may connect, for the source ranges don't parse: mend them (%v)", err))
		return
	}
	named := slices.Sorted(slices.Values(ranges.StringSlice()))
	if slices.Equal(named, []string{"0.0.0.0/0"}) || slices.Equal(named, []string{"0.0.0.0/0", "::/0"}) {
		return
	}
	w.Spec.SourceRanges = named
}

func (w *Wanted) proxyProtocol(s *v1.Service) {
	switch text := strings.TrimSpace(s.Annotations[v1alpha1.AnnotationProxyProtocol]); strings.ToUpper(text) {
	case "":
	case "V1", "V2":
		w.Spec.ProxyProtocol = strings.ToUpper(text)
	default:
		w.refuse("metadata.annotations["+v1alpha1.AnnotationProxyProtocol+"]", fmt.Sprintf("%q is no version of the PROXY protocol: write V1 or V2, or remove the annotation", text))
	}
}

// refuse takes all ports out.
func (w *Wanted) refuse(field, message string) {
	w.Spec.Ports = nil
	w.Problems = append(w.Problems, Problem{Field: field, Reason: clusterv1.ReasonInvalid, Message: message, Refuses: true})
}

// Same tells whether the hub has what is wanted. className is the manager's where the Service
// names none.
func (w Wanted) Same(l *clusterv1.LoadBalancer) bool {
	have := l.Spec
	if w.Spec.ClassName == "" {
		have.ClassName = ""
	}
	for k, v := range w.Annotations {
		if l.Annotations[k] != v {
			return false
		}
	}
	return slices.Contains(l.Finalizers, clusterv1.Finalizer) && equality.Semantic.DeepEqual(have, w.Spec)
}

// Reborn tells whether the hub's LoadBalancer must go first: its class can't be changed.
func (w Wanted) Reborn(l *clusterv1.LoadBalancer) bool {
	return l.Annotations[v1alpha1.AnnotationClass] != w.Class()
}

// Class is the one that the Service names; empty: none.
func (w Wanted) Class() string { return w.Annotations[v1alpha1.AnnotationClass] }

// Equal tells whether two are the same.
func (w Wanted) Equal(o Wanted) bool {
	return maps.Equal(w.Annotations, o.Annotations) && equality.Semantic.DeepEqual(w.Spec, o.Spec)
}

// list splits a list with commas.
func list(text string) []string {
	var out []string
	for _, t := range strings.Split(text, ",") {
		if t = strings.TrimSpace(t); t != "" {
			out = append(out, t)
		}
	}
	return out
}

func deref[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}
