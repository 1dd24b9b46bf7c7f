package controller_test

import (
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/config/rbac"
	"fairlead.dev/fairlead/internal/app"
	rules "fairlead.dev/fairlead/internal/endpoint"
	"fairlead.dev/fairlead/internal/testkit"
	"fairlead.dev/fairlead/internal/testkit/kubetest"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// clusterCRD is Cluster API's own CRD of Clusters, from its module.
func clusterCRD(t *testing.T) *unstructured.Unstructured {
	t.Helper()
	return clusterAPICRD(t, "clusters")
}

// clusterAPICRD is the CRD of one of Cluster API's own kinds, by its plural.
func clusterAPICRD(t *testing.T, kinds string) *unstructured.Unstructured {
	t.Helper()
	u, err := testkit.ClusterAPICRD(t.Context(), kinds)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func (h *hub) newCluster(name string, endpoint map[string]any) *unstructured.Unstructured {
	spec := map[string]any{"controlPlaneRef": map[string]any{"apiGroup": "controlplane.cluster.x-k8s.io", "kind": "KubeadmControlPlane", "name": name}}
	if endpoint != nil {
		spec["controlPlaneEndpoint"] = endpoint
	}
	return object("cluster.x-k8s.io/v1beta2", "Cluster", h.name, name, map[string]any{"spec": spec})
}

func (h *hub) newEndpoint(name, cluster, host string, port int32) *clusterv1.ClusterEndpoint {
	return &clusterv1.ClusterEndpoint{
		ObjectMeta: metav1.ObjectMeta{Namespace: h.name, Name: name},
		Spec:       clusterv1.ClusterEndpointSpec{Cluster: cluster, Host: host, Port: port, Type: clusterv1.ClusterEndpointExternalControlPlane},
	}
}

// shows waits until a Cluster's endpoint is host:port.
func (h *hub) shows(c *unstructured.Unstructured, want string) {
	h.t.Helper()
	wait(h, c, "endpoint "+want, func(c *unstructured.Unstructured) error {
		host, _, _ := unstructured.NestedString(c.Object, "spec", "controlPlaneEndpoint", "host")
		port, _, _ := unstructured.NestedInt64(c.Object, "spec", "controlPlaneEndpoint", "port")
		if got := fmt.Sprintf("%s:%d", host, port); got != want {
			return fmt.Errorf("it has %s", got)
		}
		return nil
	})
}

// surfaced waits for the condition Surfaced of a ClusterEndpoint's present generation, as status/reason, and returns its message.
func (h *hub) surfaced(e *clusterv1.ClusterEndpoint, want string) string {
	h.t.Helper()
	message := ""
	wait(h, e, "Surfaced="+want, func(e *clusterv1.ClusterEndpoint) error {
		c := meta.FindStatusCondition(e.Status.Conditions, clusterv1.ConditionSurfaced)
		if c != nil && c.ObservedGeneration != e.Generation {
			return fmt.Errorf("it speaks of generation %d, not %d", c.ObservedGeneration, e.Generation)
		}
		if c != nil {
			message = c.Message
		}
		return condition(e.Status.Conditions, "Surfaced="+want)
	})
	return message
}

// ClusterEndpoints surface on Clusters of Cluster API's own kind, by the rules of the proposal for flexible managed endpoints.
func TestClusterEndpoints(t *testing.T) {
	h := newHub(t)
	h.name = "endpoints"
	h.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: h.name}})
	stop := h.manager(app.LeaderElection{})

	// A hub without Cluster API says so; when that comes, the endpoint surfaces by itself.
	early := h.newEndpoint("from-foo", "scenario-1", "my-cluster-1234567890.region.elb.amazonaws.com", 1234)
	h.create(early)
	h.surfaced(early, "False/ClusterNotFound")
	h.create(clusterCRD(t))
	first := h.newCluster("scenario-1", nil)
	h.eventually("a Cluster to be created", func(ctx ctx) error { return h.api.Create(ctx, first) })
	kubetest.Eventually(t, time.Minute+soon, "the endpoint to surface", func(ctx ctx) error {
		if err := h.api.Get(ctx, client.ObjectKeyFromObject(early), early); err != nil {
			return err
		}
		return condition(early.Status.Conditions, "Surfaced=True")
	})
	h.shows(first, "my-cluster-1234567890.region.elb.amazonaws.com:1234")

	// "If there is the spec.ControlPlaneEndpoint on the Cluster object but not a corresponding ClusterEndpoint CR, the CR must be created."
	legacy := h.newCluster("legacy", map[string]any{"host": "10.40.85.102", "port": int64(1234)})
	h.create(legacy)
	mirror := h.newEndpoint("legacy", "legacy", "", 0)
	h.surfaced(mirror, "True/Surfaced")
	if o := mirror.OwnerReferences; mirror.Spec.Host != "10.40.85.102" || len(o) != 1 || o[0].UID != legacy.GetUID() || mirror.Labels[clusterv1.ClusterNameLabel] != "legacy" {
		t.Errorf("the generated ClusterEndpoint is %+v", mirror)
	}
	h.change(legacy, func(o client.Object) {
		if err := unstructured.SetNestedField(o.(*unstructured.Unstructured).Object, "10.40.85.103", "spec", "controlPlaneEndpoint", "host"); err != nil {
			t.Error(err)
		}
	})
	wait(h, mirror, "to follow the Cluster", func(e *clusterv1.ClusterEndpoint) error {
		if e.Spec.Host != "10.40.85.103" {
			return fmt.Errorf("host %s", e.Spec.Host)
		}
		return nil
	})

	// "If both are present, the value from the ClusterEndpoint CRD must take precedence", and the generated one goes.
	// Whether it is in use can't be told without a right that only a hub of Cluster API gets: it counts as in use until then.
	own := h.newEndpoint("own", "legacy", "api.example.com", 6443)
	h.create(own)
	h.surfaced(own, "False/EndpointConflict")
	h.shows(legacy, "10.40.85.103:1234")
	unread := h.servicesUnread()
	if err := rbac.InstallClusterAPI(t.Context(), h.control.RESTConfig()); err != nil {
		t.Fatal(err)
	}
	h.shows(legacy, "api.example.com:6443")
	h.surfaced(own, "True/Surfaced")
	h.gone(mirror)

	// Once a kubeconfig was made from it, another one is written only if somebody says that it is meant.
	h.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: h.name, Name: "legacy-kubeconfig"}})
	h.change(own, func(o client.Object) { o.(*clusterv1.ClusterEndpoint).Spec.Host = "other.example.com" })
	message := h.surfaced(own, "False/EndpointConflict")
	for _, both := range []string{"api.example.com:6443", "other.example.com:6443"} {
		if !strings.Contains(message, both) {
			t.Errorf("%q doesn't name %s", message, both)
		}
	}
	h.shows(legacy, "api.example.com:6443")
	h.change(legacy, func(o client.Object) {
		o.SetAnnotations(map[string]string{clusterv1.AcceptEndpointAnnotation: "other.example.com:6443"})
	})
	h.shows(legacy, "other.example.com:6443")
	h.surfaced(own, "True/Surfaced")

	// A Cluster that is deleted and made again before its mirror is collected as garbage inherits no endpoint of it.
	again := h.newCluster("again", map[string]any{"host": "dead.example.com", "port": int64(6443)})
	h.create(again)
	dead := h.newEndpoint("again", "again", "", 0)
	h.surfaced(dead, "True/Surfaced")
	if err := h.api.Delete(t.Context(), again, client.PropagationPolicy(metav1.DeletePropagationOrphan)); err != nil {
		t.Fatal(err)
	}
	h.surfaced(dead, "False/ClusterNotFound")
	again = h.newCluster("again", nil)
	h.create(again)
	h.gone(dead)
	h.shows(again, ":0")

	// Of several the primary, when somebody has said which; and nothing at all while the Cluster is paused.
	paused := h.newCluster("paused", nil)
	paused.SetAnnotations(map[string]string{"cluster.x-k8s.io/paused": ""})
	a, b := h.newEndpoint("a", "paused", "a.example.com", 6443), h.newEndpoint("b", "paused", "b.example.com", 6443)
	h.create(paused, a)
	h.surfaced(a, "False/Pending")
	h.create(b)
	h.surfaced(b, "False/Pending")
	h.change(paused, func(o client.Object) { o.SetAnnotations(nil) })
	h.surfaced(a, "False/NoPrimary")
	h.surfaced(b, "False/NoPrimary")
	h.change(b, func(o client.Object) { o.(*clusterv1.ClusterEndpoint).Spec.Primary = true })
	h.shows(paused, "b.example.com:6443")
	h.surfaced(b, "True/Surfaced")
	h.surfaced(a, "False/NotPrimary")

	patches := h.endpointMistakes()
	maps.Copy(patches, unread.follows())
	maps.Copy(patches, map[string]int{"scenario-1": 1, "legacy": 2, "paused": 1, "again": 0})
	for name := range h.infraClustersAreTold() {
		patches[name] = 1
	}
	maps.Copy(patches, h.publishes(stop))
	h.endpointRights(patches)
}

// infraClustersAreTold has an InfraCluster of each kind that must be told, whose own endpoint is switched off, and returns the
// names of their Clusters.
func (h *hub) infraClustersAreTold() map[string]bool {
	h.t.Helper()
	names := map[string]bool{}
	for _, push := range rules.Pushes() {
		if push.Policy != rules.Tell || push.Kind == "AWSCluster" { // which endpointMistakes had told
			continue
		}
		name := strings.ToLower(push.Kind)
		names[name] = true
		h.create(h.infraClusterCRD(push.Group, push.Kind))
		spec := map[string]any{}
		for _, s := range push.Needs {
			value := any(s.Must)
			if b, err := strconv.ParseBool(s.Must); err == nil {
				value = b
			}
			if err := unstructured.SetNestedField(spec, value, strings.Split(strings.TrimPrefix(s.Field, "spec."), ".")...); err != nil {
				h.t.Fatal(err)
			}
		}
		infra := object(push.Group+"/v1beta1", push.Kind, h.name, name, map[string]any{"spec": spec})
		h.eventually(push.Kind+" to be created", func(ctx ctx) error { return h.api.Create(ctx, infra) })
		cluster := h.newCluster(name, nil)
		if err := unstructured.SetNestedMap(cluster.Object, map[string]any{"apiGroup": push.Group, "kind": push.Kind, "name": name}, "spec", "infrastructureRef"); err != nil {
			h.t.Fatal(err)
		}
		e := h.newEndpoint(name, name, name+".example.com", 6443)
		h.create(cluster, e)
		h.shows(cluster, name+".example.com:6443")
		h.shows(infra, name+".example.com:6443")
		wait(h, e, "its InfraCluster told", func(e *clusterv1.ClusterEndpoint) error {
			return condition(e.Status.Conditions, clusterv1.ConditionInfraClusterTold+"=True")
		})
	}
	return names
}

// endpointRights: the manager was denied nothing, used each right to write that its roles for Cluster API give, and patched
// each Cluster as often as its endpoint was to change.
func (h *hub) endpointRights(patches map[string]int) {
	h.t.Helper()
	all, _, err := h.control.Writes(0)
	if err != nil {
		h.t.Fatal(err)
	}
	used, got := map[string]bool{}, map[string]int{}
	for _, w := range all {
		if !strings.HasSuffix(w.User, ":fairlead-manager") {
			continue
		}
		if w.StatusCode == http.StatusForbidden {
			h.t.Errorf("the manager may not %s %s %s", w.Verb, w.Resource, w.Name)
		}
		used[w.Verb+" "+w.Resource] = true
		if w.Resource == "clusters" && w.StatusCode == http.StatusOK {
			got[w.Name]++
		}
	}
	for name, n := range patches {
		if got[name] != n {
			h.t.Errorf("Cluster %s was written %d times, not %d", name, got[name], n)
		}
	}
	var may []rbacv1.PolicyRule
	for _, name := range []string{"fairlead-manager-cluster-api", "fairlead-cluster-api"} {
		role := &rbacv1.ClusterRole{}
		if err := h.api.Get(h.t.Context(), client.ObjectKey{Name: name}, role); err != nil {
			h.t.Fatal(err)
		}
		may = append(may, role.Rules...)
	}
	for _, rule := range may {
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				if what := verb + " " + resource; verb != "get" && verb != "list" && verb != "watch" && !used[what] {
					h.t.Errorf("the manager may %s, and never does", what)
				}
			}
		}
	}
}
