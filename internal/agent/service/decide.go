package service

import (
	"slices"
	"strings"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/cloud-provider/service/helpers"
)

// Finalizer holds a Service until its LoadBalancer is gone from the hub.
const Finalizer = helpers.LoadBalancerCleanupFinalizer

// Filter says which Services of type LoadBalancer are ours.
type Filter struct {
	// ClassPrefix of spec.loadBalancerClass, without the slash.
	ClassPrefix string
	// Unclassed Services, those without spec.loadBalancerClass, are ours too.
	Unclassed bool
}

// Class returns the LoadBalancerClass that a Service names, empty for the hub's
// default, and whether the Service is ours by type and class.
func (f Filter) Class(s *v1.Service) (class string, ours bool) {
	if s.Spec.Type != v1.ServiceTypeLoadBalancer {
		return "", false
	}
	if c := s.Spec.LoadBalancerClass; c != nil {
		class, ours = strings.CutPrefix(*c, f.ClassPrefix+"/")
		return class, ours && class != ""
	}
	return strings.TrimSpace(s.Annotations[v1alpha1.AnnotationClass]), f.Unclassed
}

// Action is what is to be done about a Service.
type Action string

const (
	// Ignore: it was never ours and isn't now.
	Ignore Action = "Ignore"
	// Serve: the hub should have a LoadBalancer for it.
	Serve Action = "Serve"
	// Release: it holds a LoadBalancer that it should not have any more.
	Release Action = "Release"
)

// Decide says what to do about a Service; l is its LoadBalancer in the hub, nil if there is none.
func Decide(f Filter, s *v1.Service, l *clusterv1.LoadBalancer) Action {
	_, ours := f.Class(s)
	deleting := s.DeletionTimestamp != nil
	switch {
	case ours && !deleting:
		return Serve
	case ours && helpers.HasLBFinalizer(s), Marked(s), meta.FindStatusCondition(s.Status.Conditions, ConditionProgrammed) != nil, l != nil && MadeFrom(l, s):
		return Release
	}
	return Ignore
}

// Marked tells whether the Service carries our mark: it comes and goes with the finalizer,
// which we share with other controllers of Services.
func Marked(s *v1.Service) bool { return s.Annotations[v1alpha1.AnnotationLoadBalancer] != "" }

// Finalized tells whether the finalizer is there, which may be another controller's.
func Finalized(s *v1.Service) bool { return slices.Contains(s.Finalizers, Finalizer) }

// Holds tells whether mark and finalizer are there.
func Holds(s *v1.Service) bool {
	return Finalized(s) && s.Annotations[v1alpha1.AnnotationLoadBalancer] == Name(Key(s))
}

// MadeFrom tells whether l was made from a Service of this namespace and name.
func MadeFrom(l *clusterv1.LoadBalancer, s *v1.Service) bool {
	key, ok := Origin(l)
	return ok && key == Key(s)
}
