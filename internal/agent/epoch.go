package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/agent/service"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// epochWriters at LoadBalancers that the hub lacks.
	epochWriters = 16
	// epochPause is between two looks through all objects; after each that failed twice as long, at most epochPauseMost.
	epochPause     = time.Second
	epochPauseMost = time.Minute
)

// epochs brings the hub's objects up to date after the hub has become another, and notes its epoch: the hub's word that
// it has waited for. It believes no cache of the hub's.
type epochs struct {
	services *services
	nodes    *nodes
	mirrors  *mirrors // nil: none are
	contact  *Contact
	bond     *Bond
	noted    func()
	log      *slog.Logger
}

// Start looks through all objects until one look finds nothing to write.
func (e *epochs) Start(ctx context.Context) error {
	began, pause := time.Now(), epochPause
	for e.bond.noted.Load() < e.bond.epoch {
		wrote, err := e.round(ctx)
		if err == nil && wrote == 0 {
			e.bond.noted.Store(e.bond.epoch)
			e.log.Info("the hub has all objects of this epoch", "epoch", e.bond.epoch, "after", time.Since(began).Round(time.Millisecond))
			e.noted()
			return nil
		}
		if err != nil && ctx.Err() == nil {
			e.log.Warn("not all objects are in the hub yet, trying again", "epoch", e.bond.epoch, "err", err)
		}
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return nil
		}
		if pause = min(2*pause, epochPauseMost); err == nil {
			pause = epochPause
		}
	}
	return nil
}

// round compares everything once, and counts what it wrote.
func (e *epochs) round(ctx context.Context) (wrote int64, err error) {
	groups := &v1alpha1.TargetGroupList{}
	if err := e.contact.hub.List(ctx, groups, client.InNamespace(e.contact.namespace)); err != nil {
		return 0, fmt.Errorf("listing TargetGroups: %w", err)
	}
	n, _, err := e.nodes.round(ctx, groups)
	if err != nil && !lasting(err) {
		return 0, err
	}
	list := &clusterv1.LoadBalancerList{}
	if err := e.contact.hub.List(ctx, list, client.InNamespace(e.contact.namespace)); err != nil {
		return 0, fmt.Errorf("listing LoadBalancers: %w", err)
	}
	if e.mirrors != nil {
		mirrored, err := e.mirrors.round(ctx, list.Items, groups.Items)
		if err != nil {
			return 0, err
		}
		n += mirrored
	}
	backends := map[string]*v1alpha1.TargetGroup{}
	for i := range groups.Items {
		backends[groups.Items[i].Name] = &groups.Items[i]
	}
	have := map[string]*clusterv1.LoadBalancer{}
	for i := range list.Items {
		have[list.Items[i].Name] = &list.Items[i]
	}
	all := &v1.ServiceList{}
	if err := e.services.tenant.List(ctx, all); err != nil {
		return 0, fmt.Errorf("listing Services: %w", err)
	}
	var count atomic.Int64
	var failed atomic.Pointer[error]
	var writers sync.WaitGroup
	queue := make(chan *v1.Service)
	for range epochWriters {
		writers.Go(func() {
			for s := range queue {
				name := service.Name(service.Key(s))
				did, err := e.mend(ctx, s, have[name], backends[name])
				if err != nil {
					failed.Store(&err)
				}
				if did {
					count.Add(1)
				}
			}
		})
	}
	for i := range all.Items {
		queue <- &all.Items[i]
	}
	close(queue)
	writers.Wait()
	if err := failed.Load(); err != nil {
		return 0, *err
	}
	return n + count.Load(), nil
}

// mend writes the LoadBalancer of a Service that should have one where l, the hub's, is not as it should be, and so with g, the
// TargetGroup of its own. What is being replaced, is another's, or is refused for good isn't waited for.
func (e *epochs) mend(ctx context.Context, s *v1.Service, l *clusterv1.LoadBalancer, g *v1alpha1.TargetGroup) (did bool, err error) {
	if service.Decide(e.services.filter, s, l) != service.Serve || l != nil && (l.DeletionTimestamp != nil || !service.MadeFrom(l, s)) {
		return false, nil
	}
	want := e.services.want(s, l)
	if l != nil && want.Reborn(l) {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, attempt)
	defer cancel()
	if want.Fronts {
		if _, did, _, err = e.services.backends.ensure(ctx, s, l, g); err != nil && !lasting(err) {
			return false, err
		}
	}
	if l != nil && want.Same(l) {
		return did, nil
	}
	if _, err := e.services.ensure(ctx, s, l, want); err != nil {
		if lasting(err) {
			return did, nil
		}
		return false, err
	}
	return true, nil
}

// lasting says that the hub refuses all these writes for what they say, or because there are as many objects as may be:
// to wait for them would be to wait for a person.
func lasting(err error) bool {
	if all, ok := err.(interface{ Unwrap() []error }); ok {
		return !slices.ContainsFunc(all.Unwrap(), func(err error) bool { return !lasting(err) })
	}
	return errors.Is(err, errTaken) || apierrors.IsInvalid(err) || apierrors.IsForbidden(err) && strings.Contains(err.Error(), "exceeded quota")
}
