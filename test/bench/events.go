package main

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/fleet"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// events notes when things were seen in watches: a tenant's Service, the ledger's
// grant for it, and the address in its status.
type events struct {
	stop context.CancelFunc

	mu       sync.Mutex
	changed  chan struct{} // closed and replaced at each change
	seen     map[string]time.Time
	granted  map[string]netip.Addr // by Service
	statuses map[string]published
}

type published struct {
	at      time.Time
	address netip.Addr
}

// watchEvents watches until stop. The watches are the fleet's own clients': plain, unfiltered.
func watchEvents(ctx context.Context, f *fleet.Fleet) (*events, error) {
	ctx, stop := context.WithCancel(ctx)
	e := &events{stop: stop, changed: make(chan struct{}), seen: map[string]time.Time{}, granted: map[string]netip.Addr{}, statuses: map[string]published{}}
	services, err := f.Tenants[0].API.Watch(ctx, &v1.ServiceList{}, client.InNamespace(namespace))
	if err != nil {
		stop()
		return nil, fmt.Errorf("watching Services: %w", err)
	}
	addresses, err := f.Hub.API.Watch(ctx, &v1alpha1.AddressList{})
	if err != nil {
		stop()
		return nil, fmt.Errorf("watching the ledger: %w", err)
	}
	go e.follow(services)
	go e.follow(addresses)
	return e, nil
}

func (e *events) follow(w watch.Interface) {
	for event := range w.ResultChan() {
		now := time.Now()
		e.mu.Lock()
		switch o := event.Object.(type) {
		case *v1.Service:
			e.service(event.Type, o, now)
		case *v1alpha1.Address:
			e.address(event.Type, o)
		}
		close(e.changed)
		e.changed = make(chan struct{})
		e.mu.Unlock()
	}
}

func (e *events) service(kind watch.EventType, s *v1.Service, now time.Time) {
	if kind == watch.Deleted {
		delete(e.seen, s.Name)
		delete(e.statuses, s.Name)
		return
	}
	if _, known := e.seen[s.Name]; !known {
		e.seen[s.Name] = now
	}
	if _, known := e.statuses[s.Name]; known || len(s.Status.LoadBalancer.Ingress) == 0 {
		return
	}
	if a, err := netip.ParseAddr(s.Status.LoadBalancer.Ingress[0].IP); err == nil {
		e.statuses[s.Name] = published{now, a}
	}
}

func (e *events) address(kind watch.EventType, a *v1alpha1.Address) {
	for _, h := range a.Spec.Holders {
		// A LoadBalancer is called as its Service, and a hash.
		name := h.Name[:max(0, strings.LastIndexByte(h.Name, '-'))]
		if kind == watch.Deleted || a.Spec.Phase != v1alpha1.AddressGranted {
			delete(e.granted, name)
			continue
		}
		if ip, err := netip.ParseAddr(a.Spec.Address); err == nil {
			e.granted[name] = ip
		}
	}
}

// await waits until get, called with the events locked, says that it has found what it looks for.
func (e *events) await(ctx context.Context, what string, get func() bool) error {
	for {
		e.mu.Lock()
		found, changed := get(), e.changed
		e.mu.Unlock()
		if found {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", what, context.Cause(ctx))
		}
	}
}

// awaitSeen waits until a Service was seen, and returns when.
func (e *events) awaitSeen(ctx context.Context, name string) (at time.Time, err error) {
	err = e.await(ctx, name+" in the watch", func() (found bool) {
		at, found = e.seen[name]
		return found
	})
	return at, err
}

// awaitGrant waits until the ledger grants an address for a Service.
func (e *events) awaitGrant(ctx context.Context, name string) (a netip.Addr, err error) {
	err = e.await(ctx, "a grant for "+name, func() (found bool) {
		a, found = e.granted[name]
		return found
	})
	return a, err
}

// awaitPublished waits until a Service's status has its address.
func (e *events) awaitPublished(ctx context.Context, name string) (p published, err error) {
	err = e.await(ctx, "the address of "+name, func() (found bool) {
		p, found = e.statuses[name]
		return found
	})
	return p, err
}
