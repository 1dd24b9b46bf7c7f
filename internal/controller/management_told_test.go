package controller_test

import (
	"errors"
	"fmt"
	"strings"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/config/rbac"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// planeOf is a Cluster, and the LoadBalancer of its control plane on an address; "": any.
func (m *managed) planeOf(name, address string) (*unstructured.Unstructured, *clusterv1.LoadBalancer) {
	l := &clusterv1.LoadBalancer{ObjectMeta: metav1.ObjectMeta{Namespace: m.name, Name: name}, Spec: clusterv1.LoadBalancerSpec{
		Role: clusterv1.RoleControlPlane, ClassName: m.elsewhere.name, ClusterName: name, Ports: []clusterv1.Port{{Port: 6443, TargetPort: 6443, Protocol: clusterv1.ProtocolTCP}},
	}}
	if address != "" {
		l.Spec.Addresses = []string{address}
	}
	return m.newCluster(name, nil), l
}

// servedAt waits until a LoadBalancer is served on an address, or on any.
func (m *managed) servedAt(l *clusterv1.LoadBalancer, address string) {
	m.t.Helper()
	m.until("LoadBalancer "+l.Name+" to be served", func(ctx ctx) error {
		if err := m.api.Get(ctx, client.ObjectKeyFromObject(l), l); err != nil {
			return err
		}
		if at := addressOf(l); at == "" || address != "" && at != address {
			return fmt.Errorf("it is on %q", at)
		}
		return condition(l.Status.Conditions, "Programmed=True")
	})
}

// ended deletes a Cluster and its LoadBalancer, and waits until that is gone.
func (m *managed) ended(c *unstructured.Unstructured, l *clusterv1.LoadBalancer) {
	m.t.Helper()
	m.delete(c)
	m.delete(l)
	m.until("LoadBalancer "+l.Name+" to be gone", func(ctx ctx) error {
		return gone(m.api.Get(ctx, client.ObjectKeyFromObject(l), l))
	})
}

// unwritten: while a Cluster's endpoint can't be written its LoadBalancer comes to another address. The Cluster gets that, and not
// the one that was generated for it and never reached it.
func (m *managed) unwritten() {
	m.t.Helper()
	var free []string
	for _, a := range []string{"192.0.2.4", "192.0.2.5", "192.0.2.6"} {
		if a != addressOf(m.lb) {
			free = append(free, a)
		}
	}
	c, l := m.planeOf("unwritten", free[0])
	m.create(c)
	policy := object("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy", "", "no-endpoint", map[string]any{"spec": map[string]any{
		"matchConstraints": map[string]any{"resourceRules": []any{map[string]any{
			"apiGroups": []any{"cluster.x-k8s.io"}, "apiVersions": []any{"*"}, "resources": []any{"clusters"}, "operations": []any{"UPDATE"},
		}}},
		"validations": []any{map[string]any{"expression": "object.metadata.name != 'unwritten' || !has(object.spec.controlPlaneEndpoint)"}},
	}})
	m.create(policy, object("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicyBinding", "", "no-endpoint", map[string]any{"spec": map[string]any{
		"policyName": "no-endpoint", "validationActions": []any{"Deny"},
	}}))
	m.eventually("the Cluster's endpoint to be refused", func(ctx ctx) error {
		p := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"controlPlaneEndpoint":{"host":"192.0.2.1","port":6443}}}`))
		if err := m.api.Patch(ctx, c.DeepCopy(), p, client.DryRunAll); !apierrors.IsInvalid(err) {
			return fmt.Errorf("it says %v", err)
		}
		return nil
	})
	m.create(l)
	e := m.newEndpoint(c.GetName(), "", "", 0)
	m.until("a ClusterEndpoint to be generated", func(ctx ctx) error {
		if err := m.api.Get(ctx, client.ObjectKeyFromObject(e), e); err != nil || e.Spec.Host != free[0] {
			return errors.Join(err, fmt.Errorf("%+v", e.Spec))
		}
		return nil
	})
	m.change(l, func(o client.Object) { o.(*clusterv1.LoadBalancer).Spec.Addresses = []string{free[1]} })
	m.servedAt(l, free[1])
	m.shows(c, ":0")
	m.delete(policy)
	m.shows(c, free[1]+":6443")
	m.surfaced(e, "True/Surfaced")
	if e.Spec.Host != free[1] {
		m.t.Errorf("%+v", e.Spec)
	}
	m.ended(c, l)
}

// served has a LoadBalancer served while its Cluster is paused, which so hasn't its endpoint yet.
func (m *managed) served() (*unstructured.Unstructured, *clusterv1.LoadBalancer) {
	m.t.Helper()
	c, l := m.planeOf("served", "")
	c.SetAnnotations(map[string]string{clusterv1.PausedAnnotation: ""})
	m.create(c, l)
	m.servedAt(l, "")
	m.waitsFor(l, "paused")
	return c, l
}

// waitsFor waits until a LoadBalancer's endpoint is pending for a reason.
func (m *managed) waitsFor(l *clusterv1.LoadBalancer, why string) {
	m.t.Helper()
	wait(m.hub, l, "to wait, for "+why, func(l *clusterv1.LoadBalancer) error {
		c := meta.FindStatusCondition(l.Status.Conditions, clusterv1.ConditionEndpointPublished)
		if c == nil || c.Reason != clusterv1.ReasonPending || !strings.Contains(c.Message, why) {
			return fmt.Errorf("it says %+v", c)
		}
		return nil
	})
}

// unsure: a hub that can't be asked vouches for nothing that it said before, as the status of what it serves.
func (m *managed) unsure(c *unstructured.Unstructured, l *clusterv1.LoadBalancer) {
	m.t.Helper()
	m.change(c, func(o client.Object) { o.SetAnnotations(nil) })
	m.waitsFor(l, "can't be asked")
	if err := condition(l.Status.Conditions, "Programmed=True"); err != nil || addressOf(l) == "" {
		m.t.Errorf("its status isn't what the hub said: %v", err)
	}
	m.shows(c, ":0")
	e := m.newEndpoint(c.GetName(), "", "", 0)
	if err := gone(m.api.Get(m.t.Context(), client.ObjectKeyFromObject(e), e)); err != nil {
		m.t.Errorf("ClusterEndpoint %s: %v", e.Name, err)
	}
}

// vouched: now that the hub is back it says so, and the Cluster has the endpoint.
func (m *managed) vouched(c *unstructured.Unstructured, l *clusterv1.LoadBalancer) {
	m.t.Helper()
	m.until("LoadBalancer "+l.Name+" to be published", func(ctx ctx) error {
		if err := m.api.Get(ctx, client.ObjectKeyFromObject(l), l); err != nil {
			return err
		}
		return condition(l.Status.Conditions, clusterv1.ConditionEndpointPublished+"=True/Published")
	})
	m.shows(c, addressOf(l)+":6443")
	m.ended(c, l)
}

// untended: an agent without the rights to look after endpoints says so where their user looks, and is given them.
func (m *managed) untended() (stop func()) {
	m.t.Helper()
	binding := object("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "", "fairlead-management-endpoints", map[string]any{})
	m.delete(binding)
	stop = m.agent()
	wait(m.hub, m.lb, "that the agent lacks rights", func(l *clusterv1.LoadBalancer) error {
		c := meta.FindStatusCondition(l.Status.Conditions, clusterv1.ConditionEndpointPublished)
		if c == nil || c.Status != metav1.ConditionUnknown || c.Reason != clusterv1.ReasonForbidden || !strings.Contains(c.Message, "config/rbac/management/endpoints.yaml") {
			return fmt.Errorf("it says %+v", c)
		}
		return nil
	})
	if err := rbac.InstallManagement(m.t.Context(), m.control.RESTConfig()); err != nil {
		m.t.Fatal(err)
	}
	return stop
}
