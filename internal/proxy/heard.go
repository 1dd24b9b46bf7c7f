package proxy

import (
	"fmt"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
)

// hearsay is what the watch said of the own ProxyReports since it was taken last.
type hearsay struct {
	// listed: these were all that there were at version, before what is in news.
	listed  map[string]heard
	version string
	// news by namespace, the latest.
	news map[string]heard
}

// heard is a report in its newest form, or that it was deleted (nil), at a version.
type heard struct {
	report  *v1alpha1.ProxyReport
	version string
}

func heardOf(r *v1alpha1.ProxyReport) heard { return heard{r, r.ResourceVersion} }

// SetReport takes a report in its newest form. It must not be changed afterwards.
func (o *Own) SetReport(r *v1alpha1.ProxyReport) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.hear(r.Namespace, heardOf(r))
}

// DeleteReport takes the deletion of a namespace's report, with its version.
func (o *Own) DeleteReport(namespace, version string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.hear(namespace, heard{nil, version})
}

// hear is called with the lock held.
func (o *Own) hear(namespace string, h heard) {
	if o.heard.news == nil {
		o.heard.news = map[string]heard{}
	}
	o.heard.news[namespace] = h
	wake(o.reporter)
}

// ReplaceReports takes a whole, consistent list: what is missing in it is gone.
func (o *Own) ReplaceReports(all []*v1alpha1.ProxyReport, version string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.replaceReports(all, version)
}

// replaceReports is called with the lock held.
func (o *Own) replaceReports(all []*v1alpha1.ProxyReport, version string) {
	listed := make(map[string]heard, len(all))
	for _, r := range all {
		listed[r.Namespace] = heardOf(r)
	}
	o.heard = hearsay{listed: listed, version: version}
	wake(o.reporter)
}

func (o *Own) takeReports() hearsay {
	o.mu.Lock()
	defer o.mu.Unlock()
	h := o.heard
	o.heard = hearsay{}
	return h
}

// hear takes in what others made of the reports. What the proxy's own writes
// made is known already, by its version.
func (s *reports) hear(h hearsay) {
	if h.listed != nil {
		for ns := range s.have {
			if _, ok := h.listed[ns]; !ok {
				s.heard[ns] = heard{nil, h.version}
			}
		}
	}
	for _, m := range []map[string]heard{h.listed, h.news} {
		for ns, x := range m {
			s.heard[ns] = x
		}
	}
	for ns, x := range s.heard {
		if s.flying[ns] != nil {
			continue // its answer comes first
		}
		delete(s.heard, ns)
		s.believe(ns, x)
	}
}

// believe makes one namespace's report known as it was heard of, unless that is old.
func (s *reports) believe(ns string, x heard) {
	have := s.have[ns]
	known := have != nil && have.object != nil
	if known && !newer(x.version, have.object.ResourceVersion) || !known && x.report == nil {
		return
	}
	next := &report{object: x.report, foreign: true}
	if x.report != nil {
		next.content = contentOf(x.report)
		s.stands(x.report)
	}
	if have != nil {
		next.written = have.written
	}
	s.have[ns] = next
}

// reportStore is Own as its reflector of ProxyReports sees it; the watch holds one name only.
type reportStore struct {
	own *Own
	era int
}

func (s reportStore) Add(o any) error { return s.Update(o) }
func (s reportStore) Resync() error   { return nil }

func (s reportStore) Update(o any) error {
	return s.with(o, func(r *v1alpha1.ProxyReport) {
		s.own.during(s.era, func() { s.own.hear(r.Namespace, heardOf(r)) })
	})
}

func (s reportStore) Delete(o any) error {
	return s.with(o, func(r *v1alpha1.ProxyReport) {
		s.own.during(s.era, func() { s.own.hear(r.Namespace, heard{nil, r.ResourceVersion}) })
	})
}

func (s reportStore) with(o any, do func(*v1alpha1.ProxyReport)) error {
	r, ok := o.(*v1alpha1.ProxyReport)
	if !ok {
		return fmt.Errorf("watching own reports: got a %T", o)
	}
	do(r)
	return nil
}

func (s reportStore) Replace(list []any, version string) error {
	all := make([]*v1alpha1.ProxyReport, 0, len(list))
	for _, o := range list {
		if err := s.with(o, func(r *v1alpha1.ProxyReport) { all = append(all, r) }); err != nil {
			return err
		}
	}
	s.own.during(s.era, func() { s.own.replaceReports(all, version) })
	return nil
}
