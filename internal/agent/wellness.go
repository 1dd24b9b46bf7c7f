package agent

import (
	"context"
	"fmt"
	"strconv"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/agent/node"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// wholeCluster is what an event is about that concerns the whole tenant cluster. Such events are in the namespace default.
func wholeCluster(uid string) v1.ObjectReference {
	return v1.ObjectReference{APIVersion: "v1", Kind: "Namespace", Name: metav1.NamespaceSystem, UID: types.UID(uid)}
}

// wellness tells once, whatever the number of Services, that no Node passes its check, and that one does again: all
// Services share the Nodes. One goroutine runs it.
type wellness struct {
	hub        client.Client
	namespace  string
	clusterUID string
	events     *recorder

	began time.Time // since when we have seen it; zero: one may pass
	told  string    // the event that tells it; empty: none yet
}

// Reconcile looks at all groups of Nodes.
func (r *wellness) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	list := &v1alpha1.TargetGroupList{}
	if err := r.hub.List(ctx, list, client.InNamespace(r.namespace)); err != nil {
		return reconcile.Result{}, fmt.Errorf("listing TargetGroups: %w", err)
	}
	groups := groupsOf(list)
	if node.WayOf(groups) == node.ByPort {
		// A port that is refused may be that of one Service without Pods.
		r.over("Nodes are checked otherwise (" + v1alpha1.ReasonCheckedByPort + "): that none passes kube-proxy's check says nothing any more")
		return reconcile.Result{}, nil
	}
	why, since := node.Unwell(groups)
	if why == "" {
		r.over("A node passes its health check again: Services are answered")
		return reconcile.Result{}, nil
	}
	if r.began.IsZero() {
		r.began = time.Now()
	}
	if lasts := time.Since(r.began); lasts < tellAfter {
		return reconcile.Result{RequeueAfter: tellAfter - lasts}, nil
	}
	// Named after when it began, so that the next agent doesn't repeat it.
	if name := "fairlead-agent.unhealthy." + strconv.FormatInt(since.Unix(), 16); r.told == "" {
		r.told = name
		r.events.tell(happening{about: wholeCluster(r.clusterUID), name: name, warning: true, reason: v1alpha1.ReasonMembersUnhealthy,
			note: why + ", so that no Service of type LoadBalancer may be answered: see to the nodes, or ask the hub's operator whether the proxies reach them"})
	}
	return reconcile.Result{}, nil
}

// over tells that what was told is so no more, if it was told.
func (r *wellness) over(note string) {
	if r.told != "" {
		r.events.tell(happening{about: wholeCluster(r.clusterUID), name: r.told + ".over", reason: clusterv1.ReasonAsExpected, note: note})
	}
	r.began, r.told = time.Time{}, ""
}

// turns lets through TargetGroups of which all members have begun or ended to fail, and those whose members are checked another way.
var turns = predicate.TypedFuncs[*v1alpha1.TargetGroup]{
	CreateFunc: func(e event.TypedCreateEvent[*v1alpha1.TargetGroup]) bool { return isGroup(e.Object) },
	DeleteFunc: func(e event.TypedDeleteEvent[*v1alpha1.TargetGroup]) bool { return isGroup(e.Object) },
	UpdateFunc: func(e event.TypedUpdateEvent[*v1alpha1.TargetGroup]) bool {
		sick := func(g *v1alpha1.TargetGroup) bool {
			why, _ := node.Unwell([]*v1alpha1.TargetGroup{g})
			return why != ""
		}
		return isGroup(e.ObjectNew) && (sick(e.ObjectOld) != sick(e.ObjectNew) || e.ObjectOld.CheckedByPort() != e.ObjectNew.CheckedByPort() || len(e.ObjectOld.Spec.Targets) != len(e.ObjectNew.Spec.Targets))
	},
}
