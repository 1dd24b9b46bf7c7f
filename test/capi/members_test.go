package capi_test

import (
	"context"
	"slices"
	"strings"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	capiv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// watchesEnd is how long a client's watch may hold up the deletion of the Machine that it is with.
const watchesEnd = 2 * time.Second

// overHeldMembers is a load balancer of the Machines of its Cluster's control plane, each of which our manager holds until whoever serves has
// stopped. Its class has its namespace's name. A hook gives up later than a test does.
func overHeldMembers(namespace string) *clusterv1.LoadBalancer {
	return &clusterv1.LoadBalancer{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: clusterName},
		Spec: clusterv1.LoadBalancerSpec{
			ClassName: namespace, ClusterName: clusterName, Role: clusterv1.RoleControlPlane,
			TargetKind:   &clusterv1.KindReference{APIGroup: capiv1.GroupVersion.Group, Kind: "Machine"},
			Ports:        []clusterv1.Port{{Port: apiServerPort, Protocol: clusterv1.ProtocolTCP}},
			DrainTimeout: &metav1.Duration{Duration: watchesEnd},
			MachineHooks: &clusterv1.MachineHooks{Type: clusterv1.HookPreDrain, MaxWait: &metav1.Duration{Duration: 4 * patience}},
		},
	}
}

// readiness is how API servers are asked where it isn't known that they are some. One that answers nothing is found out after 3 s at the
// latest.
func readiness() *clusterv1.HealthCheck {
	return &clusterv1.HealthCheck{
		Type: clusterv1.HealthCheckHTTPS, Path: "/readyz",
		Interval: &metav1.Duration{Duration: time.Second}, Timeout: &metav1.Duration{Duration: time.Second},
	}
}

// overWrittenMembers is a load balancer of the members that writeMembers writes.
func overWrittenMembers(namespace string, p dataPlane) *clusterv1.LoadBalancer {
	return &clusterv1.LoadBalancer{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: clusterName},
		Spec: clusterv1.LoadBalancerSpec{
			ClassName:   p.name,
			Ports:       []clusterv1.Port{{Port: apiServerPort, Protocol: clusterv1.ProtocolTCP}},
			HealthCheck: readiness(),
			Selector:    &metav1.LabelSelector{MatchLabels: map[string]string{v1alpha1.LabelFor: clusterName}},
		},
	}
}

// writeMembers has a load balancer's members be the Machines that there are: one is added when it has an address, and removed when it is
// gone, as by whoever holds up no Machine's deletion.
func (h *hub) writeMembers(ctx context.Context, namespace string, machines []capiv1.Machine) error {
	targets := []v1alpha1.Target{}
	for _, m := range machines {
		for _, a := range m.Status.Addresses {
			if a.Type == capiv1.MachineInternalIP {
				targets = append(targets, v1alpha1.Target{Name: m.Name, UID: string(m.UID), Addresses: []string{a.Address}})
			}
		}
	}
	slices.SortFunc(targets, func(a, b v1alpha1.Target) int { return strings.Compare(a.Name, b.Name) })
	group := &v1alpha1.TargetGroup{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: clusterName + "-0", Labels: map[string]string{v1alpha1.LabelFor: clusterName},
	}}
	if err := h.api.Get(ctx, client.ObjectKeyFromObject(group), group); client.IgnoreNotFound(err) != nil {
		return err
	} else if err != nil {
		group.Spec.Targets = targets
		return h.api.Create(ctx, group)
	}
	if equality.Semantic.DeepEqual(group.Spec.Targets, targets) {
		return nil
	}
	group.Spec.Targets = targets
	return h.api.Update(ctx, group)
}
