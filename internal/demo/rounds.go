package demo

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
)

// numbered is a step with its place in the story, counted from 1.
type numbered struct {
	step
	number int
}

// round is a step, and those beside it.
type round struct {
	numbered
	beside []numbered
}

func rounds(steps []step) []round {
	all := []round{}
	for i, s := range steps {
		if last := len(all) - 1; s.beside && last >= 0 {
			all[last].beside = append(all[last].beside, numbered{s, i + 1})
		} else {
			all = append(all, round{numbered: numbered{s, i + 1}})
		}
	}
	return all
}

// errBeside is why a step is given up whose neighbour failed.
var errBeside = errors.New("given up, for a step beside it failed")

// tell runs a round, and returns the first failure.
func (s *story) tell(ctx context.Context, r round) error {
	if r.plot != nil {
		s.say("%2d %-16s …    %s", r.number, r.name, strings.Join(r.plot(s), "\n"+strings.Repeat(" ", 25)))
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s.began = time.Now()
	failed := [2]error{}
	var both sync.WaitGroup
	both.Go(func() {
		for _, b := range r.beside {
			if failed[1] = s.one(ctx, b); failed[1] != nil {
				cancel(errBeside)
				return
			}
		}
	})
	if failed[0] = s.one(ctx, r.numbered); failed[0] != nil {
		cancel(errBeside)
	}
	both.Wait()
	for _, err := range failed {
		if err != nil && !errors.Is(err, errBeside) {
			return err
		}
	}
	return nil
}

// one runs a step and prints its line.
func (s *story) one(ctx context.Context, n numbered) error {
	began := time.Now()
	measured, err := n.run(ctx, s)
	if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
		err = errors.Join(cause, err)
	}
	took := time.Since(began).Round(100 * time.Millisecond)
	if err != nil {
		s.say("%2d %-16s FAIL %6s  %s", n.number, n.name, took, err)
		return fmt.Errorf("step %s failed after %s: %w", n.name, took, err)
	}
	s.say("%2d %-16s ok   %6s  %s", n.number, n.name, took, measured)
	return nil
}
