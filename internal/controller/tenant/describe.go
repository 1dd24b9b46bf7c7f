package tenant

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/build"
	"fairlead.dev/fairlead/internal/controller/kit"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// facts are all that a Tenant's status is made from.
type facts struct {
	tenant *v1alpha1.Tenant
	// owned: the namespace is the Tenant's; terminating: it is being deleted.
	owned, terminating bool
	// lease of the agent; nil: it never came. silent: no renewal was seen in time.
	lease  *coordinationv1.Lease
	silent bool
	// refused is the cluster whose agent asks for the Tenant in vain; empty: none does.
	refused string
	usage   v1alpha1.TenantUsage
	// missing are LoadBalancers whose Services are gone from the cluster, though nobody was seen to delete them.
	missing []string
	// holding are the LoadBalancers that hold its deletion.
	holding []string
}

func (r *Reconciler) lease(ctx context.Context, t *v1alpha1.Tenant) (*coordinationv1.Lease, error) {
	l := &coordinationv1.Lease{}
	switch err := r.Client.Get(ctx, types.NamespacedName{Namespace: t.NamespaceName(), Name: v1alpha1.AgentLease}, l); {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading the agent's lease of Tenant %s: %w", t.Name, err)
	}
	return l, nil
}

func describe(f facts) v1alpha1.TenantStatus {
	s := *f.tenant.Status.DeepCopy()
	s.Usage = &f.usage
	held := ""
	if len(f.holding) > 0 {
		held = fmt.Sprintf("LoadBalancers of this Tenant are served on: %s. Delete their Services in its cluster, and the Tenant goes with the last; to end them all at once, set spec.suspend to true.", kit.Some(f.holding))
	}
	kit.SayHeld(&s.Conditions, f.tenant.Generation, held)
	set := func(kind string, status metav1.ConditionStatus, reason, message string) {
		meta.SetStatusCondition(&s.Conditions, metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message, ObservedGeneration: f.tenant.Generation})
	}
	switch namespace := f.tenant.NamespaceName(); {
	case f.terminating:
		set(v1alpha1.ConditionReady, metav1.ConditionFalse, clusterv1.ReasonDeleting, fmt.Sprintf("Namespace %s is being deleted: once it is gone, it is made anew.", namespace))
	case !f.owned:
		set(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonNamespaceTaken,
			fmt.Sprintf("Namespace %s exists and belongs to somebody else: choose another in a new Tenant, or hand it over with the label %s=%s.", namespace, v1alpha1.LabelTenant, f.tenant.Name))
	case f.tenant.Spec.Suspend:
		set(v1alpha1.ConditionReady, metav1.ConditionFalse, clusterv1.ReasonSuspended, "The Tenant is suspended, nothing of it is served: set suspend to false to lift that.")
	default:
		var notes []string
		for _, p := range build.ValidateTenant(f.tenant) {
			notes = append(notes, p.Field+": "+p.Message)
		}
		if len(f.missing) > 0 {
			notes = append(notes, fmt.Sprintf("These LoadBalancers are served on though their Services are missing in the cluster, for nobody was seen to delete them: %s. Each is given up at the time in its annotation %s: create its Service again, or write an earlier time there",
				kit.Some(f.missing), v1alpha1.AnnotationHeldUntil))
		}
		set(v1alpha1.ConditionReady, metav1.ConditionTrue, clusterv1.ReasonReady, strings.Join(notes, "; "))
	}
	if !f.owned {
		return s
	}
	switch over := targetsOver(f.tenant, f.usage); {
	case over != "":
		set(clusterv1.ConditionDegraded, metav1.ConditionTrue, clusterv1.ReasonQuotaExceeded, over)
	case meta.FindStatusCondition(s.Conditions, clusterv1.ConditionDegraded) != nil:
		set(clusterv1.ConditionDegraded, metav1.ConditionFalse, clusterv1.ReasonAsExpected, "")
	}
	s.ClusterUID = uidOf(f.tenant.Cluster())
	if f.lease == nil {
		set(v1alpha1.ConditionAgentConnected, metav1.ConditionFalse, v1alpha1.ReasonAgentNeverSeen, "No agent has come yet: start one with the Tenant's kubeconfig.")
		return s
	}
	cluster := uidOf(f.lease.Annotations[v1alpha1.AnnotationClusterUID])
	if f.tenant.Cluster() == "" {
		s.ClusterUID = cluster // the first contact
	}
	ours := cluster != "" && cluster == s.ClusterUID
	if v := f.lease.Annotations[v1alpha1.AnnotationVersion]; ours && version.MatchString(v) {
		s.AgentVersion = v
	}
	other := uidOf(f.refused)
	if other == "" && !ours && !f.silent {
		other = cluster
	}
	against := ""
	if other != "" && other != s.ClusterUID {
		bound := "cluster " + s.ClusterUID
		if s.ClusterUID == "" {
			bound = "no cluster, for its annotation " + v1alpha1.AnnotationClusterUID + " is no UID"
		}
		against = fmt.Sprintf("The agent of another cluster, %s, asks for this Tenant, which is bound to %s; it is refused. Give it a Tenant of its own; or, if it replaces that cluster, run: kubectl annotate tenant %s --overwrite %s=%s",
			other, bound, f.tenant.Name, v1alpha1.AnnotationClusterUID, other)
	}
	connected := ours && !f.silent
	switch {
	case connected && against != "":
		set(v1alpha1.ConditionAgentConnected, metav1.ConditionTrue, v1alpha1.ReasonOtherCluster, against)
	case connected:
		set(v1alpha1.ConditionAgentConnected, metav1.ConditionTrue, v1alpha1.ReasonAgentConnected, "")
	case against != "":
		set(v1alpha1.ConditionAgentConnected, metav1.ConditionFalse, v1alpha1.ReasonOtherCluster, against)
	case s.ClusterUID == "":
		set(v1alpha1.ConditionAgentConnected, metav1.ConditionFalse, v1alpha1.ReasonAgentNeverSeen, fmt.Sprintf("No agent has come yet that names its cluster by a UID in the annotation %s of its Lease: start one with the Tenant's kubeconfig.", v1alpha1.AnnotationClusterUID))
	case !ours:
		set(v1alpha1.ConditionAgentConnected, metav1.ConditionFalse, v1alpha1.ReasonAgentNeverSeen, fmt.Sprintf("The agent of cluster %s, to which the Tenant is bound, has not come yet: start it with the Tenant's kubeconfig.", s.ClusterUID))
	default:
		set(v1alpha1.ConditionAgentConnected, metav1.ConditionFalse, v1alpha1.ReasonAgentSilent, "The agent has not renewed its Lease for a while: see to it. What it made is served on.")
	}
	return s
}

// What an agent says on its Lease is a tenant's word. It gets into a status, and from there into a command that a person is told
// to run, if it can't be anything but what it is to be.
var (
	uid     = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z._-]{0,63}$`)
	version = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z.+_~-]{0,62}$`)
)

// uidOf is a word that can be a cluster's UID; empty: it is none.
func uidOf(word string) string {
	if !uid.MatchString(word) {
		return ""
	}
	return word
}

// targetsOver says that the Tenant has more targets than it may; empty: it hasn't. Which are left out, their TargetGroups say.
func targetsOver(t *v1alpha1.Tenant, u v1alpha1.TenantUsage) string {
	q := t.Spec.Quota
	if q == nil || q.Targets == nil || u.Targets <= *q.Targets {
		return ""
	}
	return fmt.Sprintf("The Tenant has %d targets and may have %d. Those that were served when it had no more, or might have more, are served on; what came after is left out, as the TargetGroups say: take nodes or targets out, or set a larger spec.quota.targets.", u.Targets, *q.Targets)
}

func describeDeleting(t *v1alpha1.Tenant, loadBalancers, addresses int) v1alpha1.TenantStatus {
	s := *t.Status.DeepCopy()
	kit.SayHeld(&s.Conditions, t.Generation, "")
	meta.SetStatusCondition(&s.Conditions, metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: clusterv1.ReasonDeleting, ObservedGeneration: t.Generation,
		Message: fmt.Sprintf("%d LoadBalancers and %d addresses are still to be released. Where that lasts, the address pools say which proxy holds them up.", loadBalancers, addresses),
	})
	return s
}
