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
	// late: a watch delivers nothing until then.
	late [kinds]time.Time
}

func newLink(w *World, into sink, ks ...kind) *link { return &link{w: w, into: into, kinds: ks} }

// broken ends all watches.
func (l *link) broken() { l.up = [kinds]bool{} }

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
	s := l.w.server
	if !l.up[k] {
		l.up[k] = true
		if l.have[k] && l.at[k] >= s.floor[k] {
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

func (l *link) create(o client.Object) (client.Object, error) {
	o = deepCopy(o)
	return l.request(func() (client.Object, error) { return l.w.server.create(o) })
}

func (l *link) update(o client.Object) (client.Object, error) {
	o = deepCopy(o)
	return l.request(func() (client.Object, error) { return l.w.server.update(o) })
}
