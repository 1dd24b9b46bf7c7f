package cli

import (
	"fmt"
	"io"
	"time"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
)

// short is a duration as kubectl prints it.
func short(d time.Duration) string { return duration.HumanDuration(d) }

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// WriteText prints an explanation for people, one rung a line.
func (e *Explanation) WriteText(w io.Writer) error {
	p := &printer{w: w}
	p.line("%s", e.Subject)
	width := 0
	for _, r := range e.Rungs {
		width = max(width, utf8.RuneCountInString(r.Name))
	}
	for _, r := range e.Rungs {
		text := r.Message
		if r.State != OK && r.Reason != "" {
			text = r.Reason
			if r.Message != "" {
				text += ": " + r.Message
			}
		}
		p.line("%s %-*s  %s%s", r.State.Sign(), width, r.Name, text, e.since(r.State, r.Since))
		for _, ev := range r.Evidence {
			p.line("  %-*s  %s %s%s", width, "", ev.State.Sign(), ev.Text, e.since(ev.State, ev.Since))
		}
		if r.Fix != "" {
			p.line("  %-*s  → %s", width, "", r.Fix)
		}
	}
	first := e.First()
	switch {
	case first == nil:
		p.line("Served.")
	case first.State == Waiting:
		p.line("Not served yet: waiting at %s.", first.Name)
	default:
		p.line("Not served as wanted: broken at %s.", first.Name)
	}
	return p.err
}

func (e *Explanation) since(s State, t *metav1.Time) string {
	if s == OK || t == nil || t.IsZero() {
		return ""
	}
	return fmt.Sprintf(" (for %s)", short(max(e.Now.Sub(t.Time), 0)))
}

// printer keeps the first error.
type printer struct {
	w   io.Writer
	err error
}

func (p *printer) line(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintln(p.w, trimRight(fmt.Sprintf(format, args...)))
	}
}

func trimRight(s string) string {
	for len(s) > 0 && s[len(s)-1] == ' ' {
		s = s[:len(s)-1]
	}
	return s
}
