package endpoint

import (
	"context"
	"fmt"
	"slices"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/internal/controller/clusters"
	rules "fairlead.dev/fairlead/internal/endpoint"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// lookAgain is when an InfraCluster that is to be told, and can't be yet, or what an endpoint is in use by is looked at again.
const lookAgain = 15 * time.Second

// askAgain is when a hub elsewhere is asked again that wasn't sure of a LoadBalancer. What it says is written here, too, most often
// before.
const askAgain = 5 * time.Second

// referred is an object that a Cluster refers to.
type referred struct {
	kind schema.GroupKind
	name string
	// object; nil: it isn't there, or can't be read.
	object *unstructured.Unstructured
}

// referred reads what a Cluster refers to by a field of its spec.
func (r *Reconciler) referred(ctx context.Context, c *unstructured.Unstructured, field string) (referred, error) {
	x, err := clusters.Referred(ctx, r.Reader, r.Kinds, c, field)
	return referred{x.Kind, x.Name, x.Object}, err
}

// infraCluster is what the rules ask of it; nil: there is none.
func (x referred) infraCluster() *rules.InfraCluster {
	if x.object == nil {
		return nil
	}
	spec, _, err := unstructured.NestedMap(x.object.Object, "spec")
	if err != nil {
		spec = nil
	}
	return &rules.InfraCluster{Group: x.kind.Group, Kind: x.kind.Kind, Name: x.name, Endpoint: endpointOf(x.object), Spec: spec}
}

// annotations are its own; nil: it isn't there.
func (x referred) annotations() map[string]string {
	if x.object == nil {
		return nil
	}
	return x.object.GetAnnotations()
}

// isPaused says that nobody is to write it now.
func (x referred) isPaused() bool {
	if x.object == nil {
		return true
	}
	_, annotated := x.object.GetAnnotations()[clusterv1.PausedAnnotation]
	return annotated || x.object.GetDeletionTimestamp() != nil
}

// judgeTold says whether the InfraCluster of a Cluster that has the endpoint now is told it, and when to look again; nil:
// it need not be.
func (r *Reconciler) judgeTold(infra referred, now rules.HostPort, p rules.Plan) (*metav1.Condition, time.Duration) {
	push := rules.PushFor(infra.kind.Group, infra.kind.Kind)
	if !now.Whole() || push.Policy != rules.Tell && push.Policy != rules.Competes {
		return nil, 0
	}
	out := &metav1.Condition{Type: clusterv1.ConditionInfraClusterTold, Status: metav1.ConditionFalse}
	at := slices.IndexFunc(p.Problems, func(x rules.Problem) bool {
		return x.Reason == rules.ReasonInfraCompetes || x.Reason == rules.ReasonInfraDiffers
	})
	switch {
	case infra.object == nil:
		out.Reason, out.Message = clusterv1.ReasonInfraNotFound, fmt.Sprintf("%s %s is to be told, and isn't there, or %s may not read it: create it, or apply %s.", infra.kind.Kind, infra.name, r.Who.Name, r.Who.Rights)
	case at >= 0:
		out.Reason, out.Message = p.Problems[at].Reason, sentence(p.Problems[at].Message)
		if push.Policy == rules.Competes {
			return out, 0 // that won't change
		}
	case endpointOf(infra.object).Same(now):
		out.Status, out.Reason = metav1.ConditionTrue, clusterv1.ReasonAsExpected
		return out, 0
	default:
		out.Reason, out.Message = clusterv1.ReasonPending, fmt.Sprintf("%s %s is paused, or is told in a moment.", infra.kind.Kind, infra.name)
	}
	return out, lookAgain
}
