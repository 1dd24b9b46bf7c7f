package simulation_test

import (
	"os"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"fairlead.dev/fairlead/internal/simulation"
)

const (
	steps = 2500
	// schedules that are played where FAIRLEAD_SIM_SCHEDULES doesn't say how many.
	schedules = 500
	// shards are played at once.
	shards = 4
	// within is how many schedules a planted bug may take to be found.
	within = 600
)

// run plays one schedule on a clock of its own.
func run(t *testing.T, o simulation.Options) (r simulation.Result) {
	t.Helper()
	o.Steps = steps
	synctest.Test(t, func(*testing.T) { r = simulation.Run(o) })
	return r
}

// number reads an environment variable.
func number(t *testing.T, name string, otherwise uint64) uint64 {
	t.Helper()
	s := os.Getenv(name)
	if s == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// TestNothingIsLostInAnySchedule plays many.
// FAIRLEAD_SIM_SEED=n plays one schedule and tells it; FAIRLEAD_SIM_BUG plants a bug in it.
// FAIRLEAD_SIM_SCHEDULES=n plays that many, from seed FAIRLEAD_SIM_FROM on.
func TestNothingIsLostInAnySchedule(t *testing.T) {
	if os.Getenv("FAIRLEAD_SIM_SEED") != "" {
		seed := number(t, "FAIRLEAD_SIM_SEED", 0)
		if r := run(t, simulation.Options{Seed: seed, Bug: simulation.Bug(os.Getenv("FAIRLEAD_SIM_BUG")), Log: t.Logf}); r.Broken != "" {
			t.Errorf("seed %d: %s", seed, r.Broken)
		}
		return
	}
	from, n := number(t, "FAIRLEAD_SIM_FROM", 0), number(t, "FAIRLEAD_SIM_SCHEDULES", schedules)
	bug := simulation.Bug(os.Getenv("FAIRLEAD_SIM_BUG"))
	var programmed, freed, drained, broken atomic.Int64
	t.Run("played", func(t *testing.T) {
		for shard := range uint64(shards) {
			t.Run(strconv.FormatUint(shard, 10), func(t *testing.T) {
				t.Parallel()
				for seed := from + shard; seed < from+n && broken.Load() < 10; seed += shards {
					r := run(t, simulation.Options{Seed: seed, Bug: bug})
					programmed.Add(int64(r.Programmed))
					freed.Add(int64(r.Freed))
					drained.Add(int64(r.Drained))
					if r.Broken != "" {
						broken.Add(1)
						t.Errorf("%s\n\treplay with FAIRLEAD_SIM_SEED=%d go test ./internal/simulation -run Nothing -v", r.Broken, seed)
					}
				}
			})
		}
	})
	t.Logf("%d schedules: Programmed %d times, %d addresses freed, %d members drained", n, programmed.Load(), freed.Load(), drained.Load())
	if most := int64(n); n >= 100 && (programmed.Load() < most || freed.Load() < most/2 || drained.Load() < most/10) {
		t.Error("too little happens for a judgement")
	}
}

func TestASeedReplays(t *testing.T) {
	var told [2]string
	for i := range told {
		run(t, simulation.Options{Seed: 12, Log: func(format string, args ...any) {
			for _, a := range args {
				if s, ok := a.(string); ok {
					told[i] += s
				}
			}
			told[i] += format
		}})
	}
	if told[0] != told[1] || told[0] == "" {
		t.Error("the same seed made two schedules")
	}
}

// planted are the bugs that the judge must find. Of the others that a Bug names each takes more schedules than there is time for here.
var planted = []simulation.Bug{
	simulation.SpeaksBeforeApply,
	simulation.StatusFirst,
	simulation.OpenConnectionsForgotten,
	simulation.IncompleteView,
	simulation.LostIsWritten,
	simulation.NoPreconditions,
	simulation.ReportsNotAwaited,
	simulation.SettledAtOnce,
	simulation.SilentLetGo,
	simulation.ErrorsForgotten,
}

func TestPlantedBugsAreFound(t *testing.T) {
	for _, bug := range planted {
		t.Run(string(bug), func(t *testing.T) {
			t.Parallel()
			for seed := range number(t, "FAIRLEAD_SIM_WITHIN", within) {
				if r := run(t, simulation.Options{Seed: seed, Bug: bug}); r.Broken != "" {
					t.Logf("seed %d: %s", seed, r.Broken)
					return
				}
			}
			t.Error("nobody noticed")
		})
	}
}
