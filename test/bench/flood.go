package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// floodBound is how many times longer a change of another tenant may take beside a flood, the median.
	floodBound = 2
	// floodedSingles are made without and beside it.
	floodedSingles = 15
	// floodedObjects are those that are written again and again.
	floodedObjects = 20
)

// measureFlood has one tenant change what it wants as fast as it is answered, and another one create a Service.
func (h *hollow) measureFlood(ctx context.Context) error {
	alone, aloneWay, err := h.answers(ctx, "alone")
	if err != nil {
		return err
	}
	stop := h.flood(ctx)
	began, done := time.Now(), h.startProfiles("flood")
	beside, way, err := h.answers(ctx, "beside")
	err = errors.Join(err, done())
	taken := stop()
	if err != nil {
		return err
	}
	if taken == 0 {
		return fmt.Errorf("nothing of the flood was taken: nothing was measured")
	}
	h.add(fmt.Sprintf("one more beside a tenant that floods, at %d: answers, median of %d", h.options.loadBalancers, floodedSingles), "ms",
		milliseconds(beside), floodBound*milliseconds(alone), fmt.Sprintf("twice that without: %.1f ms, %s; beside it %s; the flood: %d clients, %.0f changes a second, and what follows from them",
			milliseconds(alone), aloneWay, way, many, float64(taken)/time.Since(began).Seconds()))
	return nil
}

// answers is how long one Service more takes to answer, the median, and where on the way it was when.
func (h *hollow) answers(ctx context.Context, prefix string) (_ time.Duration, way string, _ error) {
	var took, asked, given []time.Duration
	for i := range floodedSingles {
		name := fmt.Sprintf("%s-%02d", prefix, i)
		began := time.Now()
		if err := h.bench.tenant.API.Create(ctx, service(name, benchClass)); err != nil {
			return 0, "", fmt.Errorf("creating %s: %w", name, err)
		}
		want, err := h.events.await(ctx, wanted, name)
		if err != nil {
			return 0, "", err
		}
		grant, err := h.events.await(ctx, granted, name)
		if err != nil {
			return 0, "", err
		}
		answered, err := h.answered(ctx, grant.address)
		if err != nil {
			return 0, "", err
		}
		took, asked, given = append(took, answered.Sub(began)), append(asked, want.at.Sub(began)), append(given, grant.at.Sub(began))
		if err := h.deleteAll(ctx, []string{name}); err != nil {
			return 0, "", err
		}
	}
	return quantile(took, 0.5), fmt.Sprintf("in the hub after %.0f, granted after %.0f", milliseconds(quantile(asked, 0.5)), milliseconds(quantile(given, 0.5))), nil
}

// flood writes until the function that it returns is called, which returns how many writes were taken.
func (h *hollow) flood(ctx context.Context) (stop func() int64) {
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	var taken atomic.Int64
	t := h.tenants[0]
	for i := range many {
		all.Go(func() {
			for n := i; ctx.Err() == nil; n += many {
				was := t.loadBalancer(n % min(floodedObjects, t.made))
				l := &clusterv1.LoadBalancer{}
				l.Namespace, l.Name = was.Namespace, was.Name
				patch := fmt.Sprintf(`{"spec":{"ports":[{"name":"http","port":%d,"protocol":"TCP","targetPort":80}]}}`, hollowPort+n%1000)
				if t.hub.Patch(ctx, l, client.RawPatch(types.MergePatchType, []byte(patch))) == nil {
					taken.Add(1)
				}
			}
		})
	}
	return func() int64 {
		cancel()
		all.Wait()
		return taken.Load()
	}
}
