package main

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/fleet"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// what can be seen of a Service in a watch.
type what string

const (
	// seen: the Service is there.
	seen what = "the Service"
	// wanted: its LoadBalancer is in the hub.
	wanted what = "its LoadBalancer"
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
	// programmed are the LoadBalancers that are.
	programmed map[client.ObjectKey]struct{}
}

type markOf struct {
	what    what
	service string
}

// watchEvents watches until stop: plainly, with no filter and no cache.
func watchEvents(ctx context.Context, f *fleet.Fleet) (*events, error) {
	ctx, stop := context.WithCancel(ctx)
	e := &events{stop: stop, marks: map[markOf]*mark{}, programmed: map[client.ObjectKey]struct{}{}}
	for _, kind := range []struct {
		of   client.ObjectList
		api  client.WithWatch
		opts client.ListOptions
	}{
		{&v1.ServiceList{}, f.Tenants[0].API, client.ListOptions{Namespace: namespace}},
		{&v1alpha1.AddressList{}, f.Hub.API, client.ListOptions{}},
		{&clusterv1.LoadBalancerList{}, f.Hub.API, client.ListOptions{}},
	} {
		if err := kind.api.List(ctx, kind.of, &kind.opts); err != nil {
			stop()
			return nil, fmt.Errorf("listing %T: %w", kind.of, err)
		}
		go e.follow(ctx, kind.of.GetResourceVersion(), func(version string) (watch.Interface, error) {
			o := kind.opts
			o.Raw = &metav1.ListOptions{ResourceVersion: version}
			return kind.api.Watch(ctx, kind.of, &o)
		})
	}
	return e, nil
}

// follow takes in what comes after a version. An API server ends the watch of a client that is slow, as
// this one is on a busy machine: it goes on where it was.
func (e *events) follow(ctx context.Context, version string, open func(version string) (watch.Interface, error)) {
	for ctx.Err() == nil {
		w, err := open(version)
		if err != nil {
			if ctx.Err() == nil {
				say("watching goes on later: %v", err)
			}
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
			continue
		}
		for event := range w.ResultChan() {
			now := time.Now()
			switch o := event.Object.(type) {
			case *v1.Service:
				e.service(event.Type, o, now)
				version = o.ResourceVersion
			case *v1alpha1.Address:
				e.address(event.Type, o, now)
				version = o.ResourceVersion
			case *clusterv1.LoadBalancer:
				e.loadBalancer(event.Type, o, now)
				version = o.ResourceVersion
			}
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
		name := serviceOf(h.Name)
		if kind == watch.Deleted || a.Spec.Phase != v1alpha1.AddressGranted {
			e.forget(granted, name)
			continue
		}
		if ip, err := netip.ParseAddr(a.Spec.Address); err == nil {
			e.set(granted, name, now, ip)
		}
	}
}

func (e *events) loadBalancer(kind watch.EventType, l *clusterv1.LoadBalancer, now time.Time) {
	if kind == watch.Deleted {
		e.forget(wanted, serviceOf(l.Name))
	} else {
		e.set(wanted, serviceOf(l.Name), now, netip.Addr{})
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if kind != watch.Deleted && meta.IsStatusConditionTrue(l.Status.Conditions, clusterv1.ConditionProgrammed) {
		e.programmed[client.ObjectKeyFromObject(l)] = struct{}{}
	} else {
		delete(e.programmed, client.ObjectKeyFromObject(l))
	}
}

// serviceOf names the Service of a LoadBalancer, which is called as that, and a hash.
func serviceOf(loadBalancer string) string {
	return loadBalancer[:max(0, strings.LastIndexByte(loadBalancer, '-'))]
}

// countProgrammed counts the LoadBalancers that are programmed.
func (e *events) countProgrammed() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.programmed)
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
