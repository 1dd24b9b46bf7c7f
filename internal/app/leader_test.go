package app

import (
	"context"
	"testing"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/version"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// oneLease keeps the Lease that was written last.
type oneLease struct {
	coordinationclient.LeaseInterface
	is *coordinationv1.Lease
}

func (l *oneLease) Leases(string) coordinationclient.LeaseInterface { return l }

func (l *oneLease) Get(context.Context, string, metav1.GetOptions) (*coordinationv1.Lease, error) {
	return l.is.DeepCopy(), nil
}

func (l *oneLease) Create(_ context.Context, x *coordinationv1.Lease, _ metav1.CreateOptions) (*coordinationv1.Lease, error) {
	l.is = x
	return x.DeepCopy(), nil
}

func (l *oneLease) Update(_ context.Context, x *coordinationv1.Lease, _ metav1.UpdateOptions) (*coordinationv1.Lease, error) {
	return l.Create(context.Background(), x, metav1.CreateOptions{})
}

// The leaders' Lease says the version of who wrote it last, and keeps what else is there.
func TestTheLeadersLeaseSaysItsVersion(t *testing.T) {
	stored := &oneLease{}
	lock := &resourcelock.LeaseLock{Client: versioned{stored}}
	if err := lock.Create(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: "a"}); err != nil {
		t.Fatal(err)
	}
	if got := stored.is.Annotations[v1alpha1.AnnotationVersion]; got != version.String() {
		t.Errorf("created with version %q", got)
	}
	stored.is.Annotations = map[string]string{v1alpha1.AnnotationVersion: "v0.1.0", "example.com/note": "x"}
	if _, _, err := lock.Get(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := lock.Update(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: "b"}); err != nil {
		t.Fatal(err)
	}
	if got := stored.is.Annotations; got[v1alpha1.AnnotationVersion] != version.String() || got["example.com/note"] != "x" || *stored.is.Spec.HolderIdentity != "b" {
		t.Errorf("renewed as %+v", stored.is)
	}
}
