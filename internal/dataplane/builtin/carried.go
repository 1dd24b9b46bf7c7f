package builtin

// carried is what frontends and members hold: a TCP connection or a UDP flow.
type carried interface {
	// cut ends it at once.
	cut()
	// over says that it was cut or has ended.
	over() bool
	// through is the frontend that it came by.
	through() *frontend
}

// tie keeps one carried in one list. A list costs a connection no memory and no hashing.
type tie struct {
	of         carried
	prev, next *tie
}

// ties is a list. Its owner locks it.
type ties struct {
	first *tie
	n     int
}

func (l *ties) add(t *tie) {
	t.prev, t.next = nil, l.first
	if l.first != nil {
		l.first.prev = t
	}
	l.first = t
	l.n++
}

func (l *ties) remove(t *tie) {
	if t.prev != nil {
		t.prev.next = t.next
	} else {
		l.first = t.next
	}
	if t.next != nil {
		t.next.prev = t.prev
	}
	t.prev, t.next = nil, nil
	l.n--
}

// all returns what is held, for use without the lock.
func (l *ties) all() []carried {
	out := make([]carried, 0, l.n)
	for t := l.first; t != nil; t = t.next {
		out = append(out, t.of)
	}
	return out
}
