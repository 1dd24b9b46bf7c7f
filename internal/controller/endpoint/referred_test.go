package endpoint

import (
	"context"
	"errors"
	"strings"
	"testing"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const (
	infrastructure = "infrastructure.cluster.x-k8s.io"
	controlPlane   = "controlplane.cluster.x-k8s.io"
)

// others are the kinds that Clusters refer to here.
func others() []schema.GroupVersionKind {
	var out []schema.GroupVersionKind
	for _, kind := range []string{"Metal3Cluster", "AWSCluster", "DevCluster", "GCPCluster", "FooCluster"} {
		out = append(out, schema.GroupVersionKind{Group: infrastructure, Version: "v1beta1", Kind: kind})
	}
	return append(out, schema.GroupVersionKind{Group: controlPlane, Version: "v1beta2", Kind: "KubeadmControlPlane"})
}

// an object of theirs; host "": without an endpoint.
func theirs(group, version, kind, host string, change ...func(*unstructured.Unstructured)) *unstructured.Unstructured {
	o := clusterWith(host, 6443, change...)
	o.SetAPIVersion(group + "/" + version)
	o.SetKind(kind)
	o.SetName("mine")
	o.SetUID("its-uid")
	return o
}

func refersTo(field, group, kind string) func(*unstructured.Unstructured) {
	return func(c *unstructured.Unstructured) {
		c.Object["spec"].(map[string]any)[field] = map[string]any{"apiGroup": group, "kind": kind, "name": "mine"}
	}
}

func metal(host string, change ...func(*unstructured.Unstructured)) *unstructured.Unstructured {
	return theirs(infrastructure, "v1beta1", "Metal3Cluster", host, change...)
}

// "The ClusterEndpoint CR must have an owner reference to the object from which it is originated."
func TestWhatIsGeneratedIsOwnedByWhatItCameFrom(t *testing.T) {
	kcp := theirs(controlPlane, "v1beta2", "KubeadmControlPlane", "api.example.com")
	for name, c := range map[string]struct {
		cluster *unstructured.Unstructured
		other   client.Object
		owner   string
		reason  string
	}{
		"the InfraCluster":                    {clusterWith("api.example.com", 6443, refersTo("infrastructureRef", infrastructure, "Metal3Cluster")), metal("api.example.com"), "Metal3Cluster/mine/its-uid", clusterv1.ReasonLegacyEndpoint},
		"an InfraCluster of an unknown kind":  {clusterWith("api.example.com", 6443, refersTo("infrastructureRef", infrastructure, "FooCluster")), theirs(infrastructure, "v1beta1", "FooCluster", "api.example.com"), "FooCluster/mine/its-uid", clusterv1.ReasonLegacyEndpoint},
		"an InfraCluster that says another":   {clusterWith("api.example.com", 6443, refersTo("infrastructureRef", infrastructure, "Metal3Cluster")), metal("other.example.com"), "Cluster/my-cluster/cluster-uid", clusterv1.ReasonSurfaced},
		"the control plane":                   {clusterWith("api.example.com", 6443, refersTo("controlPlaneRef", controlPlane, "KubeadmControlPlane")), kcp, "KubeadmControlPlane/mine/its-uid", clusterv1.ReasonSurfaced},
		"the Cluster":                         {clusterWith("api.example.com", 6443), metal("api.example.com"), "Cluster/my-cluster/cluster-uid", clusterv1.ReasonSurfaced},
		"the Cluster, whose kind is not here": {clusterWith("api.example.com", 6443, refersTo("infrastructureRef", "example.com", "BarCluster")), kcp, "Cluster/my-cluster/cluster-uid", clusterv1.ReasonSurfaced},
	} {
		t.Run(name, func(t *testing.T) {
			r, hub := stage(t, interceptor.Funcs{}, c.cluster, c.other)
			result, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: key})
			if err != nil || result.RequeueAfter > 0 {
				t.Fatal(result, err)
			}
			e := endpointAt(key.Name, "", "")
			if err := hub.Get(t.Context(), client.ObjectKeyFromObject(e), e); err != nil {
				t.Fatal(err)
			}
			if o := e.OwnerReferences; len(o) != 1 || strings.Join([]string{o[0].Kind, o[0].Name, string(o[0].UID)}, "/") != c.owner {
				t.Errorf("it is owned by %+v", o)
			}
			said := meta.FindStatusCondition(e.Status.Conditions, clusterv1.ConditionSurfaced)
			if said == nil || said.Status != metav1.ConditionTrue || said.Reason != c.reason || strings.Contains(said.Message, "mine") != (c.reason == clusterv1.ReasonLegacyEndpoint) {
				t.Errorf("it says %+v", said)
			}
			if meta.FindStatusCondition(e.Status.Conditions, clusterv1.ConditionInfraClusterTold) != nil {
				t.Error("somebody is told, though nobody asked for it")
			}
		})
	}
}

// An InfraCluster that waits for an endpoint is told it, if somebody made a ClusterEndpoint and nothing stands against it.
func TestInfraClustersAreTold(t *testing.T) {
	byVersion := func(c *unstructured.Unstructured) { // as Cluster API's v1beta1 refers
		c.Object["spec"].(map[string]any)["infrastructureRef"] = map[string]any{"apiVersion": infrastructure + "/v1beta1", "kind": "Metal3Cluster", "name": "mine"}
	}
	to := func(kind string) *unstructured.Unstructured {
		return clusterWith("", 0, refersTo("infrastructureRef", infrastructure, kind))
	}
	annotated := func(o *unstructured.Unstructured) {
		o.SetAnnotations(map[string]string{clusterv1.PausedAnnotation: ""})
	}
	disabled := func(o *unstructured.Unstructured) {
		o.Object["spec"] = map[string]any{"controlPlaneLoadBalancer": map[string]any{"loadBalancerType": "disabled"}}
	}
	denied := interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, k client.ObjectKey, o client.Object, opts ...client.GetOption) error {
		if o.GetObjectKind().GroupVersionKind().Group == infrastructure {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "metal3clusters"}, k.Name, errors.New("no"))
		}
		return c.Get(ctx, k, o, opts...)
	}}
	const told = "new.example.com"
	for name, c := range map[string]struct {
		cluster, infra *unstructured.Unstructured
		hub            interceptor.Funcs
		host           string // what it has then
		says           string // status/reason; "": nothing
		again          bool
	}{
		"it waits":                        {to("Metal3Cluster"), metal(""), interceptor.Funcs{}, told, "True/" + clusterv1.ReasonAsExpected, false},
		"by its apiVersion":               {clusterWith("", 0, byVersion), metal(""), interceptor.Funcs{}, told, "True/" + clusterv1.ReasonAsExpected, false},
		"its own switched off":            {to("AWSCluster"), theirs(infrastructure, "v1beta1", "AWSCluster", "", disabled), interceptor.Funcs{}, told, "True/" + clusterv1.ReasonAsExpected, false},
		"its own not switched off":        {to("AWSCluster"), theirs(infrastructure, "v1beta1", "AWSCluster", ""), interceptor.Funcs{}, "", "False/" + clusterv1.ReasonInfraCompetes, true},
		"it always has its own":           {to("GCPCluster"), theirs(infrastructure, "v1beta1", "GCPCluster", ""), interceptor.Funcs{}, "", "False/" + clusterv1.ReasonInfraCompetes, false},
		"it has another":                  {to("Metal3Cluster"), metal("other.example.com"), interceptor.Funcs{}, "other.example.com", "False/" + clusterv1.ReasonInfraDiffers, true},
		"it is paused":                    {to("Metal3Cluster"), metal("", annotated), interceptor.Funcs{}, "", "False/" + clusterv1.ReasonPending, true},
		"it isn't there yet":              {to("Metal3Cluster"), theirs(infrastructure, "v1beta1", "FooCluster", ""), interceptor.Funcs{}, "", "False/" + clusterv1.ReasonInfraNotFound, true},
		"it can't be read":                {to("Metal3Cluster"), metal(""), denied, "", "False/" + clusterv1.ReasonInfraNotFound, true},
		"it must not be told":             {to("DevCluster"), theirs(infrastructure, "v1beta1", "DevCluster", ""), interceptor.Funcs{}, "", "", false},
		"nothing is known of its kind":    {to("FooCluster"), theirs(infrastructure, "v1beta1", "FooCluster", ""), interceptor.Funcs{}, "", "", false},
		"the Cluster has no InfraCluster": {clusterWith("", 0), metal(""), interceptor.Funcs{}, "", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			e := endpointAt("mine", key.Name, told)
			r, hub := stage(t, c.hub, c.cluster, c.infra, e)
			var last reconcile.Result
			for range 3 { // the Cluster first; what is written wakes us
				var err error
				if last, err = r.Reconcile(t.Context(), reconcile.Request{NamespacedName: key}); err != nil {
					t.Fatal(err)
				}
			}
			if (last.RequeueAfter > 0) != c.again {
				t.Errorf("looked at again after %s", last.RequeueAfter)
			}
			infra := theirs(infrastructure, "v1beta1", c.infra.GetKind(), "")
			if err := hub.Get(t.Context(), client.ObjectKeyFromObject(infra), infra); err != nil && !apierrors.IsForbidden(err) {
				t.Fatal(err)
			}
			if got := endpointOf(infra); got.Host != c.host || got.Whole() != (c.host != "") {
				t.Errorf("it has %+v", got)
			}
			if err := hub.Get(t.Context(), client.ObjectKeyFromObject(e), e); err != nil {
				t.Fatal(err)
			}
			said := meta.FindStatusCondition(e.Status.Conditions, clusterv1.ConditionInfraClusterTold)
			switch {
			case said == nil && c.says != "":
				t.Error("nothing is said")
			case said != nil && (string(said.Status)+"/"+said.Reason != c.says || (said.Message == "") != (said.Status == metav1.ConditionTrue)):
				t.Errorf("it says %+v", said)
			}
			if !meta.IsStatusConditionTrue(e.Status.Conditions, clusterv1.ConditionSurfaced) {
				t.Errorf("the Cluster isn't told: %+v", e.Status.Conditions)
			}
		})
	}
}
