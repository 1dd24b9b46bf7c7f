package agent

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/proof"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// leaseReader answers with one Lease, or an error.
type leaseReader struct {
	client.Reader
	lease *coordinationv1.Lease
	err   error
}

func (r *leaseReader) Get(_ context.Context, _ client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	if r.err != nil {
		return r.err
	}
	r.lease.DeepCopyInto(o.(*coordinationv1.Lease))
	return nil
}

// A manager leads while its Lease is seen to be renewed, whatever its clock says.
func TestAManagerBesideIsSeenByItsLease(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	held := func(by string, at time.Time) *leaseReader {
		renewed := metav1.NewMicroTime(at)
		return &leaseReader{lease: &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{HolderIdentity: &by, RenewTime: &renewed}}}
	}
	none := &leaseReader{err: apierrors.NewNotFound(coordinationv1.Resource("leases"), v1alpha1.ManagerLease)}
	hidden := &leaseReader{err: apierrors.NewForbidden(coordinationv1.Resource("leases"), v1alpha1.ManagerLease, nil)}
	away := &leaseReader{err: errors.New("away")}
	early := now.Add(-time.Hour) // by a clock that is behind
	type step struct {
		after   time.Duration
		is      *leaseReader
		still   bool
		changed bool
	}
	for name, steps := range map[string][]step{
		"none":                      {{0, none, false, true}, {besideLook, none, false, false}},
		"one leads, and goes":       {{0, held("m", now), true, true}, {besideLook, held("m", now.Add(time.Second)), true, false}, {besideLook, none, false, true}},
		"one gives its Lease back":  {{0, held("m", now), true, true}, {besideLook, held("", now), false, true}},
		"one dies":                  {{0, held("m", now), true, true}, {proof.Silence - 1, held("m", now), true, false}, {1, held("m", now), false, true}},
		"one died long ago":         {{0, held("m", early), false, true}, {besideLook, held("m", early), false, false}},
		"one whose clock is behind": {{0, held("m", early), false, true}, {besideLook, held("m", early.Add(time.Second)), true, true}},
		"one whose clock is ahead":  {{0, held("m", now.Add(time.Hour)), true, true}, {proof.Silence, held("m", now.Add(time.Hour)), false, true}},
		"it can't be read":          {{0, held("m", now), true, true}, {2 * proof.Silence, away, true, false}, {1, none, false, true}},
		"it was never read":         {{0, away, true, false}, {1, away, true, false}, {1, none, false, true}},
		"it may not be read":        {{0, hidden, false, true}, {1, hidden, false, false}},
		"another one takes it":      {{0, held("m", now), true, true}, {1, held("n", now.Add(time.Second)), true, true}},
	} {
		at := now
		b := newBeside(nil, slog.New(slog.DiscardHandler))
		b.now = func() time.Time { return at }
		for i, s := range steps {
			at, b.tenant = at.Add(s.after), s.is
			changed := b.look(t.Context())
			if why, _ := b.still(); (why != "") != s.still || changed != s.changed {
				t.Errorf("%s, step %d: %q, changed %v", name, i, why, changed)
			}
		}
	}
}

// While one leads a LoadBalancer says why nothing comes of it, once, and the hub is left alone.
func TestBesideAManagerNothingIsMirrored(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := clusterv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	l := &clusterv1.LoadBalancer{ObjectMeta: metav1.ObjectMeta{Namespace: "clusters", Name: "api", Generation: 3}, Spec: clusterv1.LoadBalancerSpec{ClusterName: "prod"}}
	here := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(l).WithObjects(l).Build()
	b := newBeside(nil, slog.New(slog.DiscardHandler))
	r := &mirrors{tenant: here, beside: b, log: b.log, metrics: newMetrics("mgmt")} // a hub that is asked would be none
	is := &clusterv1.LoadBalancer{}
	look := func() *metav1.Condition {
		t.Helper()
		again, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "clusters", Name: "api"}})
		if err != nil || again.RequeueAfter <= 0 || again.RequeueAfter > besideLook {
			t.Fatalf("%+v, %v", again, err)
		}
		if err := here.Get(t.Context(), client.ObjectKeyFromObject(l), is); err != nil {
			t.Fatal(err)
		}
		return meta.FindStatusCondition(is.Status.Conditions, clusterv1.ConditionMirrored)
	}
	if c := look(); c != nil || len(is.Finalizers) > 0 {
		t.Errorf("before anybody has looked it says %+v", c)
	}
	b.looked, b.leader = true, "m"
	c := look()
	if c == nil || c.Status != metav1.ConditionFalse || c.Reason != clusterv1.ReasonStandsStill || c.ObservedGeneration != 3 || len(is.Finalizers) > 0 {
		t.Errorf("it says %+v", c)
	}
	version := is.ResourceVersion
	if look(); is.ResourceVersion != version {
		t.Error("it is written again")
	}
}
