package agent

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/version"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apply "k8s.io/client-go/applyconfigurations/coordination/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	leasePeriod = 60 * time.Second
	leaseRetry  = 5 * time.Second
)

// lease tells the hub that this agent is at work, for which cluster and in which epoch; and looks each time whether both
// clusters still are those of the Bond. When they aren't, it ends the agent's life with the reason: the next one begins
// with fresh caches.
type lease struct {
	contact *Contact
	bond    *Bond
	// now asks for a look and a renewal at once.
	now     chan struct{}
	log     *slog.Logger
	metrics *metrics

	// newest are the objects of the hub that changed last, as the caches know them.
	newest func(context.Context) ([]client.Object, error)

	wrote metav1.MicroTime // the last renewal
}

// Start renews until ctx ends, or the Bond is broken.
func (l *lease) Start(ctx context.Context) error {
	for {
		wait := leasePeriod
		switch broken, err := l.renew(ctx); {
		case broken != nil && ctx.Err() == nil:
			return broken
		case err != nil:
			l.log.Warn("lease not renewed", "namespace", l.contact.namespace, "err", err)
			wait = leaseRetry
		}
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-l.now:
			t.Stop()
		case <-ctx.Done():
			t.Stop()
			return nil
		}
	}
}

// soon asks for a look and a renewal at once.
func (l *lease) soon() {
	select {
	case l.now <- struct{}{}:
	default:
	}
}

// renew looks, then writes. broken is why the agent's life ends.
func (l *lease) renew(ctx context.Context) (broken, err error) {
	s, err := l.contact.look(ctx)
	if err != nil && s.clusterUID != "" {
		return nil, err
	}
	if err == nil { // A tenant that is away changes nothing: it is waited for.
		if broken := l.bond.broken(s); broken != nil {
			return broken, nil
		}
	}
	if broken, err := l.outlived(ctx); broken != nil || err != nil {
		return broken, err
	}
	is, err := l.contact.lease(ctx)
	if err != nil {
		return nil, err
	}
	if broken := l.older(is); broken != nil {
		return broken, nil
	}
	l.wrote, err = renewLease(ctx, l.contact.hub, l.contact.namespace, l.contact.instance, l.bond.clusterUID, l.bond.noted.Load())
	l.metrics.wrote(hubCluster, "lease", err)
	if err != nil {
		return nil, err
	}
	l.metrics.leaseRenewed.Set(float64(l.wrote.Unix()))
	return nil, nil
}

// older says that the hub's Lease is from before the last write.
func (l *lease) older(is *coordinationv1.Lease) error {
	if !l.wrote.IsZero() && (is == nil || is.Spec.RenewTime == nil || is.Spec.RenewTime.Before(&l.wrote)) {
		return errOlderHub
	}
	return nil
}

// outlived says that the hub has not yet come to what our caches hold: a copy from before was restored. Its versions
// alone don't tell, for they may have grown past ours. What was deleted just now costs a life for nothing.
func (l *lease) outlived(ctx context.Context) (broken, err error) {
	known, err := l.newest(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, leaseRetry)
	defer cancel()
	for _, k := range known {
		is, ok := k.DeepCopyObject().(client.Object)
		if !ok {
			continue
		}
		switch err := l.contact.hub.Get(ctx, client.ObjectKeyFromObject(k), is); {
		case apierrors.IsNotFound(err):
			return errOlderHub, nil
		case err != nil:
			return nil, fmt.Errorf("reading %s in the hub: %w", k.GetName(), err)
		case older(is.GetResourceVersion(), k.GetResourceVersion()):
			return errOlderHub, nil
		}
	}
	return nil, nil
}

// lease reads the agent's Lease in the hub; nil: there is none.
func (c *Contact) lease(ctx context.Context) (*coordinationv1.Lease, error) {
	ctx, cancel := context.WithTimeout(ctx, leaseRetry)
	defer cancel()
	l := &coordinationv1.Lease{}
	switch err := c.hub.Get(ctx, client.ObjectKey{Namespace: c.namespace, Name: v1alpha1.AgentLease}, l); {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading Lease %s in the hub: %w", v1alpha1.AgentLease, err)
	}
	return l, nil
}

// notedEpoch is the epoch that a Lease says; 0: none.
func notedEpoch(l *coordinationv1.Lease) int64 {
	n, err := strconv.ParseInt(l.Annotations[v1alpha1.AnnotationEpoch], 10, 64)
	if err != nil {
		return 0 // then everything is looked through again
	}
	return n
}

// renewLease writes the agent's Lease, and returns the time that it wrote.
func renewLease(ctx context.Context, hub client.Client, namespace, instance, clusterUID string, epoch int64) (metav1.MicroTime, error) {
	ctx, cancel := context.WithTimeout(ctx, leaseRetry)
	defer cancel()
	says := map[string]string{v1alpha1.AnnotationClusterUID: clusterUID, v1alpha1.AnnotationVersion: version.String()}
	if epoch > 0 {
		says[v1alpha1.AnnotationEpoch] = strconv.FormatInt(epoch, 10)
	}
	now := metav1.NewMicroTime(time.Now().Truncate(time.Microsecond))
	a := apply.Lease(v1alpha1.AgentLease, namespace).WithAnnotations(says).WithSpec(apply.LeaseSpec().
		WithHolderIdentity(instance).
		WithLeaseDurationSeconds(int32(3 * leasePeriod / time.Second)).
		WithRenewTime(now))
	if err := hub.Apply(ctx, a, client.FieldOwner(fieldManager), client.ForceOwnership); err != nil {
		return metav1.MicroTime{}, fmt.Errorf("applying Lease %s: %w", v1alpha1.AgentLease, err)
	}
	return now, nil
}

// refusedOnLease says on the Lease, which stays whose it is, that another cluster asks for the Tenant.
func refusedOnLease(ctx context.Context, hub client.Client, namespace, clusterUID string) error {
	ctx, cancel := context.WithTimeout(ctx, leaseRetry)
	defer cancel()
	a := apply.Lease(v1alpha1.AgentLease, namespace).WithAnnotations(map[string]string{
		v1alpha1.AnnotationRefused: clusterUID + " " + time.Now().UTC().Format(time.RFC3339),
	})
	if err := hub.Apply(ctx, a, client.FieldOwner(fieldManager+"-refused"), client.ForceOwnership); err != nil {
		return fmt.Errorf("applying Lease %s: %w", v1alpha1.AgentLease, err)
	}
	return nil
}

// onReturn calls back when an API server answers again that couldn't be reached: it may not be the one that it was.
func onReturn(cfg *rest.Config, back func()) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	cfg.Wrap(func(rt http.RoundTripper) http.RoundTripper { return &returning{next: rt, back: back} })
	return cfg
}

type returning struct {
	next http.RoundTripper
	back func()
	away atomic.Bool
}

// WrappedRoundTripper lets client-go find the transport below.
func (r *returning) WrappedRoundTripper() http.RoundTripper { return r.next }

func (r *returning) RoundTrip(q *http.Request) (*http.Response, error) {
	res, err := r.next.RoundTrip(q)
	switch {
	case err != nil && q.Context().Err() == nil:
		r.away.Store(true)
	case err == nil && res.StatusCode == http.StatusOK && r.away.CompareAndSwap(true, false):
		r.back()
	}
	return res, err
}
