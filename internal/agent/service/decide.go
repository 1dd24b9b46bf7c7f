package service

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/cloud-provider/service/helpers"
)

// Finalizers hold a Service until its LoadBalancer is gone from the hub.
const (
	// Finalizer is that of Services whose load balancer is ours alone, which all controllers of Services share.
	Finalizer = helpers.LoadBalancerCleanupFinalizer
	// OwnFinalizer is that of others: a cloud's controller takes Finalizer off Services that are not of type LoadBalancer, and
	// puts it on those that it serves itself.
	OwnFinalizer = "fairlead.dev/loadbalancer"
)

// Filter says which Services are ours.
type Filter struct {
	// ClassPrefix of spec.loadBalancerClass, without the slash.
	ClassPrefix string
	// Unclassed Services, those without spec.loadBalancerClass, are ours too.
	Unclassed bool
	// ExposeLoadBalancers has Services of type LoadBalancer that another one serves exposed too, unless they say no.
	ExposeLoadBalancers bool
}

// Class returns the LoadBalancerClass that a Service names, empty for the hub's default, and whether the Service is ours: by
// type and class, or because it asks to be exposed.
func (f Filter) Class(s *v1.Service) (class string, ours bool) {
	switch s.Spec.Type {
	case v1.ServiceTypeLoadBalancer:
		if class, ours = f.serves(s); ours {
			return class, true
		}
		text, says := s.Annotations[v1alpha1.AnnotationExposeLoadBalancer]
		if !says && f.ExposeLoadBalancers {
			text = "true"
		}
		return f.exposed(s, text)
	case v1.ServiceTypeNodePort:
		return f.exposed(s, s.Annotations[v1alpha1.AnnotationExposeNodePort])
	}
	return "", false
}

// serves is Class of Services of type LoadBalancer whose load balancer is ours alone.
func (f Filter) serves(s *v1.Service) (class string, ours bool) {
	if c := s.Spec.LoadBalancerClass; c != nil {
		return f.cut(*c)
	}
	return classAnnotation(s), f.Unclassed
}

// Fronts tells whether a Service is ours though another load balancer serves it: the hub sends to that one's address.
func (f Filter) Fronts(s *v1.Service) bool {
	if s.Spec.Type != v1.ServiceTypeLoadBalancer {
		return false
	}
	if _, ours := f.serves(s); ours {
		return false
	}
	_, ours := f.Class(s)
	return ours
}

// cut takes our prefix off a class.
func (f Filter) cut(text string) (class string, ours bool) {
	class, ours = strings.CutPrefix(text, f.ClassPrefix+"/")
	if !ours || class == "" {
		return "", false
	}
	return class, true
}

func classAnnotation(s *v1.Service) string {
	return strings.TrimSpace(s.Annotations[v1alpha1.AnnotationClass])
}

// exposed reads an annotation that asks for a LoadBalancer. What makes no sense asks too: nobody else would tell the user.
func (f Filter) exposed(s *v1.Service, text string) (class string, ours bool) {
	yes, named := readExpose(text)
	switch {
	case named != "":
		return f.cut(named)
	case yes != nil:
		return classAnnotation(s), *yes
	}
	return classAnnotation(s), true
}

// readExpose returns whether the annotation asks, or the class that it names; neither if it makes no sense.
func readExpose(text string) (yes *bool, class string) {
	text = strings.TrimSpace(text)
	if strings.Contains(text, "/") {
		return nil, text
	}
	if b, err := strconv.ParseBool(cmp.Or(text, "false")); err == nil {
		yes = &b
	}
	return yes, ""
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
	case ours && f.Place(s) == InStatus && Finalized(s), slices.Contains(s.Finalizers, OwnFinalizer), Marked(s), Told(s), l != nil && MadeFrom(l, s):
		return Release
	}
	return Ignore
}

// Marked tells whether the Service carries our mark: it comes and goes with the finalizer,
// which we share with other controllers of Services.
func Marked(s *v1.Service) bool { return s.Annotations[v1alpha1.AnnotationLoadBalancer] != "" }

// Place is where a Service's user finds its addresses.
type Place string

const (
	// InStatus is status.loadBalancer, of Services whose load balancer is ours alone.
	InStatus Place = "status"
	// InAnnotation is the annotation fairlead.dev/published-addresses.
	InAnnotation Place = "annotation"
)

// Place says where the addresses of a Service of ours are published.
func (f Filter) Place(s *v1.Service) Place {
	if s.Spec.Type == v1.ServiceTypeNodePort || f.Fronts(s) {
		return InAnnotation
	}
	return InStatus
}

// finalizer that holds a Service.
func (p Place) finalizer() string {
	if p == InAnnotation {
		return OwnFinalizer
	}
	return Finalizer
}

// Finalized tells whether the finalizer is there that we share, which may be another controller's.
func Finalized(s *v1.Service) bool { return helpers.HasLBFinalizer(s) }

// Holds tells whether mark and finalizer are there, and no finalizer of ours beside it.
func Holds(s *v1.Service, at Place) bool {
	add, remove := Finalizers(s, at)
	return add == "" && remove == "" && s.Annotations[v1alpha1.AnnotationLoadBalancer] == Name(Key(s))
}

// Finalizers says which finalizer a Service of ours lacks, and which it has from when its addresses were elsewhere. The shared
// one is taken for ours where the mark is and our own finalizer isn't, unless that was there and somebody took it off.
func Finalizers(s *v1.Service, at Place) (add, remove string) {
	if !slices.Contains(s.Finalizers, at.finalizer()) {
		add = at.finalizer()
	}
	own := slices.Contains(s.Finalizers, OwnFinalizer)
	switch {
	case at == InStatus && own:
		remove = OwnFinalizer
	case at == InAnnotation && !own && Marked(s) && Finalized(s) && !ownTaken(s):
		remove = Finalizer
	}
	return add, remove
}

// ownTaken tells whether a marked Service that another load balancer serves was held by our own finalizer, which it has no more: it
// says where it is published, or that the other one is waited for. Then the shared finalizer is that one's.
func ownTaken(s *v1.Service) bool {
	if s.Spec.Type != v1.ServiceTypeLoadBalancer || slices.Contains(s.Finalizers, OwnFinalizer) || !Marked(s) {
		return false
	}
	if _, annotated := s.Annotations[v1alpha1.AnnotationPublished]; annotated {
		return true
	}
	c := meta.FindStatusCondition(s.Status.Conditions, ConditionProgrammed)
	return c != nil && (c.Reason == ReasonNoBackend || c.Reason == ReasonBackendMissing)
}

// Held is the finalizer by which we hold a Service, empty where none is known to be ours. The shared one is, where the mark is
// beside it, and where the Service's load balancer is ours alone; else it is another controller's, whose load balancer would
// stay behind without it.
func (f Filter) Held(s *v1.Service) string {
	if slices.Contains(s.Finalizers, OwnFinalizer) {
		return OwnFinalizer
	}
	if _, ours := f.Class(s); Marked(s) && !ownTaken(s) || ours && f.Place(s) == InStatus {
		return Finalizer
	}
	return ""
}

// Showed tells whether the addresses in the status of a Service that is held so are ours. Those of a Service that is another
// controller's by now may be that one's, and are where ours were in the annotation.
func Showed(s *v1.Service, held string) bool {
	_, annotated := s.Annotations[v1alpha1.AnnotationPublished]
	return held == Finalizer && !annotated && (s.Spec.LoadBalancerClass == nil || Told(s))
}

// Told tells whether the Service has our condition.
func Told(s *v1.Service) bool {
	return meta.FindStatusCondition(s.Status.Conditions, ConditionProgrammed) != nil
}

// MadeFrom tells whether l was made from a Service of this namespace and name.
func MadeFrom(l *clusterv1.LoadBalancer, s *v1.Service) bool {
	key, ok := Origin(l)
	return ok && key == Key(s)
}
