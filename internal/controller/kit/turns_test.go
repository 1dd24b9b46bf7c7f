package kit

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// changer changes its key all the time, and does as it is told.
type changer struct {
	turns *Turns[string]
	woken []string
}

func newChanger() *changer {
	c := &changer{}
	c.turns = NewTurns(func(key string) { c.woken = append(c.woken, key) })
	return c
}

// takes asks for a turn, which takes that long; false: it must wait.
func (c *changer) takes(lane, key, content string, long time.Duration) bool {
	over := c.turns.Take(lane, key, content)
	if over == nil {
		return false
	}
	time.Sleep(long)
	over()
	return true
}

func TestChangesOfALaneAreFollowedOneAtATimeWithRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const long = 100 * time.Millisecond
		c, began := newChanger(), time.Now()
		for i := range 20 {
			if !c.takes("loud", fmt.Sprint(i), "made", 0) {
				t.Fatal("what is new waits")
			}
		}
		if !c.takes("loud", "0", "changed", long) {
			t.Fatal("the first change waits")
		}
		for _, key := range []string{"1", "2", "0"} {
			if c.takes("loud", key, "changed more", long) {
				t.Fatalf("%s has a turn while the lane rests", key)
			}
		}
		if !c.takes("loud", "5", "made", 0) {
			t.Error("what is followed already waits")
		}
		if c.takes("quiet", "q", "made", 0); !c.takes("quiet", "q", "changed", 0) {
			t.Error("another lane waits")
		}
		for n, key := range []string{"1", "2", "0"} {
			time.Sleep(turnsRest * long)
			synctest.Wait()
			if !slices.Equal(c.woken, []string{key}) {
				t.Fatalf("%v are woken, should be %s, which is next", c.woken, key)
			}
			if c.woken = nil; c.takes("loud", "19", "changed", long) {
				t.Fatal("one that came later comes first")
			}
			if !c.takes("loud", key, fmt.Sprint("changed again ", n), long) {
				t.Fatalf("%s was woken and has no turn", key)
			}
		}
		// Four turns and three rests.
		if took := time.Since(began); took != 4*long+3*turnsRest*long {
			t.Errorf("four turns of %s took %s", long, took)
		}
	})
}

// Who doesn't come for its turn holds up nobody for long, and who is gone nobody at all.
func TestALaneGoesOnWithoutWhoIsNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newChanger()
		for _, key := range []string{"a", "b", "c", "d"} {
			c.takes("loud", key, "made", 0)
		}
		c.takes("loud", "a", "changed", time.Millisecond)
		for _, key := range []string{"b", "c", "d"} {
			c.takes("loud", key, "changed", 0)
		}
		time.Sleep(TurnsAgain + time.Second)
		if !c.takes("loud", "c", "changed", time.Millisecond) {
			t.Error("b never came, and c still waits")
		}
		c.woken = nil
		time.Sleep(time.Second)
		c.turns.Forget("loud", "b")
		synctest.Wait()
		if len(c.woken) == 0 || c.woken[len(c.woken)-1] != "d" {
			t.Errorf("b is gone, and %v are woken", c.woken)
		}
		if !c.takes("loud", "d", "changed", 0) {
			t.Error("d still waits for b")
		}
		c.takes("loud", "a", "changed again", time.Millisecond)
		for _, key := range []string{"b", "c"} {
			c.takes("loud", key, "changed again", 0)
		}
		time.Sleep(time.Second)
		c.turns.Followed("c", "made of it here")
		if c.woken = nil; !c.takes("loud", "c", "made of it here", 0) {
			t.Error("what was made here waits")
		}
	})
}

func TestARestIsNoLongerThanItsBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newChanger()
		c.takes("loud", "a", "made", 0)
		c.takes("loud", "a", "changed", time.Minute)
		c.takes("loud", "a", "changed again", 0)
		time.Sleep(turnsRestMost)
		synctest.Wait()
		if !c.takes("loud", "a", "changed again", 0) {
			t.Errorf("after %s it still rests", turnsRestMost)
		}
	})
}
