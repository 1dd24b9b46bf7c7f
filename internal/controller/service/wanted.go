package service

import (
	"maps"
	"slices"
	"strings"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/build"
	"fairlead.dev/fairlead/internal/lb"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Wanted is all that a LoadBalancer's Service and slices are made from.
type Wanted struct {
	LoadBalancer *clusterv1.LoadBalancer
	Class        *v1alpha1.LoadBalancerClass
	// Tenant of the namespace; nil: the hub operator's.
	Tenant *v1alpha1.Tenant
	// Admission is what the Tenant's quota leaves out of the namespace.
	Admission build.Admission
	// Problems are build.Validate's.
	Problems []lb.Problem
	// Groups are the TargetGroups that it selects; nobody changes them.
	Groups []v1alpha1.TargetGroup
}

// ports are those that nothing refuses.
func (w *Wanted) ports() []clusterv1.Port {
	return slices.DeleteFunc(slices.Clone(build.Ports(w.LoadBalancer)), func(p clusterv1.Port) bool {
		_, refused := build.Refusal(w.Problems, p)
		return refused
	})
}

// into makes a Service what it has to be. What others set there stays: node ports, cluster addresses, the
// implementation's finalizers and annotations. It returns a copy.
func (w *Wanted) into(have *corev1.Service) *corev1.Service {
	s, class := have.DeepCopy(), w.Class.Spec.Service
	s.Namespace, s.Name = w.LoadBalancer.Namespace, NameOf(w.LoadBalancer.Name)
	s.OwnerReferences = append(slices.DeleteFunc(s.OwnerReferences, func(o metav1.OwnerReference) bool { return o.Controller != nil && *o.Controller }), ownedBy(w.LoadBalancer))
	w.keys(s)

	s.Spec.Type = corev1.ServiceType(class.Type)
	s.Spec.LoadBalancerClass, s.Spec.LoadBalancerSourceRanges = nil, nil
	if s.Spec.Type == corev1.ServiceTypeLoadBalancer {
		if class.LoadBalancerClass != "" {
			s.Spec.LoadBalancerClass = &class.LoadBalancerClass
		}
		s.Spec.LoadBalancerSourceRanges = slices.Clone(w.LoadBalancer.Spec.SourceRanges)
	}
	s.Spec.Selector = nil
	before := s.Spec.Ports
	s.Spec.Ports = nil
	for _, p := range w.ports() {
		port := corev1.ServicePort{Name: portName(p), Protocol: protocol(p), Port: p.Port, TargetPort: intstr.FromInt32(targetPort(p))}
		if i := slices.IndexFunc(before, func(b corev1.ServicePort) bool { return b.Port == p.Port && b.Protocol == port.Protocol }); i >= 0 && s.Spec.Type != corev1.ServiceTypeClusterIP {
			port.NodePort = before[i].NodePort
		}
		s.Spec.Ports = append(s.Spec.Ports, port)
	}
	w.affinity(s)
	w.families(s)
	s.Spec.TrafficDistribution = nil
	if w.LoadBalancer.Spec.TrafficDistribution == clusterv1.PreferSameZone {
		zone := corev1.ServiceTrafficDistributionPreferSameZone
		s.Spec.TrafficDistribution = &zone
	}
	return s
}

// keys sets labels and annotations. Ours win over the class's, and those that the class no longer has go.
func (w *Wanted) keys(s *corev1.Service) {
	if s.Labels == nil {
		s.Labels = map[string]string{}
	}
	if s.Annotations == nil {
		s.Annotations = map[string]string{}
	}
	class := w.Class.Spec.Service
	for _, key := range strings.Split(s.Annotations[annotationKeys], ",") {
		kind, key, _ := strings.Cut(key, ":")
		switch kind {
		case "label":
			delete(s.Labels, key)
		case "annotation":
			delete(s.Annotations, key)
		}
	}
	var keys []string
	for _, key := range slices.Sorted(maps.Keys(class.Labels)) {
		keys = append(keys, "label:"+key)
	}
	for _, key := range slices.Sorted(maps.Keys(class.Annotations)) {
		keys = append(keys, "annotation:"+key)
	}
	maps.Copy(s.Labels, class.Labels)
	maps.Copy(s.Annotations, class.Annotations)
	s.Labels[v1alpha1.LabelFor] = w.LoadBalancer.Name
	delete(s.Annotations, annotationKeys)
	if len(keys) > 0 {
		s.Annotations[annotationKeys] = strings.Join(keys, ",")
	}
}

func (w *Wanted) affinity(s *corev1.Service) {
	spec := &w.LoadBalancer.Spec
	if spec.SessionAffinity != clusterv1.SessionAffinityClientIP {
		s.Spec.SessionAffinity, s.Spec.SessionAffinityConfig = corev1.ServiceAffinityNone, nil
		return
	}
	seconds := int32(corev1.DefaultClientIPServiceAffinitySeconds)
	if d := spec.SessionAffinityTimeout; d != nil {
		seconds = int32(d.Seconds())
	}
	s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
	s.Spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: &seconds}}
}

// families are asked for as the LoadBalancer does: of one family unless it says otherwise, of two without a policy both.
func (w *Wanted) families(s *corev1.Service) {
	spec := &w.LoadBalancer.Spec
	policy := corev1.IPFamilyPolicy(spec.IPFamilyPolicy)
	if policy == "" {
		policy = corev1.IPFamilyPolicySingleStack
		if len(spec.IPFamilies) == 2 {
			policy = corev1.IPFamilyPolicyRequireDualStack
		}
	}
	s.Spec.IPFamilyPolicy = &policy
	if len(spec.IPFamilies) == 0 {
		return // the hub's own choice
	}
	var families []corev1.IPFamily
	for _, f := range spec.IPFamilies {
		families = append(families, corev1.IPFamily(f))
	}
	switch {
	case policy == corev1.IPFamilyPolicySingleStack:
		families = families[:1]
	case len(families) < len(s.Spec.IPFamilies) && families[0] == s.Spec.IPFamilies[0]:
		return // the hub has added the other
	}
	s.Spec.IPFamilies = families
}

// targetPort is the port's on the targets.
func targetPort(p clusterv1.Port) int32 {
	if p.TargetPort != 0 {
		return p.TargetPort
	}
	return p.Port
}
