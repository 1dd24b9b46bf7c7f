package demo

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"fairlead.dev/fairlead/internal/testkit"
	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
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
func (s *common) tell(ctx context.Context, r round) error {
	if r.plot != nil {
		s.say("%2d %-16s …    %s", r.number, r.name, strings.Join(r.plot(&story{common: s}), "\n"+strings.Repeat(" ", 25)))
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

// tries is how often a step is told until all its windows prove something.
const tries = 3

// one runs a step and prints its line; one that proved nothing runs again, where it can.
func (s *common) one(ctx context.Context, n numbered) error {
	for try := 1; ; try++ {
		again, err := s.try(ctx, n, try)
		if !again || err != nil {
			return err
		}
		s.repeated.Add(1)
		if err := s.settled(ctx); err != nil {
			return fmt.Errorf("before step %s is told again: %w", n.name, err)
		}
	}
}

// try runs a step once. again: no claim of it failed, and it proved nothing.
func (s *common) try(ctx context.Context, n numbered, try int) (again bool, err error) {
	began, told := time.Now(), &story{common: s}
	measured, err := n.run(ctx, told)
	if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
		err = errors.Join(cause, err)
	}
	took, busy := time.Since(began).Round(100*time.Millisecond), strings.Join(told.busy, "; ")
	switch {
	case err == nil && busy == "":
		s.say("%2d %-16s ok   %6s  %s", n.number, n.name, took, measured)
		return false, nil
	case err == nil && n.again && try < tries:
		s.say("%2d %-16s busy %6s  it proves nothing, and is told again: %s", n.number, n.name, took, busy)
		return true, nil
	case err == nil:
		err = fmt.Errorf("it proves nothing, told %d times: %s", try, busy)
	case busy != "":
		err = fmt.Errorf("%w (and %s)", err, busy)
	}
	s.say("%2d %-16s FAIL %6s  %s", n.number, n.name, took, err)
	return false, fmt.Errorf("step %s failed after %s: %w", n.name, took, err)
}

// settled waits until no Service of the tenants is about to go: a step that is told again makes some of the same names.
func (s *common) settled(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, soon)
	defer cancel()
	return testkit.Poll(ctx, look, "Services that are being deleted to be gone", func(ctx context.Context) error {
		for _, t := range s.Tenants {
			services := &v1.ServiceList{}
			if err := t.API.List(ctx, services, client.InNamespace(namespace)); err != nil {
				return err
			}
			for _, o := range services.Items {
				if o.DeletionTimestamp != nil {
					return fmt.Errorf("%s's Service %s is there", t.Name(), o.Name)
				}
			}
		}
		return nil
	})
}
