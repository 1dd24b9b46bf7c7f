package machines

import (
	"cmp"
	"slices"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/internal/member"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Machine is what is read of a Machine or Node. Two that are equal are alike for a Plan.
type Machine struct {
	Name, UID, Zone     string
	Labels, Annotations map[string]string
	Addresses           []member.Address
	// Deleting: it has a deletion timestamp.
	Deleting bool
	// Dead: Cluster API's health check has given it up, by its condition HealthCheckSucceeded: for its Node's conditions, or because
	// somebody asks for its remediation. That says nothing of what it serves.
	Dead bool
	// Cause inferred to take it out.
	Cause member.Cause
	// Ready is the status of the condition that says whether it can serve: True, False or Unknown; "": nothing says so. Of a control
	// plane's it is that of its API server's Pod, where that is told; else the Node's.
	Ready string
}

// Cluster whose Machine it is; "": none's.
func (m *Machine) Cluster() string { return m.Labels[member.ClusterNameLabel] }

// Disabled by a person.
func (m *Machine) Disabled() bool {
	_, ok := m.Annotations[clusterv1.DisabledAnnotation]
	return ok
}

// Still is why nobody may write it now; "": one may.
func (m *Machine) Still() string {
	if _, ok := m.Annotations[clusterv1.MoveAnnotation]; ok {
		return "it moves to another hub"
	}
	if _, ok := m.Annotations[clusterv1.PausedAnnotation]; ok {
		return "it is paused"
	}
	return ""
}

// Read reads a Machine, in Cluster API's v1beta2 or v1beta1. What isn't as the API has it counts as absent.
func Read(u *unstructured.Unstructured) Machine {
	m := Machine{
		Name: u.GetName(), UID: string(u.GetUID()), Labels: u.GetLabels(), Annotations: u.GetAnnotations(),
		Deleting: u.GetDeletionTimestamp() != nil, Zone: word(u, "spec", "failureDomain"),
	}
	for _, a := range list(u, "status", "addresses") {
		m.Addresses = append(m.Addresses, member.Address{Type: text(a, "type"), Value: text(a, "address")})
	}
	served := ""
	for _, c := range slices.Concat(list(u, "status", "conditions"), list(u, "status", "v1beta2", "conditions")) {
		switch is := text(c, "status"); text(c, "type") {
		case "NodeReady":
			m.Ready = is
		case "APIServerPodHealthy":
			served = is
		case "Updating":
			if is == "True" {
				m.Cause = member.InPlaceUpdate
			}
		case "HealthCheckSucceeded":
			m.Dead = m.Dead || is == "False"
		}
	}
	m.Ready = cmp.Or(served, m.Ready)
	return m
}

func word(u *unstructured.Unstructured, fields ...string) string {
	s, _, err := unstructured.NestedString(u.Object, fields...)
	if err != nil {
		return ""
	}
	return s
}

// list reads a list of objects; it is shared with u.
func list(u *unstructured.Unstructured, fields ...string) []map[string]any {
	v, _, err := unstructured.NestedFieldNoCopy(u.Object, fields...)
	if err != nil {
		return nil
	}
	items, ok := v.([]any)
	if !ok {
		return nil
	}
	var out []map[string]any
	for _, i := range items {
		if o, ok := i.(map[string]any); ok {
			out = append(out, o)
		}
	}
	return out
}

func text(o map[string]any, field string) string {
	s, ok := o[field].(string)
	if !ok {
		return ""
	}
	return s
}
