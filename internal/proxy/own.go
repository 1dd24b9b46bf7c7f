package proxy

import (
	"fmt"
	"sync"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
)

// Own holds what the hub says of this proxy's own objects: its Proxy, and its
// ProxyReports until the reporter takes that. Its methods may be called from
// any goroutine.
type Own struct {
	inbox      *Inbox
	mu         sync.Mutex
	era        int
	heard      hearsay
	object     *v1alpha1.Proxy
	version    string
	listed     bool
	registered bool
	leaving    bool
	loop       chan struct{}
	reporter   chan struct{}
	lease      chan struct{}
}

func newOwn(in *Inbox) *Own {
	return &Own{inbox: in, loop: make(chan struct{}, 1), reporter: make(chan struct{}, 1), lease: make(chan struct{}, 1)}
}

func (o *Own) wake() {
	wake(o.loop)
	wake(o.reporter)
	wake(o.lease)
}

func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// reset forgets all: it was of another hub.
func (o *Own) reset() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.era++
	o.heard, o.object, o.version, o.listed, o.registered = hearsay{}, nil, "", false, false
	o.wake()
}

// during runs f, with the lock held, unless the hub has become another since that era: versions of two hubs can't be compared.
func (o *Own) during(era int, f func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if era == o.era {
		f()
	}
}

// heed takes a fence that a live read found, in that era; nil: there is no Proxy. False: the hub has become another since.
func (o *Own) heed(era int, px *v1alpha1.Proxy) (same bool) {
	o.during(era, func() {
		same = true
		if px != nil && px.Spec.Fenced != nil {
			o.set(px, px.ResourceVersion)
		}
	})
	return same
}

// Deleted takes the watch's word that the object was deleted.
func (o *Own) Deleted(version string) {
	o.inbox.OwnDeleted()
	o.Set(nil, version)
}

// Set takes the object in its newest form; nil: it is gone. It must not be changed afterwards.
func (o *Own) Set(px *v1alpha1.Proxy, version string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.set(px, version)
}

// set is called with the lock held.
func (o *Own) set(px *v1alpha1.Proxy, version string) {
	o.listed = true
	if version != "" && !newer(version, o.version) {
		return
	}
	o.object, o.version = px, version
	o.wake()
}

// setRegistered takes the object in which this boot stands.
func (o *Own) setRegistered(era int, px *v1alpha1.Proxy) {
	o.during(era, func() {
		o.registered = true
		o.set(px, px.ResourceVersion)
		o.wake()
	})
}

// ownState is Own at one moment.
type ownState struct {
	// Known: the object was read, and this boot stands in it.
	Known bool
	Fence *v1alpha1.Fence
	// Leaving: this process serves nothing any more, whatever the hub says.
	Leaving bool
}

func (o *Own) state() ownState {
	o.mu.Lock()
	defer o.mu.Unlock()
	s := ownState{Known: o.listed && o.registered, Leaving: o.leaving}
	if o.object != nil {
		s.Fence = o.object.Spec.Fenced
	}
	if s.Leaving && s.Fence == nil {
		s.Fence = &v1alpha1.Fence{By: "fairlead proxy leave", Reason: "it leaves"}
	}
	return s
}

// leave has this process serve nothing any more.
func (o *Own) leave() {
	o.mu.Lock()
	o.leaving = true
	o.mu.Unlock()
	o.wake()
}

func (o *Own) latest() (px *v1alpha1.Proxy, listed bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.object, o.listed
}

// asked is what a manager asks that has not heard of this proxy; empty: nothing.
func (o *Own) asked() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.object == nil {
		return ""
	}
	return o.object.Annotations[v1alpha1.AnnotationAsked]
}

// ownStore is Own as its reflector sees it; the watch holds one name only.
type ownStore struct {
	own *Own
	era int
}

func (s ownStore) Add(o any) error { return s.Update(o) }
func (s ownStore) Resync() error   { return nil }

func (s ownStore) Update(o any) error {
	px, ok := o.(*v1alpha1.Proxy)
	if !ok {
		return fmt.Errorf("watching the own Proxy: got a %T", o)
	}
	s.own.during(s.era, func() { s.own.set(px, px.ResourceVersion) })
	return nil
}

func (s ownStore) Delete(o any) error {
	px, ok := o.(*v1alpha1.Proxy)
	if !ok {
		return fmt.Errorf("watching the own Proxy: got a %T", o)
	}
	s.own.inbox.during(s.era, s.own.inbox.ownDeleted)
	s.own.during(s.era, func() { s.own.set(nil, px.ResourceVersion) })
	return nil
}

func (s ownStore) Replace(list []any, version string) error {
	s.own.inbox.during(s.era, s.own.inbox.doubt) // Nothing that this list lacks counts before the hub is known to be the same.
	if len(list) == 0 {
		s.own.during(s.era, func() { s.own.set(nil, version) })
		return nil
	}
	return s.Update(list[0])
}
