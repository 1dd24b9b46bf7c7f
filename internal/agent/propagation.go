package agent

import (
	"maps"
	"sync"
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
)

// propagation measures how long what a user did to a Service took until the proxies served it so: both as this process saw
// it, by its own clock. What it didn't see begin is not measured: what was there when it started, or came while it was away.
// A Service that is changed again before it is served counts once, from the first change. It is safe for concurrent use.
type propagation struct {
	observe func(event string, took time.Duration)

	mu      sync.Mutex
	changes map[types.NamespacedName]change
}

// change is what a user did and the proxies may not serve yet.
type change struct {
	event string
	seen  time.Time
	// version of the Service that has it all.
	version string
	// written: the hub was told something of it. Else there was nothing to tell, and nothing to measure.
	written bool
}

// Events that are measured.
const (
	eventCreated = "created"
	eventChanged = "changed"
)

func newPropagation(observe func(event string, took time.Duration)) *propagation {
	return &propagation{observe: observe, changes: map[types.NamespacedName]change{}}
}

// seen notes that a user did something, which the Service has in this version.
func (p *propagation) seen(key types.NamespacedName, event, version string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c, known := p.changes[key]
	if !known {
		c = change{event: event, seen: time.Now()}
	}
	c.version = version
	p.changes[key] = c
}

// wrote notes that the hub was told.
func (p *propagation) wrote(key types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c, known := p.changes[key]; known {
		c.written = true
		p.changes[key] = c
	}
}

// served ends the measurement: the proxies serve the Service as it stands in this version.
func (p *propagation) served(key types.NamespacedName, version string) {
	p.mu.Lock()
	c, known := p.changes[key]
	if known && older(version, c.version) {
		p.mu.Unlock()
		return // it was changed since
	}
	delete(p.changes, key)
	p.mu.Unlock()
	if known && c.written {
		p.observe(c.event, time.Since(c.seen))
	}
}

// forget ends it too: it is refused, or not ours any more.
func (p *propagation) forget(key types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.changes, key)
}

// byUser tells a change of what a Service wants from one of its status, or of our finalizer and mark.
func byUser(before, after *v1.Service) bool {
	return !equality.Semantic.DeepEqual(before.Spec, after.Spec) || !maps.Equal(wishes(before), wishes(after))
}

// wishes are a Service's annotations without those that we write.
func wishes(s *v1.Service) map[string]string {
	w := maps.Clone(s.Annotations)
	delete(w, v1alpha1.AnnotationLoadBalancer)
	delete(w, v1alpha1.AnnotationPublished)
	return w
}
