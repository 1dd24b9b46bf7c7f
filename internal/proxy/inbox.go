package proxy

import (
	"fmt"
	"sync"
	"time"
)

// Inbox collects what the watches deliver until the loop takes it. All its
// methods may be called from any goroutine.
type Inbox struct {
	mu       sync.Mutex
	known    [resources]map[Key]Object
	versions Versions
	pending  []Change
	since    time.Time
	changed  chan struct{}
	events   func(Resource, string)
}

func newInbox(events func(Resource, string)) *Inbox {
	in := &Inbox{changed: make(chan struct{}, 1), events: events}
	for r := range in.known {
		in.known[r] = map[Key]Object{}
	}
	return in
}

// Delivery is what the Inbox held at one moment: the changes since the last
// one, and the versions up to which that is everything.
type Delivery struct {
	Changes  []Change
	Versions Versions
	// Since is when the first of Changes came.
	Since time.Time
	// Complete: each resource was listed at least once.
	Complete bool
}

// take empties the Inbox.
func (in *Inbox) take() Delivery {
	in.mu.Lock()
	defer in.mu.Unlock()
	d := Delivery{Changes: in.pending, Versions: in.versions, Since: in.since, Complete: true}
	for _, v := range in.versions {
		d.Complete = d.Complete && v != ""
	}
	in.pending, in.since = nil, time.Time{}
	return d
}

func (in *Inbox) wake() {
	select {
	case in.changed <- struct{}{}:
	default:
	}
}

// add is called with the lock held.
func (in *Inbox) add(c Change) {
	if in.since.IsZero() {
		in.since = time.Now()
	}
	in.pending = append(in.pending, c)
}

// advance is called with the lock held.
func (in *Inbox) advance(r Resource, version string) {
	if newer(version, in.versions[r]) {
		in.versions[r] = version
	}
}

// Set takes an event that says that an object is there, in this form. The
// Inbox owns o from now on.
func (in *Inbox) Set(r Resource, o Object) {
	version := o.GetResourceVersion()
	strip(o)
	in.mu.Lock()
	defer in.mu.Unlock()
	in.set(r, o)
	in.advance(r, version)
	in.wake()
}

func (in *Inbox) set(r Resource, o Object) {
	k := keyOf(o)
	if old := in.known[r][k]; old != nil && servedAlike(old, o) {
		in.events(r, "same")
		return
	}
	in.events(r, "set")
	in.known[r][k] = o
	in.add(Change{r, k, o})
}

// Delete takes an event that says that an object is gone, with the version of
// its deletion.
func (in *Inbox) Delete(r Resource, k Key, version string) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.delete(r, k)
	in.advance(r, version)
	in.wake()
}

func (in *Inbox) delete(r Resource, k Key) {
	if in.known[r][k] == nil {
		return
	}
	in.events(r, "delete")
	delete(in.known[r], k)
	in.add(Change{r, k, nil})
}

// Replace takes a whole, consistent list: what is missing in it is gone. The
// Inbox owns the objects from now on.
func (in *Inbox) Replace(r Resource, objects []Object, version string) {
	for _, o := range objects {
		strip(o)
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	listed := make(map[Key]bool, len(objects))
	for _, o := range objects {
		listed[keyOf(o)] = true
		in.set(r, o)
	}
	for k := range in.known[r] {
		if !listed[k] {
			in.delete(r, k)
		}
	}
	in.advance(r, version)
	in.events(r, "list")
	in.wake()
}

// Bookmark takes word that everything up to version was delivered.
func (in *Inbox) Bookmark(r Resource, version string) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.advance(r, version)
	in.events(r, "bookmark")
	in.wake()
}

// store is the Inbox as one resource's reflector sees it.
type store struct {
	in       *Inbox
	resource Resource
}

func (s store) Add(o any) error    { return s.Update(o) }
func (s store) Resync() error      { return nil }
func (s store) Update(o any) error { return s.with(o, func(o Object) { s.in.Set(s.resource, o) }) }

func (s store) Delete(o any) error {
	return s.with(o, func(o Object) { s.in.Delete(s.resource, keyOf(o), o.GetResourceVersion()) })
}

func (s store) with(o any, do func(Object)) error {
	obj, ok := o.(Object)
	if !ok {
		return fmt.Errorf("watching %s: got a %T", s.resource, o)
	}
	do(obj)
	return nil
}

func (s store) Replace(list []any, version string) error {
	objects := make([]Object, 0, len(list))
	for _, o := range list {
		if err := s.with(o, func(o Object) { objects = append(objects, o) }); err != nil {
			return err
		}
	}
	s.in.Replace(s.resource, objects, version)
	return nil
}

func (s store) Bookmark(version string) error {
	s.in.Bookmark(s.resource, version)
	return nil
}
