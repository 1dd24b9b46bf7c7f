package nftables

import "testing"

func TestMarksAreUsedAgainLast(t *testing.T) {
	m := newMarks()
	a, b := m.take(markKeep), m.take(markIP)
	if a != markBase|markKeep|1 || b != markBase|markIP|2 {
		t.Errorf("marks %#x and %#x", a, b)
	}
	m.free(a)
	if c := m.take(0); c == markBase|1 {
		t.Error("a mark is used again at once; connections may still have it")
	}
	m.claim(markBase | markIDs - 1)
	if c := m.take(0); c != markBase|1 {
		t.Errorf("after the last comes %#x, want the first that is free", c)
	}
	for m.take(0) != 0 {
	}
	if n := len(m.used); n != int(markIDs)-1 {
		t.Errorf("%d marks are in use, want %d", n, markIDs-1)
	}
}

func TestAMarkSaysWhatItIs(t *testing.T) {
	m := markBase | markKeep | 7
	if c := m | markCut | markTold; !c.ours() || !c.cut() || c.spread() != m {
		t.Errorf("%#x: ours %v, cut %v, spread %#x", c, c.ours(), c.cut(), c.spread())
	}
	if mark(0x1a000007).ours() {
		t.Error("somebody else's mark is ours")
	}
}
