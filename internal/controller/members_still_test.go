package controller_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/member"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// takenName: where the TargetGroup can't be written, the LoadBalancer says so, and a hook goes all the same when its time has passed.
func takenName(f *fleetOf) {
	f.states()
	f.delete(f.lb)
	f.gone(f.lb)
	g := &v1alpha1.TargetGroup{ObjectMeta: metav1.ObjectMeta{Namespace: f.name, Name: "api-members-0"}}
	l := &clusterv1.LoadBalancer{ObjectMeta: metav1.ObjectMeta{Namespace: f.name, Name: "api"}, Spec: f.lb.Spec}
	l.Spec.MachineHooks = &clusterv1.MachineHooks{MaxWait: &metav1.Duration{}, OnMaxWait: clusterv1.OnMaxWaitRelease}
	f.create(g, l)
	f.lb = l
	m := f.machine("a1", "prod")
	f.until("the Machine to be hooked", func(ctx ctx) error {
		if has, err := f.hooked(ctx, m); err != nil || !has {
			return errors.Join(err, errors.New("it is not"))
		}
		return nil
	})
	f.followed("False/WriteFailed")
	f.delete(m)
	f.unhooks(m)
	f.collect(m)
	f.delete(g)
	f.gone(g)
	f.machine("a2", "prod")
	f.followed("True/AsExpected")
	f.states("a2=active")
}

// unnamedCluster: a LoadBalancer that names no Cluster stands still while the one is paused whose Machines its targets are, though
// all of these go, as a move to another hub has it; and beyond that, until others come.
func unnamedCluster(f *fleetOf) {
	f.change(f.lb, func(o client.Object) {
		spec := &o.(*clusterv1.LoadBalancer).Spec
		spec.ClusterName, spec.Selector = "", &metav1.LabelSelector{MatchLabels: map[string]string{member.ControlPlaneLabel: ""}}
		spec.TargetKind = &clusterv1.KindReference{APIGroup: "cluster.x-k8s.io", Kind: "Machine"}
	})
	all := []*unstructured.Unstructured{f.machine("a1", "prod"), f.machine("a2", "prod")}
	f.states("a1=active", "a2=active")
	c := f.newCluster("prod", nil)
	pause := func(on bool) {
		f.change(c, func(o client.Object) {
			if err := unstructured.SetNestedField(o.(*unstructured.Unstructured).Object, on, "spec", "paused"); err != nil {
				f.t.Error(err)
			}
		})
	}
	says := func(words string) {
		f.until(words, func(ctx ctx) error {
			if err := f.api.Get(ctx, client.ObjectKeyFromObject(f.lb), f.lb); err != nil {
				return err
			}
			if c := meta.FindStatusCondition(f.lb.Status.Conditions, clusterv1.ConditionTargetsFollowed); c == nil || !strings.Contains(c.Message, words) {
				return fmt.Errorf("%+v", c)
			}
			return nil
		})
	}
	pause(true)
	says("paused")
	for _, m := range all {
		f.delete(m)
		f.collect(m)
	}
	f.change(f.lb, func(o client.Object) {
		o.(*clusterv1.LoadBalancer).Spec.IdleTimeout = &metav1.Duration{Duration: 1 << 36}
	})
	f.followed("False/StandsStill")
	f.places("a1=Serving", "a2=Serving")
	pause(false)
	says("none of their Machines is there")
	f.places("a1=Serving", "a2=Serving")
	f.machine("a3", "prod")
	f.states("a3=active")
	f.places("a3=Serving")
	f.followed("True/AsExpected")
}

// unclearProxies: where it isn't known who sends to its Machines nothing is held, or let go.
func unclearProxies(f *fleetOf) {
	other := &fleetOf{hub: f.hub, proxy: f.proxy, lb: &clusterv1.LoadBalancer{ObjectMeta: metav1.ObjectMeta{Namespace: f.name, Name: "other"}, Spec: *f.lb.Spec.DeepCopy()}}
	other.lb.Spec.ClassName = "nobodys"
	f.create(other.lb)
	other.followed("False/ClassNotFound")
	if slices.Contains(other.lb.Finalizers, clusterv1.MembersFinalizer) {
		f.t.Errorf("it is held by %v", other.lb.Finalizers)
	}
	f.delete(other.lb)
	f.gone(other.lb)
	f.followed("True/AsExpected")
	byHand := &v1alpha1.TargetGroup{ObjectMeta: metav1.ObjectMeta{Namespace: f.name, Name: "by-hand", Labels: map[string]string{v1alpha1.LabelFor: "api"}}}
	f.create(byHand)
	f.followed("False/StandsStill")
	f.delete(byHand)
	f.followed("True/AsExpected")
}

// rightsTaken: where the manager may not read Machines any more, it says so and leaves all as it is; a deletion waits, and goes on once
// it may again.
func rightsTaken(f *fleetOf) {
	m := f.machine("a1", "prod")
	f.machine("a2", "prod")
	f.states("a1=active", "a2=active")
	b := &rbacv1.ClusterRoleBinding{}
	if err := f.api.Get(f.t.Context(), client.ObjectKey{Name: "fairlead-members"}, b); err != nil {
		f.t.Fatal(err)
	}
	f.delete(b.DeepCopy())
	f.followed("False/NotInstalled")
	f.delete(m)
	f.change(f.lb, func(o client.Object) {
		o.(*clusterv1.LoadBalancer).Spec.IdleTimeout = &metav1.Duration{Duration: 1 << 36}
	})
	f.followed("False/NotInstalled") // of the new generation
	if still, err := f.hooked(f.t.Context(), m); err != nil || !still {
		f.t.Errorf("Machine %s isn't held: %v, %v", m.GetName(), m.GetAnnotations(), err)
	}
	f.places("a1=Serving", "a2=Serving")
	f.create(&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: b.Name}, RoleRef: b.RoleRef, Subjects: b.Subjects})
	f.followed("True/AsExpected")
	f.unhooks(m)
	f.collect(m)
	f.states("a2=active")
}
