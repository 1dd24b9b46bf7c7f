package demo

import (
	"fmt"
	"io"
	"strings"
	"sync"
)

// width of a screen's lines: what is longer would wrap, and be redrawn wrongly.
const width = 118

// screen is where the person reads. It is safe for concurrent use.
type screen struct {
	out io.Writer
	// redraws says that show may redraw its lines in place.
	redraws bool

	mu    sync.Mutex
	shown int // lines that the last show took, if nothing was said since
}

// say prints a line that stays.
func (s *screen) say(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shown = 0
	fmt.Fprintf(s.out, format+"\n", args...)
}

// show prints a head and rows: on a terminal over the last ones, else the rows in one line.
func (s *screen) show(rows []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.redraws {
		parts := []string{}
		for _, r := range rows[1:] {
			parts = append(parts, strings.Join(strings.Fields(r), " "))
		}
		fmt.Fprintln(s.out, strings.Join(parts, " | "))
		return
	}
	text := strings.Builder{}
	if s.shown > 0 {
		fmt.Fprintf(&text, "\x1b[%dA", s.shown)
	}
	for _, r := range rows {
		if len(r) > width {
			r = r[:width-3] + "..."
		}
		fmt.Fprintf(&text, "%s\x1b[K\n", r)
	}
	text.WriteString("\x1b[J")
	s.shown = len(rows)
	fmt.Fprint(s.out, text.String())
}
