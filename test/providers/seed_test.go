package providers_test

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/examples/foo-provider/balancer"
	"fairlead.dev/fairlead/internal/member"
	"fairlead.dev/fairlead/internal/testkit"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	moduleRoot = "../.."
	// printedBalancer is the name of each LoadBalancer that the load balancer proposal prints.
	printedBalancer = "my-cluster-control-plane-lb"
)

// seeds applies what the proposals print, as examples/seed repairs it, each with what it presupposes, and waits for what they say
// happens.
func seeds(t *testing.T, h *hub, cloud string) {
	f := &front{hub: h, t: t, control: cloud}
	f.set(balancer.Settings{ApplyDelay: "0s"})
	h.define(t, clusterAPICRD(t, "kubeadmcontrolplanes"))
	for _, kind := range []string{"awsclusters", "vsphereclusters"} {
		b, err := os.ReadFile(filepath.Join(moduleRoot, "internal", "endpoint", "testdata", "infraclusters", "infrastructure.cluster.x-k8s.io_"+kind+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(b, &u.Object); err != nil {
			t.Fatal(err)
		}
		h.define(t, takesAnything(t, u))
	}
	h.like(t, "AWSELBClassicLoadBalancer")
	h.like(t, "AWSNetworkLoadBalancer")
	for _, n := range []byte{240, 241} {
		defer serveAt(t, netip.AddrPortFrom(h.host(n), 6443)).Close()
	}
	for _, story := range []struct {
		name string
		tell func(*testing.T, *hub)
	}{
		{"as printed: FooLoadBalancer", func(t *testing.T, h *hub) { printedExample(t, h, "foo", "FooLoadBalancer", moves) }},
		{"as printed: AWSELBClassicLoadBalancer", func(t *testing.T, h *hub) { printedExample(t, h, "elb", "AWSELBClassicLoadBalancer", nil) }},
		{"as printed: AWSNetworkLoadBalancer", func(t *testing.T, h *hub) { printedExample(t, h, "nlb", "AWSNetworkLoadBalancer", nil) }},
		{"as printed: new types", printedTypes},
		{"as printed: MachineService", printedMachineService},
		{"as printed: ClusterEndpoint", printedEndpoints},
		{"as printed: Services", printedServices},
	} {
		t.Run(story.name, func(t *testing.T) { story.tell(t, h) })
	}
}

// define makes a kind, and waits until it is found by discovery.
func (h *hub) define(t *testing.T, definition *unstructured.Unstructured) {
	t.Helper()
	b, err := definition.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	if err := testkit.Create(t.Context(), h.control.RESTConfig(), fstest.MapFS{"crd.yaml": {Data: b}}); err != nil {
		t.Fatal(err)
	}
}

// takesAnything keeps fields of spec that a kind's schema doesn't name.
func takesAnything(t *testing.T, definition *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	versions, _, err := unstructured.NestedSlice(definition.Object, "spec", "versions")
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range versions {
		if err := unstructured.SetNestedField(v.(map[string]any), true, "schema", "openAPIV3Schema", "properties", "spec", "x-kubernetes-preserve-unknown-fields"); err != nil {
			t.Fatal(err)
		}
	}
	if err := unstructured.SetNestedSlice(definition.Object, versions, "spec", "versions"); err != nil {
		t.Fatal(err)
	}
	return definition
}

// printed are the manifests of one of the folder's files, repaired, for that namespace, and strictly taken.
func (h *hub) printed(t *testing.T, namespace, file string) []*unstructured.Unstructured {
	t.Helper()
	_, repaired, err := testkit.Printed(moduleRoot, file)
	if err != nil {
		t.Fatal(err)
	}
	var all []*unstructured.Unstructured
	for part := range strings.SplitSeq(strings.TrimPrefix(repaired, "---\n"), "---\n") {
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(part), &u.Object); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if u.GetNamespace() == "" {
			u.SetNamespace(namespace)
		}
		if err := client.WithFieldValidation(h.api, metav1.FieldValidationStrict).Create(t.Context(), u); err != nil {
			t.Fatalf("%s: creating %s %s: %v", file, u.GetKind(), u.GetName(), err)
		}
		all = append(all, u)
	}
	return all
}

// of is the one of a kind.
func of(t *testing.T, kind string, all []*unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	at := slices.IndexFunc(all, func(u *unstructured.Unstructured) bool { return u.GetKind() == kind })
	if at < 0 {
		t.Fatalf("there is no %s", kind)
	}
	return all[at]
}

// remove deletes what is there, the LoadBalancers first, and waits until they are gone. Machines lose Cluster API's finalizer.
func (h *hub) remove(t *testing.T, machines []*unstructured.Unstructured, all ...client.Object) {
	t.Helper()
	for _, o := range all {
		if err := client.IgnoreNotFound(h.api.Delete(t.Context(), o)); err != nil {
			t.Fatal(err)
		}
		h.gone(t, o)
	}
	for _, m := range machines {
		change(t, h, m, func(m *unstructured.Unstructured) { m.SetFinalizers(nil) })
		if err := client.IgnoreNotFound(h.api.Delete(t.Context(), m)); err != nil {
			t.Fatal(err)
		}
		h.gone(t, m)
	}
}

// endpointOf is what a Cluster, InfraCluster or provider's object has in a field of its spec.
func endpointOf(u *unstructured.Unstructured, field string) (clusterv1.Endpoint, error) {
	host, _, err := unstructured.NestedString(u.Object, "spec", field, "host")
	port, _, err2 := unstructured.NestedInt64(u.Object, "spec", field, "port")
	if err := errors.Join(err, err2); err != nil {
		return clusterv1.Endpoint{}, err
	}
	return clusterv1.Endpoint{Host: host, Port: int32(port)}, nil
}

// hasEndpoint waits until an object has that one.
func (h *hub) hasEndpoint(t *testing.T, u *unstructured.Unstructured, field string, want clusterv1.Endpoint) {
	t.Helper()
	wait(t, h, u, fmt.Sprintf("to have %s %s:%d", field, want.Host, want.Port), func(u *unstructured.Unstructured) error {
		got, err := endpointOf(u, field)
		if got != want {
			err = errors.Join(err, fmt.Errorf("it has %+v", got))
		}
		return err
	})
}

// areActive waits until these Machines, and no other, are, on the LoadBalancer and by their annotations.
func (h *hub) areActive(t *testing.T, l *clusterv1.LoadBalancer, machines ...*unstructured.Unstructured) {
	t.Helper()
	var names []string
	for _, m := range machines {
		names = append(names, m.GetName())
		wait(t, h, m, "labelled and active", func(m *unstructured.Unstructured) error {
			if m.GetLabels()[member.NameAnnotation] != l.Name && l.Spec.InfrastructureRef != nil ||
				m.GetAnnotations()[member.NameAnnotation] != l.Name || m.GetAnnotations()[member.StatusAnnotation] != "active" {
				return fmt.Errorf("it has the labels %v and annotations %v", m.GetLabels(), m.GetAnnotations())
			}
			return nil
		})
	}
	wait(t, h, l, fmt.Sprint(names, " to be active"), func(l *clusterv1.LoadBalancer) error {
		if !slices.Equal(l.Status.ActiveTargets, names) || l.Status.TargetKind != "Machine.cluster.x-k8s.io" || l.Status.TargetSelector == "" {
			return fmt.Errorf("its status is %+v", l.Status)
		}
		return nil
	})
}

// printedExample: the provider chooses the endpoint, which goes up to the Cluster, and to its InfraCluster if that is told; the
// printed selector finds the control plane's Machines; and clients reach them.
func printedExample(t *testing.T, h *hub, file, kind string, more func(*testing.T, *hub, *clusterv1.LoadBalancer, []*unstructured.Unstructured)) {
	all := h.printed(t, metav1.NamespaceDefault, file)
	cluster, object := of(t, "Cluster", all), of(t, kind, all)
	machines := []*unstructured.Unstructured{h.newMachine(t, metav1.NamespaceDefault, "my-cluster", "a", 240), h.newMachine(t, metav1.NamespaceDefault, "my-cluster", "b", 241)}
	l := &clusterv1.LoadBalancer{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: printedBalancer}}
	says(t, h, l, "Ready=True/Ready", "LBExists=True/AsExpected", "LBMatchesConfig=True/AsExpected", "DNSResolvable=True/AsExpected", "EndpointPublished=True/Published")
	h.areActive(t, l, machines...)
	if l.Spec.Role != clusterv1.RoleControlPlane {
		t.Errorf("its role is %q", l.Spec.Role)
	}
	wait(t, h, object, "to say what the LoadBalancer says of targets", func(u *unstructured.Unstructured) error {
		targets, _, err := unstructured.NestedStringSlice(u.Object, "status", "activeTargets")
		if slices.Sort(targets); !slices.Equal(targets, []string{"a", "b"}) {
			err = errors.Join(err, fmt.Errorf("its status is %v", u.Object["status"]))
		}
		return err
	})
	at, err := endpointOf(object, "endpoint")
	if err != nil || at.Host == "" {
		t.Fatalf("%s has the endpoint %+v, %v", kind, at, err)
	}
	h.hasEndpoint(t, cluster, "controlPlaneEndpoint", at)
	if kind != "AWSNetworkLoadBalancer" { // whose Cluster is of vSphere
		h.hasEndpoint(t, of(t, "AWSCluster", all), "controlPlaneEndpoint", at)
	}
	h.reaches(t, at, 240, 241)
	if more != nil {
		more(t, h, l, machines)
	}
	remaining := []client.Object{l, object}
	for _, u := range all {
		if u.GetKind() != "LoadBalancer" && u != object {
			remaining = append(remaining, u)
		}
	}
	h.remove(t, machines, remaining...)
}

// reaches: connections to the endpoint come to all of these hosts.
func (h *hub) reaches(t *testing.T, at clusterv1.Endpoint, hosts ...byte) {
	t.Helper()
	want, seen := map[string]bool{}, map[string]bool{}
	for _, n := range hosts {
		want[h.host(n).String()] = true
	}
	wait(t, h, &clusterv1.LoadBalancer{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: printedBalancer}}, "to lead to its Machines", func(*clusterv1.LoadBalancer) error {
		c, who, err := hold(at)
		if err != nil {
			return err
		}
		seen[who] = true
		if err := c.Close(); err != nil {
			return err
		}
		if !maps.Equal(seen, want) {
			return fmt.Errorf("it leads to %v", seen)
		}
		return nil
	})
}

// moves: as the proposal's reconciliation has it, a Machine with the annotation disabled is disabled, and active again without; one
// that is deleted is held by a hook until it is removed.
func moves(t *testing.T, h *hub, l *clusterv1.LoadBalancer, machines []*unstructured.Unstructured) {
	a, b := machines[0], machines[1]
	says := func(m *unstructured.Unstructured, state string) {
		t.Helper()
		wait(t, h, m, state, func(m *unstructured.Unstructured) error {
			if m.GetAnnotations()[member.StatusAnnotation] != state {
				return fmt.Errorf("it has %v", m.GetAnnotations())
			}
			return nil
		})
	}
	annotate := func(f func(map[string]string)) {
		t.Helper()
		change(t, h, a, func(m *unstructured.Unstructured) {
			all := m.GetAnnotations()
			f(all)
			m.SetAnnotations(all)
		})
	}
	annotate(func(all map[string]string) { all[clusterv1.DisabledAnnotation] = "" })
	says(a, "disabled")
	h.areActive(t, l, b)
	annotate(func(all map[string]string) { delete(all, clusterv1.DisabledAnnotation) })
	h.areActive(t, l, a, b)
	if !member.Hooked(b.GetAnnotations(), l.Name) {
		t.Errorf("it has no hook: %v", b.GetAnnotations())
	}
	if err := h.api.Delete(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	says(b, "removed")
	wait(t, h, b, "let go", func(m *unstructured.Unstructured) error {
		if member.Hooked(m.GetAnnotations(), l.Name) {
			return fmt.Errorf("it has %v", m.GetAnnotations())
		}
		return nil
	})
}
