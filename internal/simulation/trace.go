package simulation

import (
	"fmt"
	"strings"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// tell traces a change.
func (w *World) tell(k kind, old, now client.Object) {
	if w.Log == nil {
		return
	}
	switch o := now.(type) {
	case nil:
		w.trace("%s %s is gone", k, keyOf(old))
	case *clusterv1.LoadBalancer:
		c := meta.FindStatusCondition(o.Status.Conditions, clusterv1.ConditionProgrammed)
		said := "-"
		if c != nil {
			said = fmt.Sprintf("%s@%d %s %s", c.Status, c.ObservedGeneration, c.Reason, c.Message)
		}
		for _, p := range o.Status.Ports {
			if p.Error != "" {
				said += fmt.Sprintf(" (%d %s)", p.Port, p.Error)
			}
		}
		for _, t := range o.Status.Targets {
			w.trace("LB %s has %s as its target: %s %s %s", keyOf(o), t.Name, t.State, t.Reason, t.Message)
		}
		w.trace("LB %s %s gen %d ports %s wants %v deleting %v fin %v: %s %v", keyOf(o), o.UID, o.Generation, describePorts(o), o.Spec.Addresses, o.DeletionTimestamp != nil, o.Finalizers, said, o.Status.Addresses)
	case *v1alpha1.Address:
		w.trace("Address %s %s %s %v", o.Name, o.UID, o.Spec.Phase, o.Spec.Holders)
	case *v1alpha1.Proxy:
		w.trace("Proxy %s %s %s through %v reports %s held %v fenced %v hub changed %v epoch %d seq %d", o.Name, o.Status.Boot, o.Status.Phase, o.Status.Through, o.Status.Reports, o.Status.Held, o.Spec.Fenced != nil, hubChanged(o), o.Status.Epoch, o.Status.Seq)
	case *v1alpha1.ProxyReport:
		w.trace("Report %s/%s %s refused %d addresses %v members %v serves %v %v", o.Namespace, o.Name, o.Boot, len(o.Refused), o.Addresses, o.Members, o.Serves, o.ServesMissing)
	case *v1alpha1.TargetGroup:
		w.trace("TargetGroup %s %s %v: %v", keyOf(o), o.UID, o.Spec.Targets, o.Status.Targets)
	case *unstructured.Unstructured:
		w.trace("%s %s %s deleting %v labels %v annotations %v status %v", k, o.GetName(), o.GetUID(), o.GetDeletionTimestamp() != nil, o.GetLabels(), o.GetAnnotations(), o.Object["status"])
	case *coordinationv1.Lease:
		w.trace("Lease %s %s %s", o.Name, o.Annotations[v1alpha1.AnnotationBoot], o.Annotations[v1alpha1.AnnotationThrough])
	default:
		w.trace("%s %s", k, keyOf(now))
	}
}

func describePorts(l *clusterv1.LoadBalancer) string {
	var out []string
	for _, p := range l.Spec.Ports {
		out = append(out, fmt.Sprintf("%d→%d", p.Port, p.TargetPort))
	}
	return strings.Join(out, ",")
}

func (w *World) trace(format string, args ...any) {
	if w.Log != nil {
		w.Log("%8s v%-5d "+format, append([]any{time.Now().Format("05.000"), w.server.version}, args...)...)
	}
}
