package provider

import (
	"context"
	"testing"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/build"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// What a technology is asked to check, where it can check more than a connection.
func TestHealthCheck(t *testing.T) {
	own, ofClass := &clusterv1.HealthCheck{Type: clusterv1.HealthCheckTCP}, &clusterv1.HealthCheck{Type: clusterv1.HealthCheckHTTP, Path: "/ok"}
	scheme := runtime.NewScheme()
	if err := AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	live := interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme).WithObjects(
		&v1alpha1.LoadBalancerClass{ObjectMeta: metav1.ObjectMeta{Name: "checks"}, Spec: v1alpha1.LoadBalancerClassSpec{Defaults: &v1alpha1.ClassDefaults{HealthCheck: ofClass}}},
		&v1alpha1.LoadBalancerClass{ObjectMeta: metav1.ObjectMeta{Name: "plain"}},
	).Build(), interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
		if key.Name == "forbidden" {
			return apierrors.NewForbidden(schema.GroupResource{}, key.Name, nil)
		}
		return c.Get(ctx, key, o, opts...)
	}})
	for name, tc := range map[string]struct {
		own          *clusterv1.HealthCheck
		class        string
		controlPlane bool
		can          Supports
		want         *clusterv1.HealthCheck
	}{
		"a control plane":                        {controlPlane: true, can: Supports{HealthCheck: true}, want: build.Readyz()},
		"whose class says nothing":               {controlPlane: true, class: "plain", can: Supports{HealthCheck: true}, want: build.Readyz()},
		"whose class isn't there":                {controlPlane: true, class: "none", can: Supports{HealthCheck: true}, want: build.Readyz()},
		"whose class does":                       {controlPlane: true, class: "checks", can: Supports{HealthCheck: true}, want: ofClass},
		"whose class may not be read":            {controlPlane: true, class: "forbidden", can: Supports{HealthCheck: true}},
		"that says it itself":                    {controlPlane: true, class: "checks", own: own, can: Supports{HealthCheck: true}, want: own},
		"where the technology can't":             {controlPlane: true, class: "checks"},
		"what it can't do is asked all the same": {controlPlane: true, own: own, want: own}, // and refused
		"of a workload":                          {can: Supports{HealthCheck: true}},
		"of a workload, by its class":            {class: "checks", can: Supports{HealthCheck: true}, want: ofClass},
	} {
		t.Run(name, func(t *testing.T) {
			r := &reconciler{live: live, Options: Options{Supports: tc.can}}
			l := &clusterv1.LoadBalancer{Spec: clusterv1.LoadBalancerSpec{ClusterName: "prod", ClassName: tc.class, HealthCheck: tc.own}}
			got, err := r.healthCheck(t.Context(), l, tc.controlPlane)
			if err != nil || !equality.Semantic.DeepEqual(got, tc.want) {
				t.Errorf("it is %+v, %v", got, err)
			}
			if l.Spec.Role != "" {
				t.Error("the LoadBalancer was changed, which is shared")
			}
		})
	}
}
