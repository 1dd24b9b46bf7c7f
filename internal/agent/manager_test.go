package agent_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// manager plays the hub's: it grants each LoadBalancer an address, says that it is served, and
// drops the finalizer of what is being deleted.
type manager struct {
	testing.TB
	api       client.WithWatch
	namespace string
	stop      func()

	mu      sync.Mutex
	refuse  map[string]refusal // by the Service's name
	keep    bool               // finalizers
	granted map[types.UID]string
	next    int
	changed chan struct{}
}

type refusal struct{ condition, reason, message string }

func playManager(t testing.TB, api client.WithWatch, namespace string) *manager {
	ctx, cancel := context.WithCancel(context.Background())
	m := &manager{TB: t, api: api, namespace: namespace, refuse: map[string]refusal{}, granted: map[types.UID]string{}, changed: make(chan struct{}, 1)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			m.round(ctx)
		}
	}()
	m.stop = func() {
		cancel()
		<-done
	}
	return m
}

// set changes how it answers, and answers anew.
func (m *manager) set(change func(*manager)) {
	m.mu.Lock()
	change(m)
	m.mu.Unlock()
	select {
	case m.changed <- struct{}{}:
	default:
	}
}

// round lists, then follows a watch until it ends or the answers change.
func (m *manager) round(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	list := &clusterv1.LoadBalancerList{}
	if err := m.api.List(ctx, list, client.InNamespace(m.namespace)); err != nil {
		m.pause(ctx)
		return
	}
	for i := range list.Items {
		m.answer(ctx, &list.Items[i])
	}
	w, err := m.api.Watch(ctx, &clusterv1.LoadBalancerList{}, client.InNamespace(m.namespace), &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.ResourceVersion}})
	if err != nil {
		m.pause(ctx)
		return
	}
	defer w.Stop()
	for {
		select {
		case e, ok := <-w.ResultChan():
			l, isLB := e.Object.(*clusterv1.LoadBalancer)
			if !ok || !isLB {
				return
			}
			m.answer(ctx, l)
		case <-m.changed:
			return
		case <-ctx.Done():
			return
		}
	}
}

func (m *manager) pause(ctx context.Context) {
	t := time.NewTimer(20 * time.Millisecond) // between two tries at an API server that is away
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

func (m *manager) answer(ctx context.Context, l *clusterv1.LoadBalancer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if l.DeletionTimestamp != nil {
		if !m.keep && len(l.Finalizers) > 0 {
			next := l.DeepCopy()
			next.Finalizers = nil
			_ = m.api.Patch(ctx, next, client.MergeFrom(l)) // tried again with the next list
		}
		return
	}
	next := l.DeepCopy()
	next.Status = m.judge(l)
	if !equality.Semantic.DeepEqual(next.Status, l.Status) {
		_ = m.api.Status().Patch(ctx, next, client.MergeFrom(l))
	}
}

func (m *manager) judge(l *clusterv1.LoadBalancer) clusterv1.LoadBalancerStatus {
	s := *l.Status.DeepCopy()
	set := func(kind string, status metav1.ConditionStatus, reason, message string) {
		meta.SetStatusCondition(&s.Conditions, metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message, ObservedGeneration: l.Generation})
	}
	for name, r := range m.refuse {
		if l.Annotations["fairlead.dev/origin"] == "Service/"+originNamespace(m.namespace)+"/"+name {
			set(r.condition, metav1.ConditionFalse, r.reason, r.message)
			return s
		}
	}
	address, ok := m.granted[l.UID]
	if !ok {
		m.next++
		address = fmt.Sprintf("198.51.%d.%d", 100+m.next/250, 1+m.next%250)
		if len(l.Spec.Addresses) > 0 {
			address = l.Spec.Addresses[0]
		}
		m.granted[l.UID] = address
	}
	s.Addresses = []clusterv1.LoadBalancerAddress{{Type: clusterv1.AddressTypeIP, Value: address, Family: clusterv1.IPv4, Pool: "public"}}
	s.Targets = []clusterv1.TargetStatus{{Name: "nodes-0"}}
	set(clusterv1.ConditionAccepted, metav1.ConditionTrue, clusterv1.ReasonAccepted, "")
	set(clusterv1.ConditionAddressGranted, metav1.ConditionTrue, clusterv1.ReasonAddressGranted, "")
	set(clusterv1.ConditionProgrammed, metav1.ConditionTrue, clusterv1.ReasonProgrammed, "")
	return s
}

// originNamespace is the tenant's namespace of a test, by the hub's.
func originNamespace(hub string) string { return hub[len("hub-"):] }
