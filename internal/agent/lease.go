package agent

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/version"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1 "k8s.io/client-go/applyconfigurations/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	leasePeriod = 60 * time.Second
	leaseRetry  = 5 * time.Second
)

// lease tells the hub that this agent is at work, and for which cluster.
type lease struct {
	tenant    client.Reader // live
	hub       client.Client
	namespace string
	instance  string
	log       *slog.Logger
	metrics   *metrics
}

// Start renews until ctx ends.
func (l *lease) Start(ctx context.Context) error {
	clusterUID := ""
	for {
		wait := leasePeriod
		if err := l.renew(ctx, &clusterUID); err != nil {
			l.log.Warn("lease not renewed", "namespace", l.namespace, "err", err)
			wait = leaseRetry
		}
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return nil
		}
	}
}

func (l *lease) renew(ctx context.Context, clusterUID *string) error {
	ctx, cancel := context.WithTimeout(ctx, leaseRetry)
	defer cancel()
	if *clusterUID == "" {
		ns := &v1.Namespace{}
		if err := l.tenant.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, ns); err != nil {
			return fmt.Errorf("reading the cluster's UID: %w", err)
		}
		*clusterUID = string(ns.UID)
	}
	now := metav1.NowMicro()
	apply := coordinationv1.Lease(v1alpha1.AgentLease, l.namespace).
		WithAnnotations(map[string]string{v1alpha1.AnnotationClusterUID: *clusterUID, v1alpha1.AnnotationVersion: version.String()}).
		WithSpec(coordinationv1.LeaseSpec().
			WithHolderIdentity(l.instance).
			WithLeaseDurationSeconds(int32(3 * leasePeriod / time.Second)).
			WithRenewTime(now))
	err := l.hub.Apply(ctx, apply, client.FieldOwner(fieldManager), client.ForceOwnership)
	l.metrics.wrote(hubCluster, "lease", err)
	if err != nil {
		return fmt.Errorf("applying Lease %s: %w", v1alpha1.AgentLease, err)
	}
	l.metrics.leaseRenewed.Set(float64(now.Unix()))
	return nil
}
