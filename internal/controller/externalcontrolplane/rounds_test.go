package externalcontrolplane

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	controlplanev1 "fairlead.dev/fairlead/api/controlplane/v1beta1"
	"k8s.io/apimachinery/pkg/types"
)

// theatre has rounds in a time of its own, and a controller that looks when it is woken, or when it was told to.
type theatre struct {
	t      *testing.T
	rounds *rounds
	mu     sync.Mutex
	answer map[string]func(context.Context) *Found
	asked  map[string]int
	of     map[string]subject
	shown  map[string]bool // what the status says when a round begins
}

func newTheatre(t *testing.T) *theatre {
	x := &theatre{t: t, answer: map[string]func(context.Context) *Found{}, asked: map[string]int{}, of: map[string]subject{}, shown: map[string]bool{}}
	x.rounds = newRounds(func(key types.NamespacedName) { x.look(key.Name) })
	return x
}

func (x *theatre) look(name string) *Found {
	x.mu.Lock()
	of, shown := x.of[name], x.shown[name]
	x.mu.Unlock()
	held, again := x.rounds.look(types.NamespacedName{Name: name}, of, shown, func(ctx context.Context) *Found {
		x.mu.Lock()
		x.asked[name]++
		answer := x.answer[name]
		x.mu.Unlock()
		return answer(ctx)
	})
	if again > 0 {
		time.AfterFunc(again, func() { x.look(name) })
	}
	return held
}

func (x *theatre) set(name string, answer func(context.Context) *Found) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.answer[name] = answer
}

// count of the probes of one control plane since the last time.
func (x *theatre) count(name string) int {
	synctest.Wait()
	x.mu.Lock()
	defer x.mu.Unlock()
	n := x.asked[name]
	x.asked[name] = 0
	return n
}

// after that time, what is believed of one must be this; "" for nothing.
func (x *theatre) after(d time.Duration, name, want string) {
	x.t.Helper()
	time.Sleep(d) // of the bubble's own time
	synctest.Wait()
	x.rounds.mu.Lock()
	defer x.rounds.mu.Unlock()
	got := ""
	if r := x.rounds.all[types.NamespacedName{Name: name}]; r != nil && r.held != nil {
		got = r.held.Reason
	}
	if got != want {
		x.t.Errorf("%s is held for %q, not %q", name, got, want)
	}
}

func says(reason string) func(context.Context) *Found {
	return func(context.Context) *Found { return &Found{Reason: reason} }
}

func hangs(ctx context.Context) *Found {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	<-ctx.Done()
	return &Found{Reason: controlplanev1.ReasonUnreachable}
}

const well, away = controlplanev1.ReasonAvailable, controlplanev1.ReasonUnreachable

func TestRounds(t *testing.T) {
	longest := time.Duration(float64(whileWell) * (1 + jitter))
	for name, play := range map[string]func(*theatre){
		"one that is well is asked every ten to twelve seconds": func(x *theatre) {
			x.set("a", says(well))
			x.look("a")
			x.after(time.Minute*10, "a", well)
			if n := x.count("a"); n < 50 || n > 61 {
				x.t.Errorf("it was asked %d times in ten minutes", n)
			}
		},
		"one that hangs holds up no other": func(x *theatre) {
			x.set("good", says(well))
			for i := range 100 {
				x.set(fmt.Sprint("frozen", i), hangs)
				x.look(fmt.Sprint("frozen", i))
			}
			x.look("good")
			x.after(0, "good", well)
			x.after(patience, "frozen0", away)
			x.after(time.Minute, "frozen99", away)
			if n := x.count("good"); n < 6 {
				x.t.Errorf("it was asked %d times meanwhile", n)
			}
			if n := x.count("frozen0"); n < 5 || n > 8 {
				x.t.Errorf("one that hangs was asked %d times", n)
			}
		},
		"one failure of one that is well isn't believed": func(x *theatre) {
			n := 0 // one probe at a time
			x.set("a", func(context.Context) *Found {
				if n++; n == 3 {
					return &Found{Reason: away}
				}
				return &Found{Reason: well}
			})
			x.look("a")
			for range 60 {
				x.after(time.Second, "a", well)
			}
			if x.count("a") < 4 {
				x.t.Error("it never failed")
			}
		},
		"two are, soon, and so is one that answers again": func(x *theatre) {
			x.set("a", says(well))
			x.look("a")
			x.after(0, "a", well)
			x.set("a", says(away))
			x.after(longest+2*repeat, "a", away)
			x.set("a", says(well))
			x.after(2*whileNot, "a", well)
		},
		"what doesn't pass by itself is believed at once": func(x *theatre) {
			x.set("a", says(well))
			x.look("a")
			x.after(0, "a", well)
			x.set("a", says(controlplanev1.ReasonKubeconfigMissing))
			x.after(longest, "a", controlplanev1.ReasonKubeconfigMissing)
		},
		"a new manager believes one failure of one that was well no more": func(x *theatre) {
			x.shown["a"] = true
			x.set("a", says(away))
			x.look("a")
			x.after(0, "a", "")
			x.after(2*repeat, "a", away)
		},
		"what was never well is believed at once": func(x *theatre) {
			x.set("a", says(away))
			x.look("a")
			x.after(0, "a", away)
		},
		"a hub that doesn't answer says nothing": func(x *theatre) {
			x.set("a", says(well))
			x.look("a")
			x.after(0, "a", well)
			x.set("a", func(context.Context) *Found { return nil })
			x.after(time.Hour, "a", well)
		},
		"with another spec it is asked at once, and what was found before counts no more": func(x *theatre) {
			x.set("a", hangs)
			x.look("a")
			x.count("a")
			x.of["a"] = subject{generation: 2}
			x.set("a", says(well))
			x.look("a")
			x.after(0, "a", well)
			if n := x.count("a"); n != 1 {
				x.t.Errorf("it was asked %d times", n)
			}
		},
		"one that is forgotten is asked no more": func(x *theatre) {
			x.set("a", hangs)
			x.look("a")
			x.rounds.forget(types.NamespacedName{Name: "a"})
			x.count("a")
			x.after(time.Hour, "a", "")
			if n := x.count("a"); n != 0 {
				x.t.Errorf("it was asked %d times", n)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x := newTheatre(t)
				play(x)
				x.rounds.stop()
			})
		})
	}
}

// At the end no probe is left, and none begins.
func TestRoundsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newTheatre(t)
		x.set("a", hangs)
		x.look("a")
		if x.count("a") != 1 {
			t.Error("it isn't asked")
		}
		began := time.Now()
		x.rounds.stop()
		if time.Since(began) > 0 {
			t.Error("a probe was waited for")
		}
		x.look("a")
		if n := x.count("a"); n != 0 {
			t.Errorf("it was asked %d times after the end", n)
		}
	})
}
