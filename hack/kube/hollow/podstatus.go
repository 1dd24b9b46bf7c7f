package hollow

import (
	"encoding/json"
	"net/netip"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// statusPatch returns the strategic merge patch that makes a running Pod's status
// true, or nil if it is. The Pod's UID in it is a precondition.
func statusPatch(p *v1.Pod, ips, hosts []netip.Addr) ([]byte, error) {
	status := v1.PodStatus{Phase: v1.PodRunning, PodIP: ips[0].String(), HostIP: hosts[0].String()}
	for _, ip := range ips {
		status.PodIPs = append(status.PodIPs, v1.PodIP{IP: ip.String()})
	}
	for _, host := range hosts {
		status.HostIPs = append(status.HostIPs, v1.HostIP{IP: host.String()})
	}
	ready := v1.ConditionTrue
	if p.Annotations[StateAnnotation] == StateUnready {
		ready = v1.ConditionFalse
	}
	if p.Status.Phase == v1.PodRunning && slices.Equal(p.Status.PodIPs, status.PodIPs) && condition(p, v1.PodReady) == ready {
		return nil, nil
	}
	now := metav1.Now()
	conditions := []v1.PodCondition{}
	for _, t := range []v1.PodConditionType{v1.PodScheduled, v1.PodInitialized, v1.ContainersReady, v1.PodReady} {
		status := v1.ConditionTrue
		if t == v1.ContainersReady || t == v1.PodReady {
			status = ready
		}
		if condition(p, t) != status {
			conditions = append(conditions, v1.PodCondition{Type: t, Status: status, LastTransitionTime: now})
		}
	}
	started := p.Status.StartTime
	if started == nil {
		started = &now
	}
	containers := []v1.ContainerStatus{}
	for _, c := range p.Spec.Containers {
		containers = append(containers, v1.ContainerStatus{
			Name: c.Name, Image: c.Image, ImageID: "hollow", ContainerID: "hollow://" + string(p.UID) + "/" + c.Name,
			Ready: ready == v1.ConditionTrue, Started: ptr.To(true),
			State: v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: *started}},
		})
	}
	status.StartTime, status.Conditions, status.ContainerStatuses = started, conditions, containers
	return json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": p.UID},
		"status":   status,
	})
}

func condition(p *v1.Pod, t v1.PodConditionType) v1.ConditionStatus {
	for _, c := range p.Status.Conditions {
		if c.Type == t {
			return c.Status
		}
	}
	return ""
}
