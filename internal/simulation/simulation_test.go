package simulation_test

import (
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"fairlead.dev/fairlead/internal/simulation"
)

const (
	// steps of a schedule, under faults.
	steps = 1200
	// schedules of a test that are played where FAIRLEAD_SIM_SCHEDULES doesn't say how many.
	schedules = 500
	// ofMachines are those of control planes, more those in which their hub changes, or proxies check them.
	ofMachines, more = 150, 100
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

// FAIRLEAD_SIM_SEED=n plays one schedule of a test and tells it; FAIRLEAD_SIM_BUG plants a bug.
// FAIRLEAD_SIM_SCHEDULES=n plays that many, from seed FAIRLEAD_SIM_FROM on.

// TestNothingIsLostInAnySchedule plays many, in a hub that stays the one that it is.
func TestNothingIsLostInAnySchedule(t *testing.T) {
	sum := play(t, simulation.Options{}, schedules)
	if n := sum.schedules; n >= 100 && (sum.Programmed < n || sum.Freed < n/2 || sum.Drained < n/10) {
		t.Error("too little happens for a judgement")
	}
}

// TestAHubThatChangesTakesNothingAway plays hubs that are restored from older copies, or replaced by empty ones.
func TestAHubThatChangesTakesNothingAway(t *testing.T) {
	sum := play(t, simulation.Options{Changes: true}, schedules)
	if n := sum.schedules; n >= 100 && (sum.Changed < n/3 || sum.Thawed < n/2 || sum.Kept < n/2 || sum.Programmed < n) {
		t.Error("too little happens for a judgement")
	}
}

// TestMachinesAreHeldWhileAnybodySends plays control planes: Machines that come and go, and LoadBalancers over them.
func TestMachinesAreHeldWhileAnybodySends(t *testing.T) {
	sum := play(t, simulation.Options{Machines: true}, ofMachines)
	if n := sum.schedules; n >= 100 && (sum.Lifted < n/2 || sum.Gone < n) {
		t.Error("too little happens for a judgement")
	}
}

// TestMachinesStandStillWhileTheHubChanges plays control planes in hubs that are restored and replaced.
func TestMachinesStandStillWhileTheHubChanges(t *testing.T) {
	sum := play(t, simulation.Options{Machines: true, Checks: true, Changes: true}, more)
	if n := sum.schedules; n >= 100 && (sum.Changed < n/3 || sum.Lifted < n/4 || sum.Gone < n/2) {
		t.Error("too little happens for a judgement")
	}
}

// TestMachinesAreCheckedWhileTheyComeAndGo plays control planes whose servers die and come back.
func TestMachinesAreCheckedWhileTheyComeAndGo(t *testing.T) {
	sum := play(t, simulation.Options{Machines: true, Checks: true}, more)
	if n := sum.schedules; n >= 100 && (sum.Lifted < n/4 || sum.Gone < n) {
		t.Error("too little happens for a judgement")
	}
}

// TestWhatOnceBrokeHolds plays schedules in which something was taken away, or was Programmed and not served, before it was mended. They are
// the same schedules for as long as nobody draws otherwise.
func TestWhatOnceBrokeHolds(t *testing.T) {
	for seed, why := range map[uint64]string{
		199:  "a new leader has not heard yet of a proxy that the copy doesn't know in a namespace",
		2469: "the hub changes twice before a proxy asks, that has heard of the one before that a frontend ends",
		3238: "an Address is adopted for a LoadBalancer that is missing, and the answer is lost",
		3321: "a namespace was ending when the copy was made",
		3356: "a namespace was ending when the copy was made, and its Tenant's agent is awaited",
		4549: "the hub operator's own namespace was ending when the copy was made",
		4967: "a namespace that took no report is made anew",
	} {
		if r := run(t, simulation.Options{Seed: seed, Changes: true}); r.Broken != "" {
			t.Errorf("seed %d (%s): %s", seed, why, r.Broken)
		}
	}
}

// TestPeopleBringMachinesThatAreWaitedFor plays a schedule at whose end targets serve whose Machine, without its hooks, is gone, and the only one
// that stays isn't selected: all stands still until another one comes. It is the same schedule for as long as nobody draws otherwise.
func TestPeopleBringMachinesThatAreWaitedFor(t *testing.T) {
	if r := run(t, simulation.Options{Seed: 992, Machines: true}); r.Broken != "" {
		t.Error(r.Broken)
	}
}

// summary is what happened in all schedules.
type summary struct {
	sync.Mutex
	simulation.Result
	schedules, broken int
}

func (s *summary) add(r simulation.Result) {
	s.Lock()
	defer s.Unlock()
	s.schedules++
	s.Programmed += r.Programmed
	s.Freed += r.Freed
	s.Drained += r.Drained
	s.Changed += r.Changed
	s.Thawed += r.Thawed
	s.Kept += r.Kept
	s.Rivals += r.Rivals
	s.Gone += r.Gone
	s.Lifted += r.Lifted
	if r.Broken != "" {
		s.broken++
	}
}

// enough says that more broken schedules would say nothing new.
func (s *summary) enough() bool {
	s.Lock()
	defer s.Unlock()
	return s.broken >= 10
}

func play(t *testing.T, o simulation.Options, schedules uint64) *summary {
	t.Helper()
	o.Bug = simulation.Bug(os.Getenv("FAIRLEAD_SIM_BUG"))
	sum := &summary{}
	if os.Getenv("FAIRLEAD_SIM_SEED") != "" {
		o.Seed, o.Log = number(t, "FAIRLEAD_SIM_SEED", 0), t.Logf
		if r := run(t, o); r.Broken != "" {
			t.Errorf("seed %d: %s", o.Seed, r.Broken)
		}
		return sum
	}
	from, n := number(t, "FAIRLEAD_SIM_FROM", 0), number(t, "FAIRLEAD_SIM_SCHEDULES", schedules)
	name, began := t.Name(), time.Now()
	t.Run("played", func(t *testing.T) {
		for shard := range uint64(shards) {
			t.Run(strconv.FormatUint(shard, 10), func(t *testing.T) {
				t.Parallel()
				o := o
				for o.Seed = from + shard; o.Seed < from+n && !sum.enough(); o.Seed += shards {
					r := run(t, o)
					sum.add(r)
					if r.Broken != "" {
						t.Errorf("%s\n\treplay: FAIRLEAD_SIM_SEED=%d go test ./internal/simulation -v -run %s", r.Broken, o.Seed, name)
					}
				}
			})
		}
	})
	t.Logf("%d schedules: Programmed %d times, %d addresses freed, %d members drained, hubs changed %d times, %d proxies thawed, %d frontends kept, %d rivals, %d Machines gone, %d hooks lifted; %.0f schedules a minute",
		sum.schedules, sum.Programmed, sum.Freed, sum.Drained, sum.Changed, sum.Thawed, sum.Kept, sum.Rivals, sum.Gone, sum.Lifted, float64(sum.schedules)/time.Since(began).Minutes())
	return sum
}

func TestASeedReplays(t *testing.T) {
	var told [2]string
	for i := range told {
		run(t, simulation.Options{Seed: 12, Machines: true, Log: func(format string, args ...any) {
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

// planted are the bugs that the judge must find: all that a Bug names. says is what it finds, where others would do too.
var planted = []struct {
	simulation.Options
	says string
}{
	{Options: simulation.Options{Bug: simulation.FileNotSynced}},
	{Options: simulation.Options{Bug: simulation.IncompleteView, Tempers: simulation.Tempers{Starts: true}}},
	{Options: simulation.Options{Bug: simulation.NoPreconditions}},
	{Options: simulation.Options{Bug: simulation.SilentLetGo}},
	{Options: simulation.Options{Bug: simulation.SpeaksBeforeApply}},
	{Options: simulation.Options{Bug: simulation.StatusFirst}},
	{Options: simulation.Options{Bug: simulation.SameBoot}},
	{Options: simulation.Options{Bug: simulation.OpenConnectionsForgotten}},
	{Options: simulation.Options{Bug: simulation.LostIsWritten}},
	{Options: simulation.Options{Bug: simulation.SettledAtOnce}},
	{Options: simulation.Options{Bug: simulation.ErrorsForgotten, Tempers: simulation.Tempers{Failures: true}}},
	{Options: simulation.Options{Bug: simulation.OldCaches, Changes: true, Tempers: simulation.Tempers{Restores: true}}},
	{Options: simulation.Options{Bug: simulation.FrozenGranted, Changes: true}},
	{Options: simulation.Options{Bug: simulation.MemoryNotFiled, Changes: true}},
	{Options: simulation.Options{Bug: simulation.ChangeNotSaid, Changes: true}},
	{Options: simulation.Options{Bug: simulation.ServesNotSaid, Changes: true}},
	{Options: simulation.Options{Bug: simulation.MissingNotSaid, Changes: true, Tempers: simulation.Tempers{Endings: true}}},
	{Options: simulation.Options{Bug: simulation.ThawedAtOnce, Changes: true}},
	{Options: simulation.Options{Bug: simulation.NothingAdopted, Changes: true}},
	{Options: simulation.Options{Bug: simulation.ReportsNotAwaited, Tempers: simulation.Tempers{Late: "proxyreports"}}},
	{Options: simulation.Options{Bug: simulation.OldLeaderWrites, Tempers: simulation.Tempers{Standstills: true}}},
	{Options: simulation.Options{Bug: simulation.NoVersionOnUpdate}},
	{Options: simulation.Options{Bug: simulation.OneProxyAsked, Machines: true}},
	{Options: simulation.Options{Bug: simulation.OpenToMachinesForgotten, Machines: true}},
	{Options: simulation.Options{Bug: simulation.OldWordCounts, Machines: true, Tempers: simulation.Tempers{Swings: true}}},
	{Options: simulation.Options{Bug: simulation.ChecksIgnored, Machines: true, Checks: true}},
	{Options: simulation.Options{Bug: simulation.FailuresNotReported, Machines: true, Checks: true}},
	{Options: simulation.Options{Bug: simulation.FrozenUnheard, Machines: true, Changes: true}, says: "serves on what it had before the hub changed"},
	{Options: simulation.Options{Bug: simulation.VersionsRunAhead}},
	{Options: simulation.Options{Bug: simulation.HeldNotSaid, Tempers: simulation.Tempers{Refusals: true}}},
	{Options: simulation.Options{Bug: simulation.SilentByCache, Tempers: simulation.Tempers{Late: "leases"}}},
	{Options: simulation.Options{Bug: simulation.LeaseBeforeWord, Changes: true}},
	{Options: simulation.Options{Bug: simulation.ThroughKept, Changes: true}},
	{Options: simulation.Options{Bug: simulation.FrozenNotHeld, Changes: true}},
	{Options: simulation.Options{Bug: simulation.ReopenedUnconfirmed, Changes: true}},
}

func TestPlantedBugsAreFound(t *testing.T) {
	for _, o := range planted {
		t.Run(string(o.Bug), func(t *testing.T) {
			t.Parallel()
			for o.Seed = range number(t, "FAIRLEAD_SIM_WITHIN", within) {
				r := run(t, o.Options)
				if r.Broken == "" || !strings.Contains(r.Broken, o.says) {
					continue
				}
				sound := o.Options
				if sound.Bug = simulation.None; run(t, sound).Broken == "" { // Else it is no find of this bug's.
					t.Logf("seed %d: %s", o.Seed, r.Broken)
					return
				}
			}
			t.Error("nobody noticed")
		})
	}
}
