package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion of the kinds in this package.
var GroupVersion = schema.GroupVersion{Group: "fairlead.dev", Version: "v1alpha1"}

// AddToScheme adds the kinds of this package to a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion,
		&TargetGroup{}, &TargetGroupList{},
		&LoadBalancerClass{}, &LoadBalancerClassList{},
		&AddressPool{}, &AddressPoolList{},
		&Address{}, &AddressList{},
		&Tenant{}, &TenantList{},
		&Proxy{}, &ProxyList{},
		&ProxyReport{}, &ProxyReportList{},
	)
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
