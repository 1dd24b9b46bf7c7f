package build

import (
	"strings"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
)

// ProviderGroup is the API group of provider kinds, and of their templates.
const ProviderGroup = "infrastructure.cluster.x-k8s.io"

// templateSuffix ends the name of a template's kind; what is before it is made from the template.
const templateSuffix = "Template"

// ByProvider says whether an object of a provider kind serves a LoadBalancer. class is its own, nil if that doesn't exist.
func ByProvider(l *clusterv1.LoadBalancer, class *v1alpha1.LoadBalancerClass) bool {
	return l.Spec.InfrastructureRef != nil || class != nil && class.Spec.InfrastructureTemplate != nil
}

// KindOfTemplate is the kind that is made from a kind of template; "" where that is none.
func KindOfTemplate(kind string) string {
	of, ok := strings.CutSuffix(kind, templateSuffix)
	if !ok {
		return ""
	}
	return of
}

// infrastructureRef finds what keeps an object from serving the LoadBalancer that refers to it.
func (f *findings) infrastructureRef(l *clusterv1.LoadBalancer, tenant *v1alpha1.Tenant) {
	switch ref := l.Spec.InfrastructureRef; {
	case tenant != nil:
		f.refuse("spec.infrastructureRef", clusterv1.ReasonNotSupported, "provider kinds serve no LoadBalancers of Tenants yet: name a class with proxies or of Services")
	case ref.APIGroup != ProviderGroup:
		f.refuse("spec.infrastructureRef.apiGroup", clusterv1.ReasonInvalid, "%q has no provider kinds: use %s", ref.APIGroup, ProviderGroup)
	}
}

// classTemplate judges the template of a class.
func (f *findings) classTemplate(class *v1alpha1.LoadBalancerClass) {
	switch t := class.Spec.InfrastructureTemplate; {
	case t.APIGroup != ProviderGroup:
		f.refuse("spec.infrastructureTemplate.apiGroup", clusterv1.ReasonInvalid, "%q has no provider kinds: use %s", t.APIGroup, ProviderGroup)
	case KindOfTemplate(t.Kind) == "":
		f.refuse("spec.infrastructureTemplate.kind", clusterv1.ReasonInvalid, "%q is no kind of template: use one that ends in %s", t.Kind, templateSuffix)
	}
	if len(class.Spec.AddressPools) > 0 {
		f.without("spec.addressPools", clusterv1.ReasonNotSupported, "the provider chooses the addresses, or spec.endpoint does: remove addressPools")
	}
	if d := class.Spec.Defaults; d != nil && d.HealthCheck != nil {
		f.without("spec.defaults.healthCheck", clusterv1.ReasonNotSupported, "the provider chooses its check: say it in the LoadBalancer")
	}
}

// onProvider finds what a provider isn't told.
func (f *findings) onProvider(l *clusterv1.LoadBalancer) {
	if len(l.Spec.AddressPools)+len(l.Spec.Addresses) > 0 {
		f.without("spec.addresses", clusterv1.ReasonNotSupported, "the provider chooses the addresses: say in spec.endpoint which is wanted, and remove addresses and addressPools")
	}
}
