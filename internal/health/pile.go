package health

import "container/heap"

// entry knows its place in a pile, -1 while it is in none, and what comes before it there.
type entry[T any] interface {
	comparable
	before(other T) bool
	place() *int
}

// pile is a heap whose entries can be found in it, by container/heap.
type pile[T entry[T]] []T

func (p pile[T]) Len() int           { return len(p) }
func (p pile[T]) Less(i, j int) bool { return p[i].before(p[j]) }
func (p pile[T]) Swap(i, j int) {
	p[i], p[j] = p[j], p[i]
	*p[i].place(), *p[j].place() = i, j
}
func (p *pile[T]) Push(x any) {
	e := x.(T)
	*e.place() = len(*p)
	*p = append(*p, e)
}
func (p *pile[T]) Pop() any {
	last := len(*p) - 1
	e := (*p)[last]
	clear((*p)[last:])
	*p = (*p)[:last]
	*e.place() = -1
	return e
}

// sort puts e where it belongs in p, if it belongs in there at all.
func sort[T entry[T]](p *pile[T], e T, belongs bool) {
	switch at := *e.place(); {
	case belongs && at < 0:
		heap.Push(p, e)
	case belongs:
		heap.Fix(p, at)
	case at >= 0:
		heap.Remove(p, at)
	}
}
