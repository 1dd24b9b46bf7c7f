package proxy

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// A gap in a list is a deletion only if the hub is the one that it was: it may
// have been restored from an older copy, or another may answer in its place.
//
//	connection breaks, watch opens, list ─▶ doubt ─▶ Question ─▶ two live reads ─▶ Answer
//	                                                                                │
//	            taken: what waited, and what the watches say from now on ◀─ the same ┤
//	            a new era: all is listed anew, beside what is served     ◀─ changed ─┘
//
// Reads that fail answer nothing: then what came waits, and nothing is written.

// OwnProxy stands for the watch of the own Proxy, beside those of the Resources, in Opened and Lost.
const OwnProxy = resources

// doubts is what an Inbox knows of its hub.
type doubts struct {
	// memory is of the hub that is served, fresh of the one that answers since it changed. frozen is how that is another.
	memory, fresh Memory
	frozen        *HubChange
	era           int
	eraEnds       chan struct{}
	// asked counts reasons to doubt; answered is the last one that is settled.
	asked, answered int
	doubted         chan struct{}
	// fromFile: what is known is a file's, no process before this one served it until now, and no answer came yet.
	fromFile bool
	// opened is the doubt that a watch's opening raised, standing that it was not lost since.
	opened   [resources + 1]int
	standing [resources + 1]bool
	// unlisted says that a resource's events mean nothing before its next list.
	unlisted [resources]bool
	// waiting is what came since then.
	waiting [resources]batch
	// settled is called, with the lock held, after each answer; eraBegins before, with a new era.
	settled, eraBegins func()
}

func newDoubts() doubts {
	return doubts{eraEnds: make(chan struct{}), doubted: make(chan struct{}, 1), settled: func() {}, eraBegins: func() {}}
}

// batch is what was delivered of one resource: the objects in their newest form, nil where one is gone.
type batch struct {
	// whole: what is not in objects is gone.
	whole   bool
	objects map[Key]Object
	version string
}

// empty says that nothing was delivered.
func (b *batch) empty() bool { return b.version == "" && b.objects == nil }

// merge adds what came after b.
func (b *batch) merge(next batch) {
	if next.whole || b.empty() {
		*b = next
		return
	}
	if b.objects == nil && len(next.objects) > 0 {
		b.objects = map[Key]Object{}
	}
	for k, o := range next.objects {
		if o == nil && b.whole {
			delete(b.objects, k)
		} else {
			b.objects[k] = o
		}
	}
	if newer(next.version, b.version) {
		b.version = next.version
	}
}

// Opened takes word that the watch of a resource, or of OwnProxy, was opened, or opened again: before any of its events.
// A list opens by itself.
func (in *Inbox) Opened(r Resource) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.open(r)
}

func (in *Inbox) open(r Resource) {
	in.doubt()
	in.opened[r], in.standing[r] = in.asked, true
}

// Lost takes word that a watch ended, for whatever reason.
func (in *Inbox) Lost(r Resource) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.standing[r] = false
	in.doubt()
}

// Doubt says that something was seen of the hub that it should not say.
func (in *Inbox) Doubt() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.doubt()
}

// doubt is called with the lock held. Who remembers no hub has nothing to doubt.
func (in *Inbox) doubt() {
	in.asked++
	if in.present().HubUID == "" {
		in.answered = in.asked
		return
	}
	wake(in.doubted)
}

// present is the memory of the hub that answers.
func (in *Inbox) present() *Memory {
	if in.frozen != nil {
		return &in.fresh
	}
	return &in.memory
}

// hubUID is that of the hub that this proxy speaks to.
func (in *Inbox) hubUID() string {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.present().HubUID
}

// Sure says that the hub is the one that present remembers: it may be told something.
func (in *Inbox) Sure() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.answered == in.asked
}

// Same says that a hub that was just read is the one that is remembered, and may be written to; if it isn't, that is a doubt.
func (in *Inbox) Same(a Answer) bool {
	era, _ := in.Era()
	return in.same(era, a, false)
}

// same does so in an era, and is false in another. watched: the own Proxy was read before, so its status may be less than what was
// written because somebody has emptied it.
func (in *Inbox) same(era int, a Answer, watched bool) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	if era != in.era {
		return false
	}
	m := *in.present()
	if watched {
		m.Seq = 0
	}
	if m.changed(a) == nil {
		return true
	}
	in.doubt()
	return false
}

// Question is a doubt.
type Question struct {
	asked, era int
	memory     Memory
	watched    bool
}

// Question is to be answered by reads that begin now; false: nothing is in doubt.
func (in *Inbox) Question() (Question, bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	watched := in.standing[OwnProxy] && in.opened[OwnProxy] <= in.answered
	return Question{in.asked, in.era, *in.present(), watched}, in.answered < in.asked
}

// Answer takes what the hub says of itself. It returns whether that has settled the Question.
func (in *Inbox) Answer(q Question, a Answer) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	if q.era != in.era || q.asked <= in.answered {
		return true
	}
	change := q.memory.changed(a)
	if change != nil && q.watched && a.HubUID == q.memory.HubUID && (a.Proxy == nil || a.Proxy.UID != q.memory.ProxyUID) {
		return false // It was deleted just now, and its watch will say so, or break.
	}
	for r := Resource(0); r < resources && change == nil; r++ {
		if b := in.waiting[r]; b.whole && in.opened[r] <= q.asked {
			known := *in.present()
			known.Through = in.through()
			change = known.behind(r, b.version)
		}
	}
	if change != nil {
		in.begin(change, a)
	} else {
		in.answered, in.fromFile = q.asked, false
		for r := range resources {
			if b := in.waiting[r]; !b.empty() && in.opened[r] <= in.answered {
				in.waiting[r] = batch{}
				in.takeIn(r, b)
			}
		}
	}
	in.settled()
	return true
}

// through is up to where the present hub's resources are known. It is called with the lock held.
func (in *Inbox) through() Versions {
	out := in.present().Through
	for r, v := range in.versions {
		if newer(v, out[r]) {
			out[r] = v
		}
	}
	return out
}

// begin begins a new era: the hub that answers is another one. All is listed anew. It is called with the lock held.
func (in *Inbox) begin(change *HubChange, a Answer) {
	was := in.frozen
	if was == nil {
		in.earlier = append(in.earlier, in.pending...)
		in.memory.Through = in.through()
	} else {
		in.earlier = nil
		in.memory.lose()
	}
	sinceServed := in.memory.changed(a)
	switch {
	case was != nil && in.fresh.HubUID != in.memory.HubUID && sinceServed == nil:
		in.frozen = nil // This proxy was pointed elsewhere for a while.
	case was != nil && sinceServed != nil:
		in.frozen = sinceServed
	default:
		in.frozen = change
	}
	if in.frozen != nil {
		in.fresh = Memory{HubUID: a.HubUID}
		in.memory.Lost = in.memory.Lost || a.HubUID == in.memory.HubUID
		in.frozen.Stale = (in.fromFile || was != nil && was.Stale) && a.HubUID == in.memory.HubUID && (a.Proxy == nil || a.Proxy.UID != in.memory.ProxyUID)
	}
	in.fromFile = false
	for r := range in.known {
		in.known[r], in.waiting[r], in.unlisted[r] = map[Key]Object{}, batch{}, true
	}
	in.versions, in.pending, in.since = Versions{}, nil, time.Time{}
	in.standing = [resources + 1]bool{}
	in.answered = in.asked
	in.era++
	close(in.eraEnds)
	in.eraEnds = make(chan struct{})
	in.eraBegins()
	wake(in.changed)
}

// remember has the Inbox know the hub again that a file speaks of, before anything is delivered. heir: the process before this
// one serves it still.
func (in *Inbox) remember(m Memory, heir bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.memory, in.fromFile = m, !heir
	in.memory.Frozen, in.memory.Stale = "", false // That is in frozen.
	if m.Frozen != "" {
		in.frozen = &HubChange{m.Frozen, "it was so when this process started", m.Stale}
		in.memory.lose() // It may have changed again while nobody watched it.
		return
	}
	in.doubt() // The hub may have changed while nobody watched it.
}

// Memory is what a file is to hold: of the hub that is served.
func (in *Inbox) Memory() Memory {
	in.mu.Lock()
	defer in.mu.Unlock()
	m := in.memory
	m.Through = Versions{}
	if in.frozen != nil {
		m.Frozen, m.Stale = in.frozen.Reason, in.frozen.Stale
	}
	return m
}

// Frozen is how the hub that answers is not the one that is served; nil: it is.
func (in *Inbox) Frozen() *HubChange {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.frozen
}

// Era is how often the hub has changed, and when it does so next: then each resource is to be listed anew, from scratch.
func (in *Inbox) Era() (n int, ends <-chan struct{}) {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.era, in.eraEnds
}

// during runs f, with the lock held, unless the hub has become another since that era.
func (in *Inbox) during(era int, f func()) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if era == in.era {
		f()
	}
}

// Wrote notes that a write of the own Proxy's status, begun in that era, was answered. False: it doesn't count, for the hub
// has become another since, or is in doubt now.
func (in *Inbox) Wrote(era int, hubUID string, proxyUID types.UID, seq int64) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	if era != in.era {
		return false
	}
	m := in.present()
	if m.HubUID != "" && m.HubUID != hubUID {
		in.doubt()
		return false
	}
	if m.HubUID != hubUID || m.ProxyUID != proxyUID {
		m.Seq = 0
	}
	m.HubUID, m.ProxyUID, m.Seq = hubUID, proxyUID, max(m.Seq, seq)
	return true
}

// Read notes with what seq the own Proxy was read, in that era: so a write comes back whose answer was lost.
func (in *Inbox) Read(era int, proxyUID types.UID, seq int64) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if m := in.present(); era == in.era && m.ProxyUID == proxyUID {
		m.Seq = max(m.Seq, seq)
	}
}

// OwnDeleted takes the watch's word that the own Proxy was deleted. A hub that says so itself has not lost it.
func (in *Inbox) OwnDeleted() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.ownDeleted()
}

// ownDeleted is called with the lock held.
func (in *Inbox) ownDeleted() {
	if in.standing[OwnProxy] && in.opened[OwnProxy] <= in.answered {
		m := in.present()
		m.ProxyUID, m.Seq = "", 0
	}
}

// Adopt says that, in that era, what is served is the hub's again, whatever it was before. thawed is Memory.Thawed.
func (in *Inbox) Adopt(era int, epoch, thawed int64) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if era != in.era {
		return
	}
	if in.frozen != nil {
		in.memory, in.fresh, in.frozen = in.fresh, Memory{}, nil
		in.settled()
	}
	in.memory.Epoch, in.memory.Thawed = epoch, thawed
}

// deliver takes a batch in, or has it wait. It is called with the lock held.
func (in *Inbox) deliver(r Resource, b batch) {
	switch {
	case in.unlisted[r]: // It is of a watch that is about to be ended.
	case in.opened[r] > in.answered:
		in.waiting[r].merge(b)
	default:
		in.takeIn(r, b)
	}
}
