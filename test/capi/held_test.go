package capi_test

import (
	"context"
	"fmt"
	"slices"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/member"
	"fairlead.dev/fairlead/internal/testkit/kubetest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// has waits until the load balancer has that many members, all active and held by its hook, if by any, and sends to none besides.
func (c *cluster) has(n int) {
	c.t.Helper()
	wait(c.t, c.hub.api, c.loadBalancer, soon, fmt.Sprintf("%d members", n), func(l *clusterv1.LoadBalancer) error {
		var names []string
		for _, m := range c.machines() {
			names = append(names, m.Name)
			if hooked := member.Hooked(m.Annotations, l.Name); hooked != (c.members == held) {
				return fmt.Errorf("Machine %s is held: %t, %v", m.Name, hooked, m.Annotations)
			}
		}
		targets, err := c.targets(c.t.Context())
		if err != nil {
			return err
		}
		slices.Sort(names)
		if s := l.Status; len(names) != n || !slices.Equal(s.ActiveTargets, names) || len(s.Targets) != n || !slices.Equal(targets, names) {
			return fmt.Errorf("its Machines are %v, its targets %v, in its status %+v", names, targets, s)
		}
		return nil
	})
}

// drained is an error while a member takes new connections.
func (c *cluster) drained(ctx context.Context, machine string) error {
	list := &v1alpha1.TargetGroupList{}
	if err := c.hub.api.List(ctx, list, client.InNamespace(c.namespace)); err != nil {
		return err
	}
	for _, g := range list.Items {
		for _, t := range g.Spec.Targets {
			if t.Name == machine && t.State != v1alpha1.TargetDraining {
				return fmt.Errorf("it is %q in TargetGroup %s", t.State, g.Name)
			}
		}
	}
	return nil
}

// targets are those of all TargetGroups, by name.
func (c *cluster) targets(ctx context.Context) ([]string, error) {
	list := &v1alpha1.TargetGroupList{}
	if err := c.hub.api.List(ctx, list, client.InNamespace(c.namespace)); err != nil {
		return nil, err
	}
	var names []string
	for _, g := range list.Items {
		for _, t := range g.Spec.Targets {
			names = append(names, t.Name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// deleteLoadBalancer deletes the load balancer, and waits until nothing of it is left, its TargetGroups among that where it made them.
func (c *cluster) deleteLoadBalancer() {
	c.t.Helper()
	l := c.loadBalancer
	if err := c.hub.api.Delete(c.t.Context(), l); err != nil {
		c.t.Fatal(err)
	}
	kubetest.Eventually(c.t, soon, nameOf(l)+" to be gone, with its TargetGroups", func(ctx context.Context) error {
		if err := c.hub.api.Get(ctx, client.ObjectKeyFromObject(l), l); err == nil {
			return fmt.Errorf("it is there: %+v", l.Status)
		} else if client.IgnoreNotFound(err) != nil {
			return err
		}
		if c.members == written {
			return nil
		}
		groups := &v1alpha1.TargetGroupList{}
		if err := c.hub.api.List(ctx, groups, client.InNamespace(c.namespace)); err != nil {
			return err
		}
		if n := len(groups.Items); n > 0 {
			return fmt.Errorf("there are %d TargetGroups", n)
		}
		return nil
	})
}
