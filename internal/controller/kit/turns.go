package kit

import (
	"maps"
	"slices"
	"sync"
	"time"
)

const (
	// turnsRest is for how many times the length of a turn its lane rests after it, turnsRestMost how long at most.
	turnsRest     = 3
	turnsRestMost = 2 * time.Second
	// TurnsAgain is after how long a key asks for its turn again, if it isn't woken before.
	TurnsAgain = 2 * time.Second
)

// Turns has what goes on changing be followed a change at a time in each lane, such as a tenant, with a rest after each that is
// longer where that took long: whoever changes much waits for himself, and takes a part of one server's time at most, however slow
// that is. Several changes of a key that waits are followed as one. It is safe for concurrent use.
type Turns[K comparable] struct {
	wake func(K)

	mu       sync.Mutex
	followed map[K]string // the content
	lanes    map[string]*lane[K]
}

// lane is where one turn is taken at a time.
type lane[K comparable] struct {
	taken   bool
	free    time.Time // when it has rested
	waiting []K       // in their order
}

// NewTurns returns Turns in which every key is new. wake is told of keys that may ask again.
func NewTurns[K comparable](wake func(K)) *Turns[K] {
	return &Turns[K]{wake: wake, followed: map[K]string{}, lanes: map[string]*lane[K]{}}
}

// Take takes a key's turn to follow its content; nil: it is another's, and the key is woken. over is to be called when all that
// follows was done. What was followed already needs no turn, nor does a key that is new.
func (t *Turns[K]) Take(name string, key K, content string) (over func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	was, known := t.followed[key]
	l := t.lanes[name]
	if !known || was == content {
		t.followed[key] = content
		t.leave(l, key)
		return func() {}
	}
	now := time.Now()
	if l == nil {
		maps.DeleteFunc(t.lanes, func(_ string, l *lane[K]) bool { return !l.taken && len(l.waiting) == 0 && l.free.Before(now) })
		l = &lane[K]{}
		t.lanes[name] = l
	}
	first := len(l.waiting) == 0 || l.waiting[0] == key
	if l.taken || now.Before(l.free) || !first && now.Before(l.free.Add(TurnsAgain)) {
		if !slices.Contains(l.waiting, key) {
			l.waiting = append(l.waiting, key)
		}
		return nil
	}
	l.waiting = slices.DeleteFunc(l.waiting, func(k K) bool { return k == key })
	l.taken, t.followed[key] = true, content
	return func() { t.over(l, now) }
}

// over ends a turn that began then.
func (t *Turns[K]) over(l *lane[K], began time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	rest := min(turnsRest*now.Sub(began), turnsRestMost)
	l.taken, l.free = false, now.Add(rest)
	time.AfterFunc(rest, func() { t.rested(l) })
}

// rested wakes who is next.
func (t *Turns[K]) rested(l *lane[K]) {
	t.mu.Lock()
	if l.taken || len(l.waiting) == 0 || time.Now().Before(l.free) {
		t.mu.Unlock()
		return
	}
	next := l.waiting[0]
	t.mu.Unlock()
	t.wake(next)
}

// Followed notes that a key's content needs no turn: it was made here of the one before.
func (t *Turns[K]) Followed(key K, content string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.followed[key] = content
}

// Forget drops a key that is gone.
func (t *Turns[K]) Forget(name string, key K) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.followed, key)
	t.leave(t.lanes[name], key)
}

// leave takes a key out of a lane, which may be nil, and has the next one woken; t.mu is held.
func (t *Turns[K]) leave(l *lane[K], key K) {
	if l == nil {
		return
	}
	if i := slices.Index(l.waiting, key); i >= 0 {
		l.waiting = slices.Delete(l.waiting, i, i+1)
		go t.rested(l)
	}
}
