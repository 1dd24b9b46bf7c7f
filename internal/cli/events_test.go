package cli

import (
	"context"
	"strings"
	"testing"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// Who may not read the events of a LoadBalancer is told so, unless the hub writes none about it.
func TestEventsThatMayNotBeReadAreSaid(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := eventsv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			return apierrors.NewForbidden(eventsv1.Resource("events"), "", nil)
		},
	}).Build()
	made := LoadBalancerOf("prod-eu", types.NamespacedName{Namespace: "default", Name: "hello"})
	o := &Objects{LoadBalancers: []*clusterv1.LoadBalancer{
		{ObjectMeta: metav1.ObjectMeta{Namespace: "prod-eu", Name: "web"}},
		{ObjectMeta: metav1.ObjectMeta{Namespace: made.Namespace, Name: made.Name, Annotations: map[string]string{v1alpha1.AnnotationOrigin: "Service/default/hello"}}},
	}}
	for _, c2 := range []struct {
		of   types.NamespacedName
		want string
	}{
		{types.NamespacedName{Namespace: "prod-eu", Name: "web"}, "The events of LoadBalancer prod-eu/web may not be read: who asks needs the right to list events.events.k8s.io in namespace prod-eu.\n"},
		{made, ""},
	} {
		o.EventsHidden = nil
		if err := readEvents(t.Context(), c, kindLoadBalancer, c2.of, o); err != nil {
			t.Fatal(err)
		}
		e := ExplainLoadBalancer(o, c2.of, nil)
		var out strings.Builder
		p := &printer{w: &out}
		e.writeEvents(p)
		if out.String() != c2.want {
			t.Errorf("%s: %q", c2.of, out.String())
		}
	}
}
