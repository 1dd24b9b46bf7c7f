package endpoint

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	rules "fairlead.dev/fairlead/internal/endpoint"
	"fairlead.dev/fairlead/internal/member"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// frontName is that of the proposal's LoadBalancer.
const frontName = "my-cluster-control-plane-lb"

// names has an object name the LoadBalancer, as the proposal's loadBalancerRef does.
func names(o *unstructured.Unstructured) {
	o.SetAnnotations(map[string]string{member.NameAnnotation: frontName})
}

// balancer of the Cluster, with a port.
func balancer(name string, change ...func(*clusterv1.LoadBalancer)) *clusterv1.LoadBalancer {
	l := &clusterv1.LoadBalancer{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: name, UID: types.UID(name + "-uid"), Generation: 1},
		Spec: clusterv1.LoadBalancerSpec{
			ClassName: "edge", ClusterName: key.Name, Ports: []clusterv1.Port{{Protocol: clusterv1.ProtocolUDP, Port: 53}, {Protocol: clusterv1.ProtocolTCP, Port: 6443}},
		},
	}
	for _, f := range change {
		f(l)
	}
	return l
}

func onAddress(addresses ...string) func(*clusterv1.LoadBalancer) {
	return func(l *clusterv1.LoadBalancer) {
		for _, a := range addresses {
			l.Status.Addresses = append(l.Status.Addresses, clusterv1.LoadBalancerAddress{Type: clusterv1.AddressTypeIP, Value: a})
		}
	}
}

// served: its frontend exists; none of its members need be healthy.
func served(l *clusterv1.LoadBalancer) {
	if len(l.Status.Addresses) == 0 {
		onAddress("192.0.2.7")(l)
	}
	meta.SetStatusCondition(&l.Status.Conditions, metav1.Condition{Type: clusterv1.ConditionProgrammed, Status: metav1.ConditionTrue, Reason: "Programmed", ObservedGeneration: l.Generation})
}

func at(host string, port int32) func(*clusterv1.LoadBalancer) {
	return func(l *clusterv1.LoadBalancer) { l.Spec.Endpoint = &clusterv1.Endpoint{Host: host, Port: port} }
}

func role(r clusterv1.Role) func(*clusterv1.LoadBalancer) {
	return func(l *clusterv1.LoadBalancer) { l.Spec.Role = r }
}

// rest reconciles until nothing is written any more.
func rest(t *testing.T, r *Reconciler) reconcile.Result {
	t.Helper()
	var out reconcile.Result
	for range 4 {
		var err error
		if out, err = r.Reconcile(t.Context(), reconcile.Request{NamespacedName: key}); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// shows are the Cluster's endpoint, the ClusterEndpoint's with source, owner and type, and of each LoadBalancer role, endpoint and condition.
func shows(t *testing.T, hub client.Client) []string {
	t.Helper()
	c := clusterWith("", 0)
	if err := hub.Get(t.Context(), key, c); client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	short := func(h rules.HostPort) string {
		if h.Empty() {
			return "-"
		}
		return h.String()
	}
	out := []string{"Cluster " + short(endpointOf(c))}
	all := &clusterv1.ClusterEndpointList{}
	fronts := &clusterv1.LoadBalancerList{}
	for _, list := range []client.ObjectList{all, fronts} {
		if err := hub.List(t.Context(), list); err != nil {
			t.Fatal(err)
		}
	}
	for i := range all.Items {
		e := &all.Items[i]
		of := read(e)
		text := "ClusterEndpoint " + short(of.HostPort)
		if of.Generated {
			text += fmt.Sprintf(" from %s of %s", of.Source, e.OwnerReferences[0].Kind)
		}
		if e.Spec.Type != clusterv1.ClusterEndpointAPIServer || of.Generated && e.Labels[clusterv1.ClusterNameLabel] != key.Name {
			t.Errorf("ClusterEndpoint %+v", e)
		}
		out = append(out, text)
	}
	for i := range fronts.Items {
		l := &fronts.Items[i]
		text := fmt.Sprintf("%s %s %s", l.Name, l.Spec.Role, short(hostPort(l.Spec.Endpoint)))
		if said := meta.FindStatusCondition(l.Status.Conditions, clusterv1.ConditionEndpointPublished); said != nil {
			text += " " + said.Reason
			if (said.Message == "") != (said.Reason == clusterv1.ReasonPublished) || said.ObservedGeneration != l.Generation {
				t.Errorf("%s says %+v", l.Name, said)
			}
		}
		out = append(out, text)
	}
	return out
}

func wantShown(t *testing.T, hub client.Client, want ...string) {
	t.Helper()
	if got := shows(t, hub); !slices.Equal(got, want) {
		t.Errorf("there is\n%s\nnot\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

const (
	given = "test.example.com"
	fill  = frontName + " ControlPlane "
)

// What a LoadBalancer publishes beside the scenarios of the proposal, which TestClusterEndpoints plays on an API server, and what not.
func TestWhatIsPublished(t *testing.T) {
	plane := role(clusterv1.RoleControlPlane)
	deleted := func(l *clusterv1.LoadBalancer) {
		l.DeletionTimestamp, l.Finalizers = &metav1.Time{Time: metav1.Now().Time}, []string{clusterv1.Finalizer}
	}
	pausedNow := func(c *unstructured.Unstructured) {
		c.SetAnnotations(map[string]string{clusterv1.PausedAnnotation: ""})
	}
	former := func(l *clusterv1.LoadBalancer) {
		meta.SetStatusCondition(&l.Status.Conditions, metav1.Condition{Type: clusterv1.ConditionEndpointPublished, Status: metav1.ConditionTrue, Reason: "Published", ObservedGeneration: 1})
	}
	for name, c := range map[string]struct {
		objects []client.Object
		want    []string
	}{
		// "If cp.Spec.Endpoint is empty, return early and wait for triggered re-reconciliation"
		"not yet granted": {[]client.Object{clusterWith("", 0, names), balancer(frontName)}, []string{"Cluster -", fill + "- Pending"}},
		"not yet served":  {[]client.Object{clusterWith("", 0, names), balancer(frontName, onAddress("192.0.2.7"))}, []string{"Cluster -", fill + "- Pending"}},
		"equal, spelt otherwise": {
			[]client.Object{clusterWith(given, 443, names), balancer(frontName, served, at("TEST.example.com", 443))},
			[]string{"Cluster test.example.com:443", "ClusterEndpoint test.example.com:443 from Cluster of Cluster", fill + "TEST.example.com:443 Published"},
		},
		"an alternate one": {
			[]client.Object{clusterWith(given, 443, names), balancer(frontName, served, at("other.example.com", 443), func(l *clusterv1.LoadBalancer) {
				l.Spec.AlternateEndpoints = []clusterv1.Endpoint{{Host: given, Port: 443}}
			})},
			[]string{"Cluster test.example.com:443", "ClusterEndpoint test.example.com:443 from Cluster of Cluster", fill + "other.example.com:443 Published"},
		},
		"a worker's": {[]client.Object{clusterWith("", 0), balancer("workers", served, role(clusterv1.RoleWorkload))}, []string{"Cluster -", "workers Workload -"}},
		"of no role": {[]client.Object{clusterWith("", 0), balancer("workers", served)}, []string{"Cluster -", "workers  -"}},
		"of no role any more": {
			[]client.Object{clusterWith("", 0), balancer("workers", served, role(clusterv1.RoleWorkload), former)}, []string{"Cluster -", "workers Workload -"},
		},
		"of another Cluster": {
			[]client.Object{clusterWith("", 0, names), balancer(frontName, served, func(l *clusterv1.LoadBalancer) { l.Spec.ClusterName = "other" })},
			[]string{"Cluster -", frontName + "  -"},
		},
		"of no Cluster, and named": {
			[]client.Object{clusterWith("", 0, names), balancer(frontName, served, func(l *clusterv1.LoadBalancer) { l.Spec.ClusterName = "" })},
			[]string{"Cluster 192.0.2.7:6443", "ClusterEndpoint 192.0.2.7:6443 from LoadBalancer of LoadBalancer", fill + "192.0.2.7:6443 Published"},
		},
		"its default port": {
			[]client.Object{clusterWith("", 0, names), balancer(frontName, served, plane, func(l *clusterv1.LoadBalancer) { l.Spec.Ports = nil })},
			[]string{"Cluster 192.0.2.7:6443", "ClusterEndpoint 192.0.2.7:6443 from LoadBalancer of LoadBalancer", fill + "192.0.2.7:6443 Published"},
		},
		"in an older generation": {
			[]client.Object{clusterWith("", 0, names), balancer(frontName, served, func(l *clusterv1.LoadBalancer) { l.Generation = 2 })},
			[]string{"Cluster -", fill + "- Pending"},
		},
		"being deleted":   {[]client.Object{clusterWith("", 0, names), balancer(frontName, served, deleted)}, []string{"Cluster -", frontName + "  -"}},
		"paused":          {[]client.Object{clusterWith("", 0, pausedNow), balancer(frontName, served, plane)}, []string{"Cluster -", fill + "- Pending"}},
		"without Cluster": {[]client.Object{balancer(frontName, served, plane)}, []string{"Cluster -", fill + "- ClusterNotFound"}},
		"half an endpoint": {[]client.Object{clusterWith("", 443, func(c *unstructured.Unstructured) {
			c.Object["spec"] = map[string]any{"controlPlaneEndpoint": map[string]any{"port": int64(443)}}
		}), balancer(frontName, served, plane)}, []string{"Cluster :443", fill + "- EndpointIncomplete"}},
		"two, one of them named": {
			[]client.Object{clusterWith("", 0, names), balancer(frontName, served), balancer("internal", served, plane, onAddress("10.0.0.1"))},
			[]string{"Cluster 192.0.2.7:6443", "ClusterEndpoint 192.0.2.7:6443 from LoadBalancer of LoadBalancer", "internal ControlPlane - NotPrimary", fill + "192.0.2.7:6443 Published"},
		},
		"two, none of them named": {
			[]client.Object{clusterWith("", 0), balancer(frontName, served, plane), balancer("internal", served, plane)},
			[]string{"Cluster -", "internal ControlPlane - NoPrimary", fill + "- NoPrimary"},
		},
		"two, and the Cluster has one's": {
			[]client.Object{clusterWith("192.0.2.7", 6443), balancer(frontName, served, plane), balancer("internal", onAddress("10.0.0.1"), served, plane)},
			[]string{"Cluster 192.0.2.7:6443", "ClusterEndpoint 192.0.2.7:6443 from LoadBalancer of LoadBalancer", "internal ControlPlane - NotPrimary", fill + "192.0.2.7:6443 Published"},
		},
		"another that isn't there is named": {
			[]client.Object{clusterWith("", 0, names), balancer("internal", served, plane)}, []string{"Cluster -", "internal ControlPlane - NotPrimary"},
		},
		"an address of somebody else's": {
			[]client.Object{clusterWith("203.0.113.1", 6443, names), balancer(frontName, served)},
			[]string{"Cluster 203.0.113.1:6443", "ClusterEndpoint 203.0.113.1:6443 from Cluster of Cluster", fill + "203.0.113.1:6443 EndpointElsewhere"},
		},
		"before a ClusterEndpoint of somebody's": {
			[]client.Object{clusterWith("", 0, names), endpointAt("mine", key.Name, "new.example.com"), balancer(frontName, served)},
			[]string{"Cluster new.example.com:6443", "ClusterEndpoint new.example.com:6443", fill + "new.example.com:6443 Published"},
		},
		"in a Tenant's namespace": {
			[]client.Object{clusterWith("", 0, names), &v1alpha1.Tenant{ObjectMeta: metav1.ObjectMeta{Name: key.Namespace}}, balancer(frontName, served)},
			[]string{"Cluster -", frontName + "  - NotSupported"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, hub := stage(t, interceptor.Funcs{}, c.objects...)
			again := rest(t, r)
			wantShown(t, hub, c.want...)
			if again.RequeueAfter > 0 != (name == "of no role") {
				t.Errorf("it is looked at again after %s", again.RequeueAfter)
			}
		})
	}
}

// What a cache shows that lags reaches no Cluster: the address may be somebody else's by now.
func TestWhatIsPublishedIsReadAgain(t *testing.T) {
	r, hub := stage(t, interceptor.Funcs{}, clusterWith("", 0, names), balancer(frontName, served))
	_, r.Reader = stage(t, interceptor.Funcs{}, clusterWith("", 0, names), balancer(frontName))
	if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: key}); !apierrors.IsConflict(err) {
		t.Fatalf("%v is no conflict", err)
	}
	wantShown(t, hub, "Cluster -", frontName+"  -")
}

// A LoadBalancer that is deleted leaves the Cluster's endpoint, and what is generated goes over to the Cluster.
func TestADeletedLoadBalancerLeavesTheEndpoint(t *testing.T) {
	l := balancer(frontName, served)
	r, hub := stage(t, interceptor.Funcs{}, clusterWith("", 0, names), l)
	rest(t, r)
	mirror := endpointAt(key.Name, key.Name, "")
	for _, o := range []client.Object{l, mirror} { // as garbage collection does
		if err := hub.Delete(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	rest(t, r)
	wantShown(t, hub, "Cluster 192.0.2.7:6443", "ClusterEndpoint 192.0.2.7:6443 from Cluster of Cluster")
}

// Nothing is written at rest, and a LoadBalancer wakes the Clusters that it is of, or that name it.
func TestLoadBalancersWakeTheirClusters(t *testing.T) {
	writes := 0
	count := interceptor.Funcs{Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
		writes++
		return c.Patch(ctx, o, p, opts...)
	}}
	bare := func(l *clusterv1.LoadBalancer) { l.Spec.ClusterName = "" }
	l := balancer(frontName, served, bare)
	r, _ := stage(t, count, clusterWith("", 0, names), l)
	wakes := func(l *clusterv1.LoadBalancer, want bool) {
		t.Helper()
		if got := r.OfLoadBalancer(t.Context(), l); (len(got) == 1 && got[0].NamespacedName == key) != want {
			t.Errorf("%s wakes %v", l.Name, got)
		}
	}
	wakes(l, false) // before the Cluster was looked at, which happens at the start
	rest(t, r)
	before := writes
	rest(t, r)
	if writes != before {
		t.Errorf("%d writes at rest", writes-before)
	}
	wakes(l, true)
	wakes(balancer("other", bare), false)
	wakes(balancer("other"), true)
	wakes(balancer("workers", role(clusterv1.RoleWorkload)), false)
	r.remember(key, "other")
	wakes(l, false)
	wakes(balancer("other", bare), true)
	r.gone(key)
	wakes(balancer("other", bare), false)
}
