package builtin

import (
	"sync/atomic"
	"time"
)

// seldomEvery is the shortest time between two log lines of one kind.
const seldomEvery = time.Minute

// seldom lets one caller through a minute.
type seldom struct{ last atomic.Int64 }

func (s *seldom) now() bool {
	now, last := moment(), s.last.Load()
	return (last == 0 || now-last >= int64(seldomEvery)) && s.last.CompareAndSwap(last, now)
}
