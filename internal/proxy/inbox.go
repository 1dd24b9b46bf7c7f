package proxy

import (
	"fmt"
	"sync"
	"time"
)

// Inbox collects what the watches deliver until the loop takes it. A list, and
// what comes after a watch was opened, waits until the hub is confirmed to be
// the one that it was; confirm.go has that part. All its methods may be called
// from any goroutine.
type Inbox struct {
	mu       sync.Mutex
	known    [resources]map[Key]Object
	versions Versions
	pending  []Change
	// earlier are changes of the era before this one, which nobody took yet.
	earlier []Change
	since   time.Time
	changed chan struct{}
	events  func(Resource, string)
	doubts
}

func newInbox(events func(Resource, string)) *Inbox {
	in := &Inbox{changed: make(chan struct{}, 1), events: events, doubts: newDoubts()}
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
	// Complete: each resource was listed at least once in this era.
	Complete bool
	// Era is raised when the hub is not the one that it was: Changes are from its beginning on, and Earlier those of
	// the era before that were not taken in it.
	Era     int
	Earlier []Change
	// Frozen is how the hub has changed; nil: it is the one that was served.
	Frozen *HubChange
	// Epoch was adopted last, Thawed is Memory.Thawed.
	Epoch, Thawed int64
	// Sure is Inbox.Sure.
	Sure bool
}

// take empties the Inbox.
func (in *Inbox) take() Delivery {
	in.mu.Lock()
	defer in.mu.Unlock()
	d := Delivery{
		Changes: in.pending, Versions: in.versions, Since: in.since, Complete: true,
		Era: in.era, Earlier: in.earlier, Frozen: in.frozen, Epoch: in.memory.Epoch, Thawed: in.memory.Thawed, Sure: in.answered == in.asked,
	}
	for _, v := range in.versions {
		d.Complete = d.Complete && v != ""
	}
	in.pending, in.earlier, in.since = nil, nil, time.Time{}
	return d
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
	b := batchOf(o)
	in.mu.Lock()
	defer in.mu.Unlock()
	in.deliver(r, b)
}

// Delete takes an event that says that an object is gone, with the version of
// its deletion.
func (in *Inbox) Delete(r Resource, k Key, version string) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.deliver(r, batch{objects: map[Key]Object{k: nil}, version: version})
}

// Replace takes a whole, consistent list: what is missing in it is gone. The
// Inbox owns the objects from now on.
func (in *Inbox) Replace(r Resource, objects []Object, version string) {
	b := wholeOf(objects, version)
	in.mu.Lock()
	defer in.mu.Unlock()
	in.replace(r, b)
}

// replace is called with the lock held.
func (in *Inbox) replace(r Resource, b batch) {
	in.events(r, "list")
	in.unlisted[r] = false
	in.open(r)
	in.deliver(r, b)
}

// Bookmark takes word that everything up to version was delivered.
func (in *Inbox) Bookmark(r Resource, version string) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.bookmark(r, version)
}

// bookmark is called with the lock held.
func (in *Inbox) bookmark(r Resource, version string) {
	in.events(r, "bookmark")
	in.deliver(r, batch{version: version})
}

func batchOf(o Object) batch {
	version := o.GetResourceVersion()
	strip(o)
	return batch{objects: map[Key]Object{keyOf(o): o}, version: version}
}

func wholeOf(objects []Object, version string) batch {
	b := batch{whole: true, objects: make(map[Key]Object, len(objects)), version: version}
	for _, o := range objects {
		strip(o)
		b.objects[keyOf(o)] = o
	}
	return b
}

// takeIn makes a batch known. It is called with the lock held.
func (in *Inbox) takeIn(r Resource, b batch) {
	for k, o := range b.objects {
		old := in.known[r][k]
		switch {
		case o != nil && old != nil && servedAlike(old, o):
			in.events(r, "same")
		case o != nil:
			if in.frozen != nil {
				in.memory.Heard = max(in.memory.Heard, epochsOf(o)[0])
			}
			in.events(r, "set")
			in.known[r][k] = o
			in.add(Change{r, k, o})
		case old != nil:
			in.forget(r, k)
		}
	}
	if b.whole {
		for k := range in.known[r] {
			if b.objects[k] == nil {
				in.forget(r, k)
			}
		}
	}
	in.advance(r, b.version)
	wake(in.changed)
}

func (in *Inbox) forget(r Resource, k Key) {
	in.events(r, "delete")
	delete(in.known[r], k)
	in.add(Change{r, k, nil})
}

// store is the Inbox as one resource's reflector sees it, in one era: what it still says after that is of another hub.
type store struct {
	in       *Inbox
	resource Resource
	era      int
}

func (s store) Add(o any) error    { return s.Update(o) }
func (s store) Resync() error      { return nil }
func (s store) Update(o any) error { return s.with(o, func(o Object) { s.deliver(batchOf(o)) }) }

func (s store) Delete(o any) error {
	return s.with(o, func(o Object) {
		s.deliver(batch{objects: map[Key]Object{keyOf(o): nil}, version: o.GetResourceVersion()})
	})
}

func (s store) deliver(b batch) { s.in.during(s.era, func() { s.in.deliver(s.resource, b) }) }

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
	b := wholeOf(objects, version)
	s.in.during(s.era, func() { s.in.replace(s.resource, b) })
	return nil
}

func (s store) Bookmark(version string) error {
	s.in.during(s.era, func() { s.in.bookmark(s.resource, version) })
	return nil
}
