package simulation

import (
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// sink takes what a watch delivers. The objects are shared.
type sink interface {
	// listed is a whole, consistent list.
	listed(k kind, all []client.Object, version string)
	happened(k kind, e event)
	bookmark(k kind, version string)
}

// doubter is a sink that wants to know how it is connected.
type doubter interface {
	// opened: a watch goes on where it ended. lost: one ended.
	opened(k kind)
	lost(k kind)
}

// meeter is a sink that looks who the hub is before it takes anything of it. False: it doesn't know yet.
type meeter interface{ meets() bool }

// link is one process's way to the API server.
type link struct {
	w    *World
	into sink
	// cut: no request gets through, and no event.
	cut bool
	// kinds that are watched.
	kinds []kind
	at    [kinds]int64
	up    [kinds]bool
	have  [kinds]bool
	// hub is the server's incarnation that each watch was opened at.
	hub [kinds]int
	// late: a watch delivers nothing until then.
	late [kinds]time.Time
}

func newLink(w *World, into sink, ks ...kind) *link { return &link{w: w, into: into, kinds: ks} }

// broken ends all watches.
func (l *link) broken() {
	for _, k := range l.kinds {
		l.end(k)
	}
}

// end ends one watch.
func (l *link) end(k kind) {
	if d, ok := l.into.(doubter); ok && l.up[k] {
		d.lost(k)
	}
	l.up[k] = false
}

// anew forgets what was watched: all is listed from scratch.
func (l *link) anew() { l.up, l.have = [kinds]bool{}, [kinds]bool{} }

// knows says that all watches are of that incarnation of the hub.
func (l *link) knows(incarnation int) bool {
	for _, k := range l.kinds {
		if !l.have[k] || l.hub[k] != incarnation {
			return false
		}
	}
	return true
}

// synced says that all was listed once.
func (l *link) synced() bool {
	for _, k := range l.kinds {
		if !l.have[k] {
			return false
		}
	}
	return true
}

// pump moves one watch: it connects, lists, or delivers up to n events or a bookmark. False: nothing was to be done.
func (l *link) pump(k kind, n int) bool {
	if l.cut || time.Now().Before(l.late[k]) {
		return false
	}
	if m, ok := l.into.(meeter); ok && !m.meets() {
		return false
	}
	s := l.w.server
	if !l.up[k] {
		if l.have[k] && l.at[k] > s.version && l.w.n(2) == 0 {
			return false // it asks for a version that is to come, and waits
		}
		l.up[k], l.hub[k] = true, l.w.incarnation
		if l.have[k] && l.at[k] >= s.floor[k] && l.at[k] <= s.version {
			if d, ok := l.into.(doubter); ok {
				d.opened(k)
			}
			return true // it resumes
		}
		l.at[k], l.have[k] = s.version, true
		l.into.listed(k, s.list(k), strconv.FormatInt(s.version, 10))
		return true
	}
	log := s.log[k]
	i := len(log)
	for i > 0 && log[i-1].version > l.at[k] {
		i--
	}
	if i == len(log) {
		if l.at[k] == s.version {
			return false
		}
		l.at[k] = s.version
		l.into.bookmark(k, strconv.FormatInt(s.version, 10))
		return true
	}
	for ; i < len(log) && n > 0; i, n = i+1, n-1 {
		l.at[k] = log[i].version
		l.into.happened(k, log[i])
	}
	return true
}

// request runs one: it may be refused, run although its answer is lost, or run later still.
func (l *link) request(write func() (client.Object, error)) (client.Object, error) {
	l.w.interleave()
	if l.cut {
		return nil, apierrors.NewServerTimeout(loadBalancers.resource(), "write", 1)
	}
	if l.w.faulty() {
		switch l.w.n(3) {
		case 0:
			_, _ = write()
		case 1:
			l.w.delayed = append(l.w.delayed, write)
		}
		return nil, apierrors.NewTimeoutError("the answer is lost", 1)
	}
	return write()
}

func (l *link) get(k kind, key types.NamespacedName) (client.Object, error) {
	l.w.interleave()
	if l.cut || l.w.faulty() {
		return nil, apierrors.NewServerTimeout(k.resource(), "get", 1)
	}
	return l.w.server.get(k, key)
}

func (l *link) list(k kind) ([]client.Object, error) {
	l.w.interleave()
	if l.cut || l.w.faulty() {
		return nil, apierrors.NewServerTimeout(k.resource(), "list", 1)
	}
	return l.w.server.list(k), nil
}

// uid is that of the hub's namespace kube-system.
func (l *link) uid() (string, error) {
	l.w.interleave()
	if l.cut || l.w.faulty() {
		return "", apierrors.NewServerTimeout(namespaceKind.resource(), "get", 1)
	}
	return l.w.server.uid, nil
}

func (l *link) create(o client.Object) (client.Object, error) {
	o = deepCopy(o)
	return l.request(func() (client.Object, error) { return l.w.server.create(o) })
}

func (l *link) update(o client.Object) (client.Object, error) {
	o = deepCopy(o)
	return l.request(func() (client.Object, error) { return l.w.server.update(o) })
}
