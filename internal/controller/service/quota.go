package service

import (
	"fmt"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/internal/ipam"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// Observe notes a Service of the cache.
func (s *Services) Observe(o *corev1.Service) {
	if name := LoadBalancerOf(o); madeFor(o, name) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.made[ipam.Ref{Namespace: o.Namespace, Name: name}] = struct{}{}
	}
}

// ObserveSlice notes an EndpointSlice of the cache: its Service may be gone.
func (s *Services) ObserveSlice(o *discoveryv1.EndpointSlice) {
	if name := LoadBalancerOf(o); name != "" && o.Labels[discoveryv1.LabelManagedBy] == manager {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.made[ipam.Ref{Namespace: o.Namespace, Name: name}] = struct{}{}
	}
}

// Has says whether a LoadBalancer has, or may have, a Service.
func (s *Services) Has(ref ipam.Ref) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.made[ref]
	return ok
}

// Count is how many LoadBalancers of a namespace have a Service.
func (s *Services) Count(namespace string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count(namespace)
}

func (s *Services) count(namespace string) int {
	n := 0
	for ref := range s.made {
		if ref.Namespace == namespace {
			n++
		}
	}
	return n
}

// admit says why the Tenant's quota doesn't allow one more; else the LoadBalancer counts from now on. Who waits longest comes first.
func (s *Services) admit(ref ipam.Ref, w Wanted) *trouble {
	granted := s.Granted(ref.Namespace)
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.made[ref]; known {
		return nil
	}
	if w.Tenant != nil && w.Tenant.Spec.Quota != nil && w.Tenant.Spec.Quota.LoadBalancers != nil {
		bound, used := int(*w.Tenant.Spec.Quota.LoadBalancers), granted+s.count(ref.Namespace)
		created := w.LoadBalancer.CreationTimestamp.Time
		ahead := 0
		for other, since := range s.waiting {
			if other.Namespace == ref.Namespace && (since.Before(created) || since.Equal(created) && other.Name < ref.Name) {
				ahead++
			}
		}
		if used+ahead >= bound {
			s.waiting[ref] = created
			return &trouble{reason: clusterv1.ReasonQuotaExceeded, message: fmt.Sprintf("the Tenant has %d loadbalancers, needs 1 more and may have %d: delete a LoadBalancer, or ask the hub's operator for a larger spec.quota.loadBalancers", used, bound)}
		}
	}
	delete(s.waiting, ref)
	delete(s.taken, ref)
	s.made[ref] = struct{}{}
	return nil
}

// leave takes a LoadBalancer from those that wait; forget from those that have a Service, too.
func (s *Services) leave(ref ipam.Ref) {
	s.mu.Lock()
	_, waited := s.waiting[ref]
	delete(s.waiting, ref)
	delete(s.taken, ref)
	s.mu.Unlock()
	if waited {
		s.wakeWaiting(ref.Namespace)
	}
}

func (s *Services) forget(ref ipam.Ref) {
	s.mu.Lock()
	_, had := s.made[ref]
	delete(s.made, ref)
	s.mu.Unlock()
	if had {
		s.wakeWaiting(ref.Namespace)
		s.WakeWaiters(ref.Namespace)
	}
}

// wakeWaiting has those of a namespace that wait for its quota look again.
func (s *Services) wakeWaiting(namespace string) {
	var refs []ipam.Ref
	s.mu.Lock()
	for ref := range s.waiting {
		if ref.Namespace == namespace {
			refs = append(refs, ref)
		}
	}
	s.mu.Unlock()
	for _, ref := range refs {
		s.Wake(ref)
	}
}

// NamespaceChanged is called when the ledger's count of a namespace's LoadBalancers may be another.
func (s *Services) NamespaceChanged(namespace string) { s.wakeWaiting(namespace) }
