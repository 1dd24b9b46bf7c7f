package endpoint

import (
	"fmt"
	"strings"
	"testing"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/member"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// heard are the events about Clusters.
type heard []string

func (h *heard) Event(_ *unstructured.Unstructured, _, reason, message string) {
	*h = append(*h, reason)
	if !strings.HasSuffix(message, ".") {
		*h = append(*h, message)
	}
}

// One annotation of a Cluster makes the LoadBalancer of its control plane.
func TestTheAnnotationMakesALoadBalancer(t *testing.T) {
	asks := func(class string, more ...string) func(*unstructured.Unstructured) {
		return func(c *unstructured.Unstructured) {
			a := map[string]string{clusterv1.ClassAnnotation: class}
			for i := 0; i < len(more); i += 2 {
				a[more[i]] = more[i+1]
			}
			c.SetAnnotations(a)
		}
	}
	listens := func(c *unstructured.Unstructured) {
		c.Object["spec"].(map[string]any)["clusterNetwork"] = map[string]any{"apiServerPort": int64(8443)}
	}
	mirror := endpointAt(key.Name, key.Name, "192.0.2.9")
	mirror.Annotations = map[string]string{clusterv1.GeneratedFromAnnotation: "LoadBalancer", clusterv1.GeneratedForAnnotation: "cluster-uid"}
	for name, c := range map[string]struct {
		objects []client.Object
		want    string // name, class, port→target, endpoint, addresses
		events  string
	}{
		"it is made":             {[]client.Object{clusterWith("", 0, asks("edge"))}, "my-cluster-api edge 6443→6443 none []", EventMade},
		"under its name":         {[]client.Object{clusterWith("", 0, asks("edge", member.NameAnnotation, "mine"))}, "mine edge 6443→6443 none []", EventMade},
		"with the endpoint":      {[]client.Object{clusterWith("api.example.com", 443, asks("edge"))}, "my-cluster-api edge 443→6443 api.example.com:443 []", EventMade},
		"with the server's port": {[]client.Object{clusterWith("", 0, asks("edge"), listens)}, "my-cluster-api edge 8443→8443 none []", EventMade},
		"at an address of another's": {
			[]client.Object{clusterWith("192.0.2.9", 6443, asks("edge"))}, "my-cluster-api edge 6443→6443 192.0.2.9:6443 []", EventMade,
		},
		"again, where it was": {
			[]client.Object{clusterWith("192.0.2.9", 6443, asks("edge")), mirror}, "my-cluster-api edge 6443→6443 192.0.2.9:6443 [192.0.2.9]", EventMade,
		},
		"not while paused": {[]client.Object{clusterWith("", 0, asks("edge", clusterv1.PausedAnnotation, ""))}, "", ""},
		"not in a Tenant's namespace": {
			[]client.Object{clusterWith("", 0, asks("edge")), &v1alpha1.Tenant{ObjectMeta: metav1.ObjectMeta{Name: key.Namespace}}}, "", EventNotMade,
		},
		"not twice": {
			[]client.Object{clusterWith("", 0, asks("edge")), balancer("my-cluster-api")}, "my-cluster-api edge 53→0 none []", "",
		},
		"not over one of another class": {
			[]client.Object{clusterWith("", 0, asks("other")), balancer("my-cluster-api")}, "my-cluster-api edge 53→0 none []", EventOtherClass,
		},
		"not over another Cluster's": {
			[]client.Object{clusterWith("", 0, asks("edge")), balancer("my-cluster-api", func(l *clusterv1.LoadBalancer) { l.Spec.ClusterName = "other" })},
			"my-cluster-api edge 53→0 none []", EventNotMade,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var events heard
			r, hub := stage(t, interceptor.Funcs{}, c.objects...)
			r.Events = &events
			rest(t, r)
			list := &clusterv1.LoadBalancerList{}
			if err := hub.List(t.Context(), list); err != nil {
				t.Fatal(err)
			}
			got := ""
			for i := range list.Items {
				l := &list.Items[i]
				host := "none"
				if h := hostPort(l.Spec.Endpoint); h.Whole() {
					host = h.String()
				}
				got += fmt.Sprintf("%s %s %d→%d %s %v", l.Name, l.Spec.ClassName, l.Spec.Ports[0].Port, l.Spec.Ports[0].TargetPort, host, l.Spec.Addresses)
				if o := l.OwnerReferences; c.events == EventMade && (len(o) != 1 || o[0].UID != "cluster-uid" || l.Spec.Role != clusterv1.RoleControlPlane || l.Spec.ClusterName != key.Name) {
					t.Errorf("it is %+v", l)
				}
			}
			if got != c.want {
				t.Errorf("there is %q, not %q", got, c.want)
			}
			if said := strings.Join(events, " "); said != c.events {
				t.Errorf("events %q, not %q", said, c.events)
			}
		})
	}
}
