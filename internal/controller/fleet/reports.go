package fleet

import (
	"fmt"
	"slices"
	"strconv"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/proof"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
)

// ReportStore takes what a watch of ProxyReports delivers.
type ReportStore interface {
	toolscache.ReflectorStore
	// Bookmark says that everything up to version was delivered.
	Bookmark(version string) error
}

// Reports is the store that a Runner's reflector fills.
func (f *Fleet) Reports() ReportStore { return reportStore{f} }

// reportStore is what the reflector of ProxyReports fills.
type reportStore struct{ f *Fleet }

func (s reportStore) Add(obj any) error    { return s.set(obj) }
func (s reportStore) Update(obj any) error { return s.set(obj) }

func (s reportStore) set(obj any) error {
	r, ok := obj.(*v1alpha1.ProxyReport)
	if !ok {
		return fmt.Errorf("storing a ProxyReport: got %T", obj)
	}
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	s.f.replace(r.Name, r.Namespace, r)
	s.f.reach(r.ResourceVersion)
	return nil
}

func (s reportStore) Delete(obj any) error {
	r, ok := obj.(*v1alpha1.ProxyReport)
	if !ok {
		return fmt.Errorf("forgetting a ProxyReport: got %T", obj)
	}
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	s.f.replace(r.Name, r.Namespace, nil)
	s.f.reach(r.ResourceVersion)
	return nil
}

// Replace takes a list that is complete up to version.
func (s reportStore) Replace(list []any, version string) error {
	s.f.mu.Lock()
	reached := s.f.reached
	s.f.mu.Unlock()
	if v, err := proof.ParseVersion(version); err == nil && v < reached {
		s.f.wentBack("the list of ProxyReports", strconv.FormatUint(uint64(reached), 10), version)
	}
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	gone := map[types.NamespacedName]struct{}{}
	for proxy, byNamespace := range s.f.reports {
		for namespace := range byNamespace {
			gone[types.NamespacedName{Namespace: namespace, Name: proxy}] = struct{}{}
		}
	}
	for _, obj := range list {
		r, ok := obj.(*v1alpha1.ProxyReport)
		if !ok {
			return fmt.Errorf("storing ProxyReports: got %T", obj)
		}
		delete(gone, types.NamespacedName{Namespace: r.Namespace, Name: r.Name})
		s.f.replace(r.Name, r.Namespace, r)
	}
	for r := range gone {
		s.f.replace(r.Name, r.Namespace, nil)
	}
	s.f.reach(version)
	s.f.once.Do(func() { close(s.f.reading) })
	return nil
}

// Bookmark says that everything up to version was delivered.
func (s reportStore) Bookmark(version string) error {
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	s.f.reach(version)
	return nil
}

func (reportStore) Resync() error { return nil }

// reach notes that all reports up to version are known; f.mu is held.
func (f *Fleet) reach(version string) {
	v, err := proof.ParseVersion(version)
	if err != nil || v <= f.reached {
		return
	}
	before := f.reached
	f.reached = v
	for _, p := range f.proxies {
		// Only who waited for this is concerned.
		if written, err := proof.ParseVersion(p.Status.Reports); err == nil && written > before && written <= v {
			f.touch(p.Spec.Pool)
		}
	}
}

// replace swaps one report and notes what that concerns; f.mu is held.
func (f *Fleet) replace(proxy, namespace string, next *v1alpha1.ProxyReport) {
	old := f.reports[proxy][namespace]
	switch {
	case next != nil:
		if f.reports[proxy] == nil {
			f.reports[proxy] = map[string]*v1alpha1.ProxyReport{}
		}
		f.reports[proxy][namespace] = next
	case old != nil:
		delete(f.reports[proxy], namespace)
	default:
		return
	}
	if old == nil {
		old = &v1alpha1.ProxyReport{}
	}
	if next == nil {
		next = &v1alpha1.ProxyReport{}
	}
	about := func(r v1alpha1.RefusedFrontend) string { return r.LoadBalancer }
	for _, name := range slices.Concat(differing(old.Refused, next.Refused, about), differing(old.ServedWithout, next.ServedWithout, about)) {
		f.change.LoadBalancers[types.NamespacedName{Namespace: namespace, Name: name}] = struct{}{}
	}
	for _, name := range differing(old.Members, next.Members, func(m v1alpha1.ReportedMember) string { return m.TargetGroup }) {
		f.change.TargetGroups[types.NamespacedName{Namespace: namespace, Name: name}] = struct{}{}
	}
	if p := f.proxies[proxy]; p != nil {
		f.touch(p.Spec.Pool)
	}
	f.notify()
}

// differing returns the keys whose entries differ between two lists.
func differing[E comparable](a, b []E, key func(E) string) []string {
	if slices.Equal(a, b) {
		return nil
	}
	group := func(list []E) map[string][]E {
		m := map[string][]E{}
		for _, e := range list {
			m[key(e)] = append(m[key(e)], e)
		}
		return m
	}
	ga, gb := group(a), group(b)
	var out []string
	for k, es := range ga {
		if !slices.Equal(es, gb[k]) {
			out = append(out, k)
		}
	}
	for k := range gb {
		if _, ok := ga[k]; !ok {
			out = append(out, k)
		}
	}
	return out
}
