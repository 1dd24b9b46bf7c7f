package demo

import (
	"strings"
	"testing"
)

func TestScreenRedrawsItsLastRowsOnly(t *testing.T) {
	t.Parallel()
	out := &strings.Builder{}
	s := &screen{out: out, redraws: true}
	s.show([]string{"head", "a"})
	s.show([]string{"head", "b"})
	if !strings.Contains(out.String(), "\x1b[2A") {
		t.Errorf("no redraw of two lines in %q", out.String())
	}
	out.Reset()
	s.say("edge-1 died")
	s.show([]string{"head", "c"})
	if strings.Contains(out.String(), "A") {
		t.Errorf("what was said is drawn over: %q", out.String())
	}
}

func TestWithoutATerminalAnUpdateIsALine(t *testing.T) {
	t.Parallel()
	out := &strings.Builder{}
	s := &screen{out: out}
	s.show([]string{"SERVICE  ADDRESS", "web      127.80.0.0", "shop     -"})
	if got, want := out.String(), "web 127.80.0.0 | shop -\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
