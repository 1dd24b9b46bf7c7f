package targetgroup

import (
	"strings"
	"testing"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/proof"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Nodes that have no Pod of a Service with externalTrafficPolicy Local fail its check: that is as it should be, and no matter of
// the nodes.
func TestACheckOfOneLoadBalancerIsNotTheTargetGroups(t *testing.T) {
	g := &v1alpha1.TargetGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "nodes-0", UID: "g"}}
	g.Spec.HealthCheck = &clusterv1.HealthCheck{Type: clusterv1.HealthCheckHTTP, Port: 10256, Path: "/healthz"}
	g.Spec.Targets = []v1alpha1.Target{{Name: "n1", UID: "u1", Addresses: []string{"10.0.0.1"}}, {Name: "n2", UID: "u2", Addresses: []string{"10.0.0.2"}}}
	fails := func(uid, address, check string) v1alpha1.ReportedMember {
		return v1alpha1.ReportedMember{TargetGroup: "nodes-0", GroupUID: "g", TargetUID: uid, Address: address, Check: check, State: v1alpha1.ReportedUnhealthy}
	}
	for _, c := range []struct {
		name    string
		members []v1alpha1.ReportedMember
		want    string
	}{
		{"neither has a Pod of one Service", []v1alpha1.ReportedMember{fails("u1", "10.0.0.1", "HTTP:32000/healthz"), fails("u2", "10.0.0.2", "HTTP:32000/healthz")}, "2/2"},
		{"one is down", []v1alpha1.ReportedMember{fails("u1", "10.0.0.1", "HTTP:10256/healthz"), fails("u1", "10.0.0.1", "HTTP:32000/healthz")}, "1/2"},
	} {
		r := &v1alpha1.ProxyReport{Members: c.members}
		s := describe(facts{group: g, proxies: []*proof.Proxy{{Name: "edge-1", Live: true, Reports: map[string]*v1alpha1.ProxyReport{"prod": r}}}, now: metav1.Now()})
		well := meta.IsStatusConditionTrue(s.Conditions, v1alpha1.ConditionHealthy)
		if s.Members != c.want || well != (c.want == "2/2") {
			t.Errorf("%s: %s, %+v", c.name, s.Members, s)
		}
	}
}

// Nodes without kube-proxy are checked at their nodePorts: the condition says so, and why.
func TestChecksByPortAreSaid(t *testing.T) {
	g := &v1alpha1.TargetGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "nodes-0", UID: "g", Annotations: map[string]string{v1alpha1.AnnotationCheckedByPort: "nobody listens"}}}
	g.Spec.Targets = []v1alpha1.Target{{Name: "n1", UID: "u1", Addresses: []string{"10.0.0.1"}}}
	for _, c := range []struct {
		name   string
		check  clusterv1.HealthCheck
		failed string
		reason string
		says   string
	}{
		{"all pass", clusterv1.HealthCheck{Type: clusterv1.HealthCheckTCP}, "", v1alpha1.ReasonCheckedByPort, "nobody listens"},
		{"one fails", clusterv1.HealthCheck{Type: clusterv1.HealthCheckTCP}, "TCP:31000", v1alpha1.ReasonMembersUnhealthy, "at the port of one Service at least: n1"},
		{"an annotation alone means nothing", clusterv1.HealthCheck{Type: clusterv1.HealthCheckHTTP, Port: 10256, Path: "/healthz"}, "", clusterv1.ReasonAsExpected, ""},
		{"nor with another check", clusterv1.HealthCheck{Type: clusterv1.HealthCheckTCP, Port: 80}, "", clusterv1.ReasonAsExpected, ""},
	} {
		g.Spec.HealthCheck = &c.check
		r := &v1alpha1.ProxyReport{}
		if c.failed != "" {
			r.Members = []v1alpha1.ReportedMember{{TargetGroup: "nodes-0", GroupUID: "g", TargetUID: "u1", Address: "10.0.0.1", Check: c.failed, State: v1alpha1.ReportedUnhealthy}}
		}
		s := describe(facts{group: g, proxies: []*proof.Proxy{{Name: "edge-1", Live: true, Reports: map[string]*v1alpha1.ProxyReport{"prod": r}}}, now: metav1.Now()})
		healthy := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionHealthy)
		if healthy.Reason != c.reason || !strings.Contains(healthy.Message, c.says) || c.says == "" && healthy.Message != "" {
			t.Errorf("%s: %+v", c.name, healthy)
		}
	}
}
