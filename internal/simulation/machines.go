package simulation

import (
	"fmt"
	"slices"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/internal/member"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The hub operator's own namespace has a Cluster, whose Machines two LoadBalancers have as their targets.
const (
	operatorName = "red"
	clusterName  = "prod"
	mostMachines = 3
	// poolLabel is what the LoadBalancers select Machines by, besides their Cluster.
	poolLabel = "pool"
)

var (
	clusterAPI   = schema.GroupVersion{Group: clusterv1.GroupVersion.Group, Version: "v1beta2"}
	machineGVK   = clusterAPI.WithKind("Machine")
	clusterGVK   = clusterAPI.WithKind("Cluster")
	clusterKey   = types.NamespacedName{Namespace: operatorName, Name: clusterName}
	controlNames = []string{"api-0", "api-1"}
)

func newObject(kind schema.GroupVersionKind, name string, labels map[string]string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(kind)
	o.SetNamespace(operatorName)
	o.SetName(name)
	o.SetLabels(labels)
	o.SetFinalizers([]string{"cluster-api"})
	return o
}

// machines are all that there are, in order.
func (w *World) machines() []*unstructured.Unstructured {
	var out []*unstructured.Unstructured
	for _, o := range w.server.list(machineKind) {
		out = append(out, o.(*unstructured.Unstructured))
	}
	return out
}

// writeAsPerson changes an object, as a person does who reads it first. What people take off is meant.
func (w *World) writeAsPerson(o client.Object, change func(*unstructured.Unstructured)) {
	next := o.(*unstructured.Unstructured).DeepCopy()
	change(next)
	w.must(w.server.update(next))
}

// annotated sets an annotation, or takes it off where it is there.
func annotated(key string) func(*unstructured.Unstructured) {
	return func(o *unstructured.Unstructured) {
		a := o.GetAnnotations()
		if _, has := a[key]; has {
			delete(a, key)
		} else if a == nil {
			a = map[string]string{key: ""}
		} else {
			a[key] = ""
		}
		o.SetAnnotations(a)
	}
}

// furnishCluster makes the Cluster that people want.
func (w *World) furnishCluster() {
	if w.Machines && w.server.stands(operatorName) && w.server.objects[clusterKind][clusterKey] == nil {
		w.must(w.server.create(newObject(clusterGVK, clusterName, nil)))
		w.trace("Cluster %s is made", clusterName)
	}
}

// addMachine makes one, if there are fewer than most.
func (w *World) addMachine(most int) {
	c := w.server.objects[clusterKind][clusterKey]
	if c == nil || c.GetDeletionTimestamp() != nil || !w.server.stands(operatorName) {
		return
	}
	for i := range most {
		name := fmt.Sprintf("m%d", i)
		if w.server.objects[machineKind][types.NamespacedName{Namespace: operatorName, Name: name}] != nil {
			continue
		}
		o := newObject(machineGVK, name, map[string]string{member.ClusterNameLabel: clusterName, poolLabel: "api"})
		if w.n(3) > 0 {
			w.address(o)
		}
		w.must(w.server.create(o))
		return
	}
}

// address gives a Machine one.
func (w *World) address(o *unstructured.Unstructured) {
	w.addressed++
	a := fmt.Sprintf("10.1.%d.%d", w.addressed/200, 1+w.addressed%200)
	set(o, []any{map[string]any{"type": "InternalIP", "address": a}}, "status", "addresses")
	w.boots(a)
}

func set(o *unstructured.Unstructured, value any, fields ...string) {
	if err := unstructured.SetNestedField(o.Object, value, fields...); err != nil {
		panic(err)
	}
}

// conditions that Cluster API gives a Machine.
func (w *World) condition(o *unstructured.Unstructured, kind, status string) {
	all, _, err := unstructured.NestedSlice(o.Object, "status", "conditions")
	if err != nil {
		panic(err)
	}
	all = slices.DeleteFunc(all, func(c any) bool { return c.(map[string]any)["type"] == kind })
	if status != "" {
		all = append(all, map[string]any{"type": kind, "status": status})
	}
	set(o, all, "status", "conditions")
}

func conditionOf(o *unstructured.Unstructured, kind string) string {
	all, _, err := unstructured.NestedSlice(o.Object, "status", "conditions")
	if err != nil {
		panic(err)
	}
	for _, c := range all {
		if c := c.(map[string]any); c["type"] == kind {
			return c["status"].(string)
		}
	}
	return ""
}

// controlPlaneSpec is what people want of a LoadBalancer over Machines.
func (w *World) controlPlaneSpec(name string) clusterv1.LoadBalancerSpec {
	s := w.spec()
	s.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{member.ClusterNameLabel: clusterName, poolLabel: "api"}}
	s.Ports = []clusterv1.Port{{Name: "api", Protocol: clusterv1.ProtocolTCP, Port: 6443, TargetPort: 6443}}
	s.MachineHooks = &clusterv1.MachineHooks{Type: w.hookTypes[name], MaxWait: &metav1.Duration{Duration: maxWaits[w.n(len(maxWaits))]}}
	if w.n(2) == 0 {
		s.MachineHooks.OnMaxWait = clusterv1.OnMaxWaitBlock
	}
	w.drawChecks(&s)
	return s
}

// wantControlPlane has people want a LoadBalancer over Machines, or another than before.
func (w *World) wantControlPlane(name string) {
	for _, a := range w.agents {
		if a.namespace == operatorName && w.server.stands(operatorName) {
			w.forgo(operatorName, name)
			a.services[name] = w.controlPlaneSpec(name)
			w.trace("people: %s wants %v, hooks %s %s %s", name, a.services[name].Addresses, a.services[name].MachineHooks.Type, a.services[name].MachineHooks.MaxWait.Duration, a.services[name].MachineHooks.OnMaxWait)
		}
	}
}

func (w *World) dropControlPlane(name string) {
	for _, a := range w.agents {
		if a.namespace == operatorName {
			w.forgo(operatorName, name)
			delete(a.services, name)
			delete(a.had, name)
			w.trace("people: no %s", name)
		}
	}
}
