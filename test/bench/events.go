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

// what can be seen of a Service in a watch.
type what string

const (
	// seen: the Service is there.
	seen what = "the Service"
	// granted: the ledger grants it an address.
	granted what = "a grant"
	// published: its address is in its status.
	published what = "the address in its status"
)

// mark is when something was seen of a Service, and which address, if any.
type mark struct {
	done    chan struct{} // closed when the rest is set
	at      time.Time
	address netip.Addr
}

// events notes when things were seen in watches.
type events struct {
	stop context.CancelFunc

	mu    sync.Mutex
	marks map[markOf]*mark
}

type markOf struct {
	what    what
	service string
}

// watchEvents watches until stop: plainly, with no filter and no cache.
func watchEvents(ctx context.Context, f *fleet.Fleet) (*events, error) {
	ctx, stop := context.WithCancel(ctx)
	e := &events{stop: stop, marks: map[markOf]*mark{}}
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
		switch o := event.Object.(type) {
		case *v1.Service:
			e.service(event.Type, o, now)
		case *v1alpha1.Address:
			e.address(event.Type, o, now)
		}
	}
}

func (e *events) service(kind watch.EventType, s *v1.Service, now time.Time) {
	if kind == watch.Deleted {
		e.forget(seen, s.Name)
		e.forget(published, s.Name)
		return
	}
	e.set(seen, s.Name, now, netip.Addr{})
	for _, i := range s.Status.LoadBalancer.Ingress {
		if a, err := netip.ParseAddr(i.IP); err == nil {
			e.set(published, s.Name, now, a)
		}
	}
}

func (e *events) address(kind watch.EventType, a *v1alpha1.Address, now time.Time) {
	for _, h := range a.Spec.Holders {
		// A LoadBalancer is called as its Service, and a hash.
		name := h.Name[:max(0, strings.LastIndexByte(h.Name, '-'))]
		if kind == watch.Deleted || a.Spec.Phase != v1alpha1.AddressGranted {
			e.forget(granted, name)
			continue
		}
		if ip, err := netip.ParseAddr(a.Spec.Address); err == nil {
			e.set(granted, name, now, ip)
		}
	}
}

// of returns the mark, which may still be to come.
func (e *events) of(w what, service string) *mark {
	e.mu.Lock()
	defer e.mu.Unlock()
	key := markOf{w, service}
	m := e.marks[key]
	if m == nil {
		m = &mark{done: make(chan struct{})}
		e.marks[key] = m
	}
	return m
}

// set keeps the first time.
func (e *events) set(w what, service string, at time.Time, a netip.Addr) {
	m := e.of(w, service)
	select {
	case <-m.done:
	default: // the one follower of these objects is the only one that closes
		m.at, m.address = at, a
		close(m.done)
	}
}

func (e *events) forget(w what, service string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.marks, markOf{w, service})
}

// await waits until something is seen of a Service.
func (e *events) await(ctx context.Context, w what, service string) (*mark, error) {
	m := e.of(w, service)
	select {
	case <-m.done:
		return m, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting for %s of %s: %w", w, service, context.Cause(ctx))
	}
}
