package kit

import (
	"testing"
	"time"
)

// What goes on changing is written ever more rarely; what was left alone is written at once.
func TestPace(t *testing.T) {
	p := &Pace{From: time.Second, UpTo: 15 * time.Second}
	now := time.Unix(0, 0)
	var writes []time.Duration
	began := now
	for ; now.Sub(began) < 2*time.Minute; now = now.Add(100 * time.Millisecond) {
		if p.Rest("a", now) <= 0 {
			writes = append(writes, now.Sub(began))
			p.Wrote("a", now)
		}
		if p.Rest("b", now) > 0 {
			t.Fatal("another key waits for it")
		}
	}
	for i, want := range []time.Duration{0, 1, 3, 7, 15, 30, 45} {
		if len(writes) <= i || writes[i] != want*time.Second {
			t.Fatalf("written after %v, want pauses that double up to 15 s", writes)
		}
	}
	now = now.Add(time.Minute)
	if rest := p.Rest("a", now); rest > 0 {
		t.Errorf("after a minute it rests for %s", rest)
	}
	p.Wrote("a", now)
	if rest := p.Rest("a", now); rest != time.Second {
		t.Errorf("after a minute and a write it rests for %s, want %s", rest, time.Second)
	}
	if p.Forget("a"); p.Rest("a", now) > 0 {
		t.Error("it is remembered though it was forgotten")
	}
}
