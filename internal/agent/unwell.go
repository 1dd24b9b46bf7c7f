package agent

import (
	"context"
	"fmt"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/agent/service"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// addUnwell adds to the verdict on a Service that is served that none of its targets has passed its check
// for a while. again says when that may be so.
func (r *services) addUnwell(ctx context.Context, s *v1.Service, l *clusterv1.LoadBalancer, v service.Verdict) (_ service.Verdict, again time.Duration, err error) {
	key := service.Key(s)
	if l == nil || !v.Good() {
		return v, 0, nil
	}
	var groups []*v1alpha1.TargetGroup
	for _, t := range l.Status.Targets {
		g := &v1alpha1.TargetGroup{}
		err := r.hub.Get(ctx, types.NamespacedName{Namespace: l.Namespace, Name: t.Name}, g)
		if err != nil && !apierrors.IsNotFound(err) {
			return v, 0, fmt.Errorf("reading TargetGroup %s: %w", t.Name, err)
		}
		if err == nil {
			groups = append(groups, g)
		}
	}
	why := service.Unwell(groups)
	if why == "" {
		r.unwell.ends(key)
		return v, 0, nil
	}
	if lasts := r.unwell.holds(key); lasts < tellAfter && !service.SaysUnwell(s) {
		return v, tellAfter - lasts, nil
	}
	return service.ButUnwell(v, why), 0, nil
}

// turns lets through TargetGroups of which all members have begun or ended to fail.
var turns = predicate.TypedFuncs[*v1alpha1.TargetGroup]{
	CreateFunc: func(event.TypedCreateEvent[*v1alpha1.TargetGroup]) bool { return false },
	DeleteFunc: func(event.TypedDeleteEvent[*v1alpha1.TargetGroup]) bool { return false },
	UpdateFunc: func(e event.TypedUpdateEvent[*v1alpha1.TargetGroup]) bool {
		sick := func(g *v1alpha1.TargetGroup) bool { return service.Unwell([]*v1alpha1.TargetGroup{g}) != "" }
		return sick(e.ObjectOld) != sick(e.ObjectNew)
	},
}

// usersOf wakes the Services that a TargetGroup serves.
func (r *services) usersOf(ctx context.Context, g *v1alpha1.TargetGroup) []reconcile.Request {
	list := &clusterv1.LoadBalancerList{}
	if err := r.hub.List(ctx, list, client.InNamespace(g.Namespace)); err != nil {
		r.log.Error("load balancers can't be listed", "targetgroup", g.Name, "err", err)
		return nil
	}
	var out []reconcile.Request
	for i := range list.Items {
		for _, t := range list.Items[i].Status.Targets {
			if key, ok := service.Origin(&list.Items[i]); ok && t.Name == g.Name {
				out = append(out, reconcile.Request{NamespacedName: key})
			}
		}
	}
	return out
}
