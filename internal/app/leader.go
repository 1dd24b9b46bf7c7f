package app

import (
	"context"
	"fmt"
	"os"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/version"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// leaderLock is the leaders' Lease in the system namespace, which says the leader's version. It writes no events.
func leaderLock(cfg *rest.Config, name string) (resourcelock.Interface, error) {
	c, err := coordinationclient.NewForConfig(rest.AddUserAgent(rest.CopyConfig(cfg), "leader-election"))
	if err != nil {
		return nil, fmt.Errorf("making a client for leader election: %w", err)
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("naming this process: %w", err)
	}
	return &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: v1alpha1.SystemNamespace, Name: name},
		Client:     versioned{c},
		LockConfig: resourcelock.ResourceLockConfig{Identity: host + "_" + string(uuid.NewUUID())},
	}, nil
}

// versioned writes this build's version on each Lease that it writes, at no write more: whoever leads renews anyway.
type versioned struct {
	coordinationclient.LeasesGetter
}

func (v versioned) Leases(namespace string) coordinationclient.LeaseInterface {
	return versionedLeases{v.LeasesGetter.Leases(namespace)}
}

type versionedLeases struct {
	coordinationclient.LeaseInterface
}

func (v versionedLeases) Create(ctx context.Context, l *coordinationv1.Lease, o metav1.CreateOptions) (*coordinationv1.Lease, error) {
	return v.LeaseInterface.Create(ctx, withVersion(l), o)
}

func (v versionedLeases) Update(ctx context.Context, l *coordinationv1.Lease, o metav1.UpdateOptions) (*coordinationv1.Lease, error) {
	return v.LeaseInterface.Update(ctx, withVersion(l), o)
}

func withVersion(l *coordinationv1.Lease) *coordinationv1.Lease {
	l = l.DeepCopy()
	metav1.SetMetaDataAnnotation(&l.ObjectMeta, v1alpha1.AnnotationVersion, version.String())
	return l
}
