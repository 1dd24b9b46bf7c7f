package providers_test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// writes of each provider's ServiceAccount: what the security model of the load balancer proposal has a provider write, and no more.
var writes = map[string][]string{
	"foo-provider": {
		"create events.k8s.io/events", "patch events.k8s.io/events",
		"patch infrastructure.cluster.x-k8s.io/fooloadbalancers", "patch infrastructure.cluster.x-k8s.io/fooloadbalancers/status",
	},
	"fks-provider": {
		"create /secrets", "patch /secrets",
		"create cluster.x-k8s.io/clusterendpoints", "patch cluster.x-k8s.io/clusterendpoints",
		"patch controlplane.cluster.x-k8s.io/fkscontrolplanes", "patch controlplane.cluster.x-k8s.io/fkscontrolplanes/status",
		"patch infrastructure.cluster.x-k8s.io/fksclusters", "patch infrastructure.cluster.x-k8s.io/fksclusters/status",
	},
}

// rarely used: an event that repeats; what changes after a move or a restore.
var rarely = map[string]bool{"patch events.k8s.io/events": true, "patch /secrets": true, "patch cluster.x-k8s.io/clusterendpoints": true}

// rights asks the API server of each kind that it serves whether a provider may write it, and tries some of it.
func rights(t *testing.T, h *hub) {
	h.namespace(t, "rights")
	there := map[string]*unstructured.Unstructured{}
	for kind, spec := range map[string]map[string]any{
		"cluster.x-k8s.io/v1beta1 LoadBalancer": {}, "fairlead.dev/v1alpha1 TargetGroup": {},
		"cluster.x-k8s.io/v1beta2 Cluster": {"controlPlaneRef": map[string]any{"apiGroup": "controlplane.cluster.x-k8s.io", "kind": "X", "name": "x"}},
	} {
		u := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
		version, name, _ := strings.Cut(kind, " ")
		u.SetAPIVersion(version)
		u.SetKind(name)
		u.SetNamespace("rights")
		u.SetName("x")
		h.create(t, u)
		there[kind] = u
	}
	for name, file := range map[string]string{"foo-provider": h.foo, "fks-provider": h.fks} {
		cfg, err := clientcmd.BuildConfigFromFlags("", file)
		if err != nil {
			t.Fatal(err)
		}
		cfg.QPS, cfg.Burst = -1, -1
		c, err := kubernetes.NewForConfig(cfg)
		if err != nil {
			t.Fatal(err)
		}
		_, lists, err := c.Discovery().ServerGroupsAndResources()
		if err != nil && !discovery.IsGroupDiscoveryFailedError(err) {
			t.Fatal(err)
		}
		allowed := map[string]bool{}
		for _, l := range lists {
			group, _, found := strings.Cut(l.GroupVersion, "/")
			if !found {
				group = ""
			}
			if group == "authorization.k8s.io" || group == "authentication.k8s.io" {
				continue // who one is, and what one may, everybody may ask
			}
			for _, r := range l.APIResources {
				for _, verb := range []string{"create", "update", "patch", "delete", "deletecollection"} {
					if may(t, c, verb, group, r.Name) {
						allowed[fmt.Sprintf("%s %s/%s", verb, group, r.Name)] = true
					}
				}
			}
		}
		if got := slices.Sorted(maps.Keys(allowed)); !slices.Equal(got, slices.Sorted(slices.Values(writes[name]))) {
			t.Errorf("%s may\n%s\nand should\n%s", name, strings.Join(got, "\n"), strings.Join(writes[name], "\n"))
		}
		theirs, err := client.New(cfg, client.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for kind, u := range there {
			for how, write := range map[string]func(*unstructured.Unstructured) error{
				"update": func(u *unstructured.Unstructured) error { return theirs.Update(t.Context(), u) },
				"patch": func(u *unstructured.Unstructured) error {
					return theirs.Patch(t.Context(), u, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"a":"b"}}}`)))
				},
				"write the status of": func(u *unstructured.Unstructured) error { return theirs.Status().Update(t.Context(), u) },
				"delete":              func(u *unstructured.Unstructured) error { return theirs.Delete(t.Context(), u) },
			} {
				if err := write(u.DeepCopy()); !apierrors.IsForbidden(err) {
					t.Errorf("%s tries to %s a %s: %v", name, how, kind, err)
				}
			}
		}
	}
}

func may(t *testing.T, c kubernetes.Interface, verb, group, resource string) bool {
	t.Helper()
	resource, subresource, _ := strings.Cut(resource, "/")
	review, err := c.AuthorizationV1().SelfSubjectAccessReviews().Create(t.Context(), &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: "rights", Verb: verb, Group: group, Resource: resource, Subresource: subresource,
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return review.Status.Allowed
}

// onlyTheirOwn: in all stories together the providers were denied nothing, and wrote what they are to write alone.
func onlyTheirOwn(t *testing.T, h *hub) {
	t.Helper()
	all, _, err := h.control.Writes(0)
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]map[string]bool{"foo-provider": {}, "fks-provider": {}}
	for _, w := range all {
		name := w.User[strings.LastIndex(w.User, ":")+1:]
		if used[name] == nil || w.Namespace == "rights" || w.Group == "authorization.k8s.io" {
			continue // there they were denied on purpose
		}
		if w.StatusCode == http.StatusForbidden {
			t.Errorf("%s may not %s %s %s", name, w.Verb, w.Resource, w.Name)
		}
		used[name][fmt.Sprintf("%s %s/%s", w.Verb, w.Group, w.Resource)] = true
	}
	for name, what := range used {
		for w := range what {
			if !slices.Contains(writes[name], w) {
				t.Errorf("%s wrote: %s", name, w)
			}
		}
		for _, w := range writes[name] {
			if !rarely[w] && !what[w] {
				t.Errorf("%s may %s, and never does", name, w)
			}
		}
	}
}
