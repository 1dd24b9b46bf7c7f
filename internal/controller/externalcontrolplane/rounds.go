package externalcontrolplane

import (
	"context"
	"sync"
	"time"

	controlplanev1 "fairlead.dev/fairlead/api/controlplane/v1beta1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// whileWell is between two probes of a control plane that is available, and whileNot else.
	whileWell = 10 * time.Second
	whileNot  = 5 * time.Second
	// repeat is how soon a probe is repeated that fails where the last one didn't.
	repeat = time.Second
	// jitter is which part of a pause may come on top, at random, so that many control planes aren't asked at once.
	jitter = 0.2
	// believed is how many probes in succession fail until an available control plane counts as unavailable.
	believed = 2
)

// subject is what a round's probes are of. With another one, what was found counts no more.
type subject struct {
	uid        types.UID
	generation int64
	cluster    types.UID
}

// probe asks one control plane, and takes its time, but not for ever. nil: the hub didn't answer, and nothing was found.
type probe func(context.Context) *Found

// rounds asks each control plane again and again, at most once at a time. It is safe for concurrent use.
type rounds struct {
	// wake is called when a probe has ended.
	wake func(types.NamespacedName)

	mu      sync.Mutex
	ended   bool
	all     map[types.NamespacedName]*round
	running sync.WaitGroup
}

// round is that of one control plane.
type round struct {
	of     subject
	held   *Found // what is believed; nil: nothing yet
	spare  int    // how many probes may fail before that is believed
	due    time.Time
	cancel context.CancelFunc // of the probe that runs; nil: none does
}

func newRounds(wake func(types.NamespacedName)) *rounds {
	return &rounds{wake: wake, all: map[types.NamespacedName]*round{}}
}

// look returns what is believed of a control plane, nil for nothing yet, and when to look again, 0 for when it wakes. It begins a
// probe if one is due. available is what is shown of it, by whomever.
func (r *rounds) look(key types.NamespacedName, of subject, available bool, p probe) (*Found, time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	x := r.all[key]
	if x == nil || x.of != of {
		r.drop(key)
		x = &round{of: of}
		if available {
			x.spare = believed - 1
		}
		r.all[key] = x
	}
	switch pause := time.Until(x.due); {
	case x.cancel != nil || r.ended:
		return x.held, 0
	case pause > 0:
		return x.held, pause
	}
	ctx, cancel := context.WithCancel(context.Background())
	x.cancel = cancel
	r.running.Go(func() {
		defer cancel()
		got := p(ctx)
		r.end(key, x, got)
	})
	return x.held, 0
}

// end takes in what a probe found, unless nobody asks for it any more.
func (r *rounds) end(key types.NamespacedName, x *round, got *Found) {
	r.mu.Lock()
	if r.all[key] != x || r.ended {
		r.mu.Unlock()
		return
	}
	x.cancel = nil
	x.due = time.Now().Add(wait.Jitter(x.take(got), jitter))
	r.mu.Unlock()
	r.wake(key)
}

// take believes what was found, or not yet, and returns the pause until the next probe.
func (x *round) take(got *Found) time.Duration {
	switch {
	case got == nil:
		return whileNot
	case got.available():
		x.held, x.spare = got, believed-1
		return whileWell
	case got.passes() && x.spare > 0:
		x.spare--
		return repeat
	}
	x.held, x.spare = got, 0
	return whileNot
}

// passes says that what was found may be over in a moment.
func (f Found) passes() bool {
	return f.Reason == controlplanev1.ReasonUnreachable || f.Reason == controlplanev1.ReasonNotReady
}

// forget ends what is asked of a control plane.
func (r *rounds) forget(key types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drop(key)
}

func (r *rounds) drop(key types.NamespacedName) {
	if x := r.all[key]; x != nil && x.cancel != nil {
		x.cancel()
	}
	delete(r.all, key)
}

// stop ends all probes, and returns when they have ended.
func (r *rounds) stop() {
	r.mu.Lock()
	r.ended = true
	for key := range r.all {
		r.drop(key)
	}
	r.mu.Unlock()
	r.running.Wait()
}
