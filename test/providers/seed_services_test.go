package providers_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"testing"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/config/rbac"
	"fairlead.dev/fairlead/internal/testkit"
	"fairlead.dev/fairlead/internal/testkit/kubetest"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// ownTenant makes the hub's cluster its own tenant: with a node, an agent, a proxy at the addresses 192.0.2.0/24 as this hub's
// subnet has them, and a pool of what an installer has reserved.
func (h *hub) ownTenant(t *testing.T) {
	t.Helper()
	const name = "own"
	if err := rbac.InstallTenant(t.Context(), h.control.RESTConfig()); err != nil {
		t.Fatal(err)
	}
	kubetest.StartNodes(t, h.control, "node-1")
	tenant := &v1alpha1.Tenant{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.TenantSpec{TargetCIDRs: []string{h.control.Subnet().String()}}}
	h.create(t, tenant,
		&v1alpha1.AddressPool{ObjectMeta: metav1.ObjectMeta{Name: "reserved"}, Spec: v1alpha1.AddressPoolSpec{Ranges: []string{"192.0.2.20-192.0.2.22", "192.0.2.10/32", "192.0.2.138/32"}, Requestable: true}},
		&v1alpha1.LoadBalancerClass{
			ObjectMeta: metav1.ObjectMeta{Name: "edge", Annotations: map[string]string{v1alpha1.AnnotationDefaultClass: "true"}},
			Spec:       v1alpha1.LoadBalancerClassSpec{Proxy: &v1alpha1.ClassProxy{Pool: "edge"}, AddressPools: []string{"reserved"}},
		},
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.ProxyNamespace, Name: "edge-1"}})
	wait(t, h, tenant, "ready", func(o *v1alpha1.Tenant) error {
		if !meta.IsStatusConditionTrue(o.Status.Conditions, "Ready") {
			return fmt.Errorf("it has %+v", o.Status.Conditions)
		}
		return nil
	})
	fairlead := h.manager.Command().Path
	kubetest.StartProcess(t, testkit.Command{Name: "proxy", Path: fairlead, Args: []string{
		"proxy", "--name=edge-1", "--pool=edge", "--kubeconfig=" + h.kubeconfig(t, v1alpha1.ProxyNamespace, "edge-1"),
		"--bind-as=192.0.2.0/24=" + netip.PrefixFrom(h.host(0), 24).String(),
	}})
	kubetest.StartProcess(t, testkit.Command{Name: "agent", Path: fairlead, Args: []string{
		"agent", "--kubeconfig=" + h.kubeconfig(t, v1alpha1.SystemNamespace, v1alpha1.AgentServiceAccount),
		"--hub-kubeconfig=" + h.kubeconfig(t, name, v1alpha1.AgentServiceAccount), "--hub-namespace=" + name,
	}})
}

// printedServices: each Service gets the address that was reserved for it, and what its selector names answers there.
func printedServices(t *testing.T, h *hub) {
	h.ownTenant(t)
	for namespace, app := range map[string]string{"openshift-kube-apiserver": "kube-apiserver", "openshift-machine-config-operator": "machine-config-server"} {
		h.namespace(t, namespace)
		h.create(t, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: app, Labels: map[string]string{"app": app}},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "echo", Image: "hollow"}}},
		})
	}
	for _, x := range []struct {
		file string
		want string // "": any
	}{
		{"slb-external", "192.0.2.10"}, {"slb-azure-internal", "192.0.2.138"}, {"slb-gcp-internal", "192.0.2.138"}, {"slb-aws-external", ""},
		{"kubelb-l4", ""},
	} {
		all := h.printed(t, metav1.NamespaceDefault, x.file)
		for _, u := range all {
			if u.GetKind() == "Service" {
				h.isServed(t, u, x.want)
			}
		}
		for _, u := range all {
			if err := h.api.Delete(t.Context(), u); err != nil {
				t.Fatal(err)
			}
			h.gone(t, u)
		}
	}
}

// isServed waits until a Service has that address, or any where want is empty, and a Pod of its selector, if it has one, answers there.
func (h *hub) isServed(t *testing.T, u *unstructured.Unstructured, want string) {
	t.Helper()
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: u.GetNamespace(), Name: u.GetName()}}
	wait(t, h, s, "to be served at "+want, func(s *corev1.Service) error {
		in := s.Status.LoadBalancer.Ingress
		if len(in) != 1 || want != "" && in[0].IP != want {
			return fmt.Errorf("it has %+v, and the conditions %+v", in, s.Status.Conditions)
		}
		return nil
	})
	if len(s.Spec.Selector) == 0 {
		return
	}
	a := netip.MustParseAddr(s.Status.LoadBalancer.Ingress[0].IP).As4()
	kubetest.Eventually(t, patience, "a Pod to answer for Service "+s.Name, func(ctx context.Context) error {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+h.at(a[3], int(s.Spec.Ports[0].Port)), nil)
		if err != nil {
			return err
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			return err
		}
		var who testkit.Answer
		if err := errors.Join(json.NewDecoder(resp.Body).Decode(&who), resp.Body.Close()); err != nil {
			return err
		}
		if who.Pod != s.Spec.Selector["app"] {
			return fmt.Errorf("%+v answers", who)
		}
		return nil
	})
}
