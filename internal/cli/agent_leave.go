package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/internal/build"
	"fairlead.dev/fairlead/internal/controller/kit"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// unhold takes off a management cluster's LoadBalancers over Machines what holds them until a hub has let go: nobody would say so.
func (h *Hub) unhold(ctx context.Context, out *Leave) error {
	all, o := &clusterv1.LoadBalancerList{}, &Objects{}
	found, err := list(ctx, h, o, "loadbalancers", all, func(l *clusterv1.LoadBalancerList) []clusterv1.LoadBalancer { return l.Items })
	if err == nil && o.hidden("loadbalancers") {
		err = errors.New("you may not list LoadBalancers of all namespaces, whose finalizers are to go: use the kubeconfig of Cluster API's operator")
	}
	if err != nil {
		return err
	}
	freed := 0
	var failed []error
	for _, l := range found {
		if !build.OfMachines(l) || !heldHere(l) {
			continue
		}
		if err := h.unholdOne(ctx, l); err != nil {
			failed = append(failed, err)
			continue
		}
		freed++
	}
	if len(failed) > 0 {
		return errors.Join(failed...)
	}
	out.Message += fmt.Sprintf(", and %s no finalizer of its", count(freed, "LoadBalancer"))
	return nil
}

func heldHere(l *clusterv1.LoadBalancer) bool {
	_, noted := l.Annotations[clusterv1.HubAnnotation]
	return noted || slices.ContainsFunc(l.Finalizers, ofAgent)
}

func ofAgent(finalizer string) bool {
	return finalizer == clusterv1.MirrorFinalizer || finalizer == clusterv1.MembersFinalizer
}

func (h *Hub) unholdOne(ctx context.Context, l *clusterv1.LoadBalancer) error {
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		next := l.DeepCopy()
		next.Finalizers = slices.DeleteFunc(next.Finalizers, ofAgent)
		delete(next.Annotations, clusterv1.HubAnnotation)
		err := h.client.Patch(ctx, next, client.MergeFromWithOptions(l, client.MergeFromWithOptimisticLock{}), client.FieldOwner(kit.FieldManager))
		if apierrors.IsConflict(err) {
			return errors.Join(h.client.Get(ctx, client.ObjectKeyFromObject(l), l), err)
		}
		return err
	})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("writing LoadBalancer %s/%s: %w", l.Namespace, l.Name, err)
	}
	return nil
}
